//! Reading what e2fsprogs writes: directories with each hash, links, inline data, block numbers,
//! attributes. What is not supported is refused by name.

mod support;

use std::collections::BTreeSet;

use ext4::{Error, Fs, Hasher, New, ROOT};
use support::{Disk, Scratch, debugfs, fsck, make, mount, try_mount};

fn names(fs: &mut Fs<Disk>, number: u32) -> BTreeSet<Vec<u8>> {
    let directory = fs.inode(number).unwrap();
    let mut names = BTreeSet::new();
    fs.read_directory(&directory, 0, |entry| names.insert(entry.name.to_vec()))
        .unwrap();
    names
}

/// The seed of these values is the text that they were asked from debugfs with:
/// `dx_hash -h HASH -s 01020304-0506-0708-090a-0b0c0d0e0f10 NAME`.
#[test]
fn hashes_are_those_of_debugfs() {
    let seed = [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d];
    let long = b"a_longer_name_with_more_than_thirty_two_bytes_in_it".as_slice();
    let short = b"hello.txt".as_slice();
    let expected = [
        (0, short, 0x65a0_5776),
        (0, long, 0x79a8_1fd8),
        (1, short, 0xac15_d19c),
        (1, long, 0x8a50_4282),
        (2, short, 0x8912_606c),
        (2, long, 0x1783_6304),
    ];
    for (version, name, hash) in expected {
        assert_eq!(
            Hasher::new(version, seed, false).unwrap().hash(name),
            hash,
            "{version}"
        );
    }
}

#[test]
fn what_debugfs_writes_is_read() {
    let kinds = [
        "-b 1024 -J size=1",
        "-b 1024 -O ^extents,^64bit,^has_journal",
        "-b 1024 -J size=1 -O inline_data",
    ];
    for kind in kinds {
        let Some(image) = make(6, kind) else { return };
        let content: Vec<u8> = (0..40_000u32).map(|at| (at / 1024) as u8 + 1).collect();
        let (big, small) = (Scratch::new(&content), Scratch::new(b"short"));
        let commands = [
            "mkdir d".to_string(),
            format!("write {} d/big", big.0.display()),
            format!("write {} d/small", small.0.display()),
            "symlink d/link target".to_string(),
            format!("symlink d/long {}", "x".repeat(80)),
            "ea_set d/small user.one value".to_string(),
        ];
        let (image, _) = debugfs(&image, &commands);
        let mut fs = try_mount(Disk::new(image), true).unwrap();
        let root = fs.inode(ROOT).unwrap();
        let number = fs.lookup(&root, b"d").unwrap();
        let expected = [".", "..", "big", "small", "link", "long"].map(|name| name.into());
        assert_eq!(names(&mut fs, number), BTreeSet::from(expected), "{kind}");
        let directory = fs.inode(number).unwrap();
        let mut open = |name: &[u8]| {
            let number = fs.lookup(&directory, name).unwrap();
            fs.inode(number).unwrap()
        };
        let (big, small) = (open(b"big"), open(b"small"));
        let (link, long) = (open(b"link"), open(b"long"));
        assert_eq!(fs.read_link(&link).unwrap(), b"target");
        assert_eq!(fs.read_link(&long).unwrap(), [b'x'; 80]);
        assert_eq!(fs.attribute(&small, b"user.one").unwrap(), b"value");
        if kind.contains("inline") {
            assert_eq!(fs.read_inline(&small).unwrap(), b"short");
        }
        for block in 0..40 {
            let extent = fs.map(&big, block).unwrap().unwrap();
            let at = extent.physical as usize * 1024;
            assert_eq!(fs.device().image[at], block as u8 + 1, "{kind}: {block}");
        }
    }
}

#[test]
fn a_large_directory_is_split_and_emptied() {
    for kind in [
        "-b 1024 -J size=1 -N 4096",
        "-b 1024 -J size=1 -N 4096 -O ^metadata_csum",
    ] {
        let Some(image) = make(12, kind) else { return };
        let mut fs = mount(image);
        let name = |number: u32| format!("{number:05}-{}", "long".repeat(20)).into_bytes();
        for number in 0..2500 {
            let new = New {
                mode: 0o100644,
                ..New::default()
            };
            fs.create(ROOT, &name(number), new).unwrap();
        }
        let root = fs.inode(ROOT).unwrap();
        for number in 0..2500 {
            fs.lookup(&root, &name(number)).unwrap();
        }
        assert_eq!(fs.lookup(&root, b"other"), Err(Error::NotFound));
        assert_eq!(names(&mut fs, ROOT).len(), 2503);
        let image = fs.unmount().unwrap().image;
        fsck(&image, "full");
        let mut fs = mount(image);
        for number in 0..2500 {
            let inode = fs.unlink(ROOT, &name(number)).unwrap();
            fs.evict(inode.number).unwrap();
        }
        assert_eq!(names(&mut fs, ROOT).len(), 3);
        fsck(&fs.unmount().unwrap().image, "emptied");
    }
}

#[test]
fn a_device_that_fails_leaves_an_image_that_can_be_mounted() {
    let Some(image) = make(5, "-b 1024 -J size=1") else {
        return;
    };
    for works_for in (0..400).step_by(13) {
        let mut disk = Disk::new(image.clone());
        disk.works_for = works_for;
        let Ok(mut fs) = try_mount(disk, false) else {
            continue;
        };
        for number in 0..40 {
            let name = format!("file {number}").into_bytes();
            let made = fs.create(
                ROOT,
                &name,
                New {
                    mode: 0o100600,
                    ..New::default()
                },
            );
            if made.and_then(|_| fs.commit()).is_err() {
                break;
            }
        }
        fs.device().works_for = usize::MAX;
        let image = fs.device().image.clone();
        fsck(&mount(image).unmount().unwrap().image, "after errors");
    }
}

#[test]
fn orphans_are_removed_by_the_next_mount() {
    let Some(image) = make(5, "-b 1024 -J size=1") else {
        return;
    };
    let mut fs = mount(image);
    let free = fs.statistics().unwrap();
    for name in [b"one", b"two"] {
        let inode = fs
            .create(
                ROOT,
                name,
                New {
                    mode: 0o100600,
                    ..New::default()
                },
            )
            .unwrap();
        fs.allocate(inode.number, 5, 10).unwrap();
        fs.unlink(ROOT, name).unwrap();
    }
    fs.commit().unwrap();
    let image = fs.device().image.clone();
    let mut fs = mount(image);
    assert_eq!(fs.statistics().unwrap(), free);
    fsck(&fs.unmount().unwrap().image, "orphans");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let refused = [
        ("-b 1024 -J size=1 -O quota", "quota"),
        ("-b 1024 -J size=1 -O bigalloc", "bigalloc"),
        ("-b 1024 -J size=1 -O inline_data", "write with inline_data"),
        ("-b 1024 -J size=1 -O mmp", "mmp"),
        ("-b 1024 -J size=1 -O ea_inode", "ea_inode"),
        ("-b 1024 -J size=1 -O casefold", "casefold"),
        ("-b 1024 -O ^has_journal", "write without has_journal"),
        (
            "-b 1024 -J size=1 -O ^extents,^64bit",
            "write without extents",
        ),
    ];
    for (arguments, name) in refused {
        let Some(image) = make(6, arguments) else {
            return;
        };
        let error = try_mount(Disk::new(image), false).err();
        assert_eq!(error, Some(Error::Unsupported(name)), "{arguments}");
    }
}

#[test]
fn a_full_disk_is_left_whole_and_emptied() {
    let Some(image) = make(5, "-b 1024 -J size=1") else {
        return;
    };
    let mut fs = mount(image);
    fs.commit().unwrap();
    let free = fs.statistics().unwrap();
    let file = |name: &[u8], fs: &mut Fs<Disk>| {
        fs.create(
            ROOT,
            name,
            New {
                mode: 0o100600,
                ..New::default()
            },
        )
        .unwrap()
        .number
    };
    let (one, two) = (file(b"one", &mut fs), file(b"two", &mut fs));
    // Two files by turns have an extent for each block.
    let error = (0..).find_map(|block| {
        let first = fs
            .allocate(one, block * 2, 1)
            .and_then(|_| fs.mark_written(one, block * 2, 1));
        first.and_then(|_| fs.allocate(two, block, 1)).err()
    });
    assert_eq!(error, Some(Error::NoSpace));
    fs.extend(one, 1 << 30).unwrap();
    fs.extend(two, 1 << 30).unwrap();
    fs.commit().unwrap();
    fsck(
        &mount(fs.device().image.clone()).unmount().unwrap().image,
        "full",
    );
    for name in [b"one", b"two"] {
        let inode = fs.unlink(ROOT, name).unwrap();
        fs.evict(inode.number).unwrap();
    }
    assert_eq!(fs.statistics().unwrap(), free);
    fsck(&fs.unmount().unwrap().image, "emptied");
}
