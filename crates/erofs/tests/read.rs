//! Images of the tests' own writer are read: each way that data, names and attributes can lie.

mod support;

use erofs::format::{ChunkIndex, DeviceSlot, Incompatible};
use erofs::{Error, Place, Time};
use support::writer::{
    CHUNKS, DIRECTORY, INLINE, LINK, New, REGULAR, Writer, attribute, attributes, directory,
};
use support::{content, entries, find, mount};
use zerocopy::{FromZeros, IntoBytes};

/// An image whose root has one file.
fn with(mut writer: Writer, name: &[u8], inode: u64) -> Vec<u8> {
    let root = writer.directory(&[(name, inode, 1)]);
    writer.finish(root)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 % 251) as u8).collect()
}

#[test]
fn data_in_blocks_and_beside_the_inode_is_read() {
    for bits in [9, 10, 12] {
        for length in [0, 1, 100, 511, 512, 4095, 4096, 4097, 9000] {
            let data = bytes(length);
            let mut writer = Writer::new(bits);
            let plain = writer.file(&data);
            let size = writer.size();
            let split = length.saturating_sub(1) / size * size;
            let block = writer.blocks(&data[..split]);
            let mut inline = None;
            if length - split + 64 <= size {
                inline = Some(writer.inode(New {
                    mode: REGULAR,
                    layout: INLINE,
                    size: length as u64,
                    content: block,
                    tail: &data[split..],
                    extended: Some((5, 6)),
                    links: 1,
                    ..New::default()
                }));
            }
            let mut all = vec![(&b"plain"[..], plain, 1)];
            all.extend(inline.map(|inode| (&b"inline"[..], inode, 1)));
            all.sort();
            let root = writer.directory(&all);
            let fs = mount(writer.finish(root)).unwrap();
            for (name, ..) in &all {
                let inode = find(&fs, std::str::from_utf8(name).unwrap()).unwrap();
                assert_eq!(content(&fs, &inode).unwrap(), data, "{bits} {length}");
                // What is behind the end are zeroes.
                let mut after = [1; 10];
                fs.read(&inode, length as u64, &mut after).unwrap();
                assert_eq!(after, [0; 10]);
            }
        }
    }
}

#[test]
fn chunks_are_read_with_holes() {
    for indexed in [false, true] {
        let mut writer = Writer::new(9);
        writer.add(Incompatible::CHUNKED_FILE);
        let data = bytes(1024);
        let (one, two) = (writer.blocks(&data), writer.blocks(&data[7..600]));
        let mut tail = Vec::new();
        for block in [one, u32::MAX, two] {
            if indexed {
                tail.extend_from_slice(&[0; 4]);
            }
            tail.extend_from_slice(&block.to_le_bytes());
        }
        let inode = writer.inode(New {
            mode: REGULAR,
            layout: CHUNKS,
            size: 2048 + 500,
            content: 1 | u32::from(indexed) << 5,
            tail: &tail,
            links: 1,
            ..New::default()
        });
        let fs = mount(with(writer, b"chunks", inode)).unwrap();
        let inode = find(&fs, "chunks").unwrap();
        let expected = [&data[..], &[0; 1024], &data[7..507]].concat();
        assert_eq!(content(&fs, &inode).unwrap(), expected, "{indexed}");
        let hole = fs.map(&inode, 1024).unwrap();
        assert_eq!((hole.place, hole.length), (Place::Hole, 1024));
        assert_eq!(fs.map(&inode, 2048 + 100).unwrap().length, 412);
    }
}

#[test]
fn chunks_of_devices_that_follow_are_read() {
    let mut writer = Writer::new(12);
    writer.add(Incompatible::CHUNKED_FILE | Incompatible::DEVICE_TABLE);
    let table = writer.blocks(&[0; 256]);
    writer.superblock.extra_devices.set(2);
    writer.superblock.device_table.set((table * 32) as u16);
    let mapped = writer.blocks(&bytes(8192));
    for (index, blocks) in [1, 5].into_iter().enumerate() {
        let mut slot = DeviceSlot::new_zeroed();
        slot.blocks.set(blocks);
        slot.mapped.set(mapped + index as u32);
        let at = table as usize * 4096 + index * 128;
        writer.image[at..at + 128].copy_from_slice(slot.as_bytes());
    }
    let chunk = |device: u16| {
        let mut index = ChunkIndex::new_zeroed();
        index.device.set(device);
        index.as_bytes().to_vec()
    };
    let mut file = |tail: &[u8]| {
        writer.inode(New {
            mode: REGULAR,
            layout: CHUNKS,
            size: 4096,
            content: 0x20,
            tail,
            links: 1,
            ..New::default()
        })
    };
    // Of a device's number only as many bits count as are needed.
    let (good, none) = (file(&chunk(2 | 0x80)), file(&chunk(3)));
    let root = writer.directory(&[(b"good", good, 1), (b"none", none, 1)]);
    let fs = mount(writer.finish(root)).unwrap();
    let inode = find(&fs, "good").unwrap();
    assert_eq!(content(&fs, &inode).unwrap(), bytes(8192)[4096..]);
    let blocks = fs.geometry().blocks();
    assert_eq!(blocks, mapped as u64 + 2 + 1 + 1 + 5);
    let inode = find(&fs, "none").unwrap();
    assert!(matches!(content(&fs, &inode), Err(Error::Corrupt(_))));
}

#[test]
fn names_are_found_in_directories_of_many_blocks() {
    let mut writer = Writer::new(9);
    let file = writer.file(b"x");
    let mut names: Vec<_> = (0..700u64)
        .map(|number| format!("{number:x}{}", "n".repeat(number as usize % 90)))
        .chain([".", "..", "-", "\u{e9}t\u{e9}"].map(String::from))
        .collect();
    names.push("l".repeat(255));
    names.sort();
    let list: Vec<_> = names
        .iter()
        .map(|name| (name.as_bytes(), file, 1))
        .collect();
    let root = writer.directory(&list);
    let fs = mount(writer.finish(root)).unwrap();
    let directory = fs.inode(fs.root()).unwrap();
    for name in &names {
        assert_eq!(fs.lookup(&directory, name.as_bytes()), Ok(file), "{name}");
        let other = format!("{name}!");
        assert_eq!(
            fs.lookup(&directory, other.as_bytes()),
            Err(Error::NotFound)
        );
    }
    for other in ["", "!", "~"] {
        let found = fs.lookup(&directory, other.as_bytes());
        assert_eq!(found, Err(Error::NotFound));
    }
    // From each place on the rest is read, also from one amid an entry.
    let (mut places, mut from) = (Vec::new(), 0);
    loop {
        let before = places.len();
        fs.read_directory(&directory, from, |entry| {
            places.push((entry.name.to_vec(), entry.next));
            false
        })
        .unwrap();
        let Some((_, next)) = places.get(before) else {
            break;
        };
        from = next - u64::from(next % 512 != 0);
    }
    let read: Vec<_> = places.iter().map(|(name, _)| &name[..]).collect();
    let written: Vec<_> = names.iter().map(String::as_bytes).collect();
    assert_eq!(read, written);
    assert_eq!(
        from,
        directory.size() - 1 + u64::from(directory.size().is_multiple_of(512))
    );
}

#[test]
fn inodes_of_both_forms_have_their_fields() {
    let mut writer = Writer::new(12);
    let (pipe, large) = (
        writer.inode(New {
            mode: 0o010600,
            links: 3,
            owner: (1, 2),
            ..New::default()
        }),
        writer.inode(New {
            mode: 0o104755,
            size: 1 << 40,
            extended: Some((u64::MAX, 9)),
            links: 70_000,
            owner: (1 << 20, 1 << 21),
            ..New::default()
        }),
    );
    // Major number 0x123, minor number 0x45678.
    let device = writer.inode(New {
        mode: 0o020666,
        content: 0x78 | 0x123 << 8 | 0x456 << 20,
        links: 1,
        ..New::default()
    });
    let target = b"../where\0it was";
    let link = writer.inode(New {
        mode: LINK,
        layout: INLINE,
        size: target.len() as u64,
        tail: target,
        links: 1,
        ..New::default()
    });
    let types = [(&b"d"[..], device, 3), (b"l", link, 7), (b"p", pipe, 5)];
    let root = writer.directory(&[types[0], types[1], types[2], (b"q", large, 1)]);
    let fs = mount(writer.finish(root)).unwrap();
    let directory = fs.inode(fs.root()).unwrap();
    let found = entries(&fs, &directory).unwrap();
    let kinds: Vec<_> = found.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [2, 10, 1, 8]);
    let (pipe, large) = (find(&fs, "p").unwrap(), find(&fs, "q").unwrap());
    assert_eq!((pipe.mode(), pipe.links()), (0o010600, 3));
    assert_eq!((pipe.uid(), pipe.gid()), (1, 2));
    let built = Time {
        seconds: 1_600_000_000,
        nanoseconds: 7,
    };
    assert_eq!(pipe.time(), built);
    assert_eq!((large.size(), large.links()), (1 << 40, 70_000));
    assert_eq!((large.uid(), large.gid()), (1 << 20, 1 << 21));
    let time = large.time();
    assert_eq!((time.seconds, time.nanoseconds), (-1, 9));
    assert_eq!(find(&fs, "d").unwrap().device(), (0x123, 0x45678));
    let link = find(&fs, "l").unwrap();
    assert_eq!(fs.read_link(&link).unwrap(), b"../where");
    assert_eq!(fs.lookup(&link, b"x"), Err(Error::NotDirectory));
    assert!(fs.read_link(&pipe).is_err());
}

#[test]
fn attributes_are_read() {
    let mut writer = Writer::new(12);
    writer.add(Incompatible::XATTR_PREFIXES);
    // The image's prefixes: `user.long.` and `trusted.overlay.`.
    let mut prefixes = Vec::new();
    for (family, infix) in [(1, &b"long."[..]), (4, b"overlay.")] {
        prefixes.resize(prefixes.len().next_multiple_of(4), 0);
        prefixes.extend_from_slice(&(infix.len() as u16 + 1).to_le_bytes());
        prefixes.push(family);
        prefixes.extend_from_slice(infix);
    }
    let block = writer.blocks(&prefixes);
    writer.superblock.prefixes = 2;
    writer.superblock.prefix_start.set(block * 1024);
    let shared = [attribute(6, b"shared", b"1"), attribute(1, b"two", b"22")].concat();
    let block = writer.blocks(&shared);
    writer.superblock.attribute_block.set(block);
    let large = bytes(3000);
    let own = [
        attribute(1, b"one", b"value"),
        attribute(2, b"", b"acl"),
        attribute(0x80, b"name", b"prefixed"),
        attribute(0x81, b"", b"empty"),
        attribute(5, b"lustre", b""),
        attribute(0x82, b"no such prefix", b""),
        attribute(4, b"large", &large),
    ];
    let (body, count) = attributes(&[0, 3], &own);
    let new = New {
        mode: REGULAR,
        links: 1,
        attributes: &body,
        attribute_count: count,
        ..New::default()
    };
    let (with, without) = (writer.inode(new), writer.file(b""));
    let header = writer.inode(New {
        mode: REGULAR,
        attributes: &[0; 12],
        attribute_count: 1,
        ..New::default()
    });
    let files = [(&b"header"[..], header, 1), (b"with", with, 1)];
    let root = writer.directory(&[files[0], files[1], (b"without", without, 1)]);
    let fs = mount(writer.finish(root)).unwrap();
    let inode = find(&fs, "with").unwrap();
    let mut names = Vec::new();
    fs.attributes(&inode, |family, name| {
        names.push(String::from_utf8([family, name].concat()).unwrap());
        true
    })
    .unwrap();
    let mut visits = 0;
    fs.attributes(&inode, |_, _| {
        visits += 1;
        visits < 3
    })
    .unwrap();
    assert_eq!(visits, 3);
    let expected = [
        "user.one",
        "system.posix_acl_access",
        "user.long.name",
        "trusted.overlay.",
        "trusted.large",
        "security.shared",
        "user.two",
    ];
    assert_eq!(names, expected);
    let values = [
        &b"value"[..],
        b"acl",
        b"prefixed",
        b"empty",
        &large,
        b"1",
        b"22",
    ];
    for (name, value) in names.iter().zip(values) {
        assert_eq!(
            fs.attribute(&inode, name.as_bytes()).unwrap(),
            value,
            "{name}"
        );
    }
    for name in [
        "user.on",
        "user.one2",
        "trusted.one",
        "user.",
        "other.one",
        "",
    ] {
        let found = fs.attribute(&inode, name.as_bytes());
        assert_eq!(found, Err(Error::NotFound), "{name}");
    }
    let inode = find(&fs, "without").unwrap();
    assert_eq!(fs.attribute(&inode, b"user.one"), Err(Error::NotFound));
    let inode = find(&fs, "header").unwrap();
    let found = fs.attribute(&inode, b"user.one");
    assert!(matches!(found, Err(Error::Unsupported(_))));
}

#[test]
fn prefixes_are_read_from_the_packed_inode() {
    let mut writer = Writer::new(12);
    writer.add(Incompatible::XATTR_PREFIXES | Incompatible::FRAGMENTS);
    // Number 0 would be none.
    writer.file(b"");
    let packed = writer.file(b"....\x03\0\x06ab");
    writer.superblock.packed.set(packed);
    writer.superblock.prefixes = 1;
    writer.superblock.prefix_start.set(1);
    let (body, count) = attributes(&[], &[attribute(0x80, b"c", b"v")]);
    let inode = writer.inode(New {
        mode: REGULAR,
        attributes: &body,
        attribute_count: count,
        ..New::default()
    });
    let fs = mount(with(writer, b"file", inode)).unwrap();
    let inode = find(&fs, "file").unwrap();
    assert_eq!(fs.attribute(&inode, b"security.abc").unwrap(), b"v");
}

#[test]
fn what_is_none_is_refused() {
    let plain = |change: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::new(12);
        change(&mut writer);
        let root = writer.directory(&[(b".", 0, 2)]);
        mount(writer.finish(root)).err()
    };
    assert_eq!(plain(&|_| ()), None);
    let invalid = |change| matches!(plain(change), Some(Error::Invalid(_)));
    assert!(invalid(&|writer| writer.superblock.magic.set(1)));
    assert!(invalid(&|writer| writer.superblock.directory_bits = 1));
    assert!(invalid(&|writer| writer.superblock.extension_slots = 185));
    assert!(invalid(&|writer| writer.superblock.incompatible.set(0x80)));
    // A name that fills its field has no end.
    let named = |length| plain(&|writer| writer.superblock.name[..length].fill(b'n'));
    assert_eq!(named(15), None);
    assert_eq!(named(16), Some(Error::Corrupt("name of the volume")));
    // Algorithms other than LZ4, whose configuration follows the superblock.
    let algorithms = |all| {
        plain(&|writer| {
            writer.add(Incompatible::CONFIGURATIONS);
            writer.superblock.algorithms.set(all);
            writer.image[1024 + 128..1024 + 134].copy_from_slice(&[14, 0, 0, 0, 1, 0]);
        })
    };
    assert_eq!(algorithms(1), None);
    for other in [2, 3, 0x8000] {
        assert!(matches!(algorithms(other), Some(Error::Unsupported(_))));
    }
    for bits in [8, 13, 255] {
        let mut image = Writer::new(12).finish(0);
        image[1024 + 12] = bits;
        assert!(matches!(mount(image), Err(Error::Invalid(_))), "{bits}");
    }
    let mut writer = Writer::new(12);
    let root = writer.directory(&[(b".", 0, 2)]);
    let mut image = writer.finish(root);
    image[2000] ^= 1;
    assert_eq!(mount(image).err(), Some(Error::Checksum));
    assert_eq!(mount(vec![0; 1000]).err(), Some(Error::Io));
    let mut writer = Writer::new(12);
    let file = writer.file(b"");
    let image = writer.finish(file);
    assert!(matches!(mount(image), Err(Error::Invalid(_))));
}

#[test]
fn damage_is_an_error() {
    let mut writer = Writer::new(12);
    let mut inode = |new: New| writer.inode(New { links: 1, ..new });
    let new = |mode, layout, size, content| New {
        mode,
        layout,
        size,
        content,
        extended: Some((0, 0)),
        ..New::default()
    };
    let far = inode(new(REGULAR, 0, 4096, u32::MAX - 1));
    let crossing = inode(new(REGULAR, INLINE, 4000, 0));
    let negative = inode(new(REGULAR, 0, 1 << 63, 0));
    let untyped = inode(new(0o030000, 0, 0, 0));
    let unknown = inode(new(REGULAR, 5, 0, 0));
    let compressed = inode(new(REGULAR, 3, 0, 0));
    let strange_chunk = inode(new(REGULAR, CHUNKS, 0, 0x40));
    let holes = inode(new(DIRECTORY, CHUNKS, i64::MAX as u64, 31));
    let reserved = inode(new(REGULAR, 8, 0, 0));
    let root = writer.directory(&[(b".", 0, 2)]);
    let fs = mount(writer.finish(root)).unwrap();
    let mut byte = [0];
    let inode = fs.inode(far).unwrap();
    assert_eq!(fs.read(&inode, 0, &mut byte), Err(Error::Io));
    let inode = fs.inode(crossing).unwrap();
    let read = fs.read(&inode, 0, &mut byte);
    assert!(matches!(read, Err(Error::Corrupt(_))));
    for number in [negative, untyped] {
        assert!(matches!(fs.inode(number), Err(Error::Corrupt(_))));
    }
    for number in [unknown, compressed, strange_chunk, reserved] {
        assert!(matches!(fs.inode(number), Err(Error::Unsupported(_))));
    }
    for number in [1 << 40, u64::MAX, u64::MAX / 32] {
        assert_eq!(fs.inode(number).err(), Some(Error::Io));
    }
    let inode = fs.inode(holes).unwrap();
    let before = fs_reads(&fs);
    assert!(fs.lookup(&inode, b"x").is_err());
    assert!(fs.read_directory(&inode, 0, |_| true).is_err());
    assert!(fs_reads(&fs) - before < 300, "steps");
}

fn fs_reads(fs: &erofs::Fs<support::Disk>) -> usize {
    fs.device().reads.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn damaged_directories_are_errors() {
    let entry = |name: u16| {
        let mut raw = directory(&[(b"x", 5, 1)], 4096);
        raw[8..10].copy_from_slice(&name.to_le_bytes());
        raw
    };
    let slash = directory(&[(b"a/b", 5, 1)], 4096);
    let mut backward = directory(&[(b"aa", 5, 1), (b"b", 5, 1)], 4096);
    backward[20] = 3;
    let long = directory(&[(&[b'l'; 256], 5, 1)], 4096);
    for data in [
        entry(0),
        entry(13),
        entry(4096),
        entry(2400),
        slash,
        backward,
        long,
    ] {
        let mut writer = Writer::new(12);
        let content = writer.blocks(&data);
        let root = writer.inode(New {
            mode: DIRECTORY,
            size: data.len() as u64,
            content,
            ..New::default()
        });
        let fs = mount(writer.finish(root)).unwrap();
        let root = fs.inode(fs.root()).unwrap();
        let read = fs.read_directory(&root, 0, |_| true);
        assert!(matches!(read, Err(Error::Corrupt(_))), "{data:?}");
        assert!(fs.lookup(&root, b"zz").is_err());
    }
}

#[test]
fn prefixes_in_a_compressed_inode_are_refused() {
    let mut writer = Writer::new(10);
    writer.add(Incompatible::FRAGMENTS | Incompatible::ZERO_PADDING);
    // Number 0 would be none.
    let file = writer.file(b"");
    let packed = writer.inode(New {
        mode: REGULAR,
        layout: 1,
        size: 9,
        tail: &[0; 32],
        links: 1,
        ..New::default()
    });
    writer.superblock.packed.set(packed);
    writer.superblock.prefixes = 1;
    let mounted = mount(with(writer, b"file", file)).map(drop);
    assert_eq!(mounted, Err(Error::Unsupported("compressed prefixes")));
}
