//! Images made to do harm: each field that is used gets a value that e2fsprogs never writes. The
//! result is an error, soon, and with little memory.

mod support;

use std::time::Duration;

use ext4::{Error, Fs, Hasher, New, ROOT, Rename};
use support::raw::{
    BLOCK, DESCRIPTOR, free_block, inode, map, plain, put_be32, put_extent, put_index, put_node,
    put16, put32, u32_at,
};
use support::{Disk, debugfs, mount, try_mount, used};

/// An empty file, and a file system with it.
fn with_file(arguments: &str) -> Option<(Vec<u8>, u32)> {
    let mut fs = mount(plain(arguments)?);
    let number = file(&mut fs, b"file");
    Some((fs.unmount().unwrap().image, number))
}

fn file(fs: &mut Fs<Disk>, name: &[u8]) -> u32 {
    let new = New {
        mode: 0o100600,
        ..New::default()
    };
    fs.create(ROOT, name, new).unwrap().number
}

fn is_corrupt<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Corrupt(_)))
}

#[test]
fn an_extent_does_not_end_beyond_the_last_block() {
    let Some((mut image, number)) = with_file("^64bit") else {
        return;
    };
    let (node, block) = (map(&image, number), free_block(&image, 0));
    put_node(&mut image, node, 1, 4, 0);
    put_extent(&mut image, node, 0, u32::MAX, 1, block);
    let mut fs = mount(image);
    let inode = fs.inode(number).unwrap();
    assert!(is_corrupt(fs.next_mapped(&inode, 0)));
    assert!(is_corrupt(fs.truncate(number, 0)));
}

#[test]
fn a_tree_whose_order_is_wrong_is_not_followed_to_another_leaf() {
    let Some((image, number)) = with_file("^64bit") else {
        return;
    };
    let root = map(&image, number);
    let blocks = [0, 1, 2].map(|index| free_block(&image, index));
    let nodes = blocks.map(|block| block as usize * BLOCK);
    // They are in use, so that they could be freed.
    let mut image = image;
    let bitmap = u32_at(&image, DESCRIPTOR) as usize * BLOCK;
    for block in blocks[0] - 1..blocks[0] + 7 {
        image[bitmap + block as usize / 8] |= 1 << (block % 8);
    }
    let place = inode(&image, number);
    put32(&mut image, place + 0x1c, 100);
    // The first leaf has what belongs to the second, which is empty or has no room.
    for room in [84, 0] {
        let mut image = image.clone();
        put_node(&mut image, root, 2, 4, 1);
        put_index(&mut image, root, 0, 0, blocks[0]);
        put_index(&mut image, root, 1, 100, blocks[1]);
        put_node(&mut image, nodes[0], 1, 84, 0);
        put_extent(&mut image, nodes[0], 0, 150, 1, blocks[2]);
        put_node(&mut image, nodes[1], 0, room, 0);
        let mut fs = mount(image.clone());
        assert!(is_corrupt(fs.truncate(number, 0)), "{room}");
        // The same, where the first leaf begins where it should.
        put_node(&mut image, nodes[0], 2, 84, 0);
        put_extent(&mut image, nodes[0], 0, 0, 1, blocks[2] + 1);
        put_extent(&mut image, nodes[0], 1, 150, 1, blocks[2]);
        let mut fs = mount(image.clone());
        let _ = fs.allocate(number, 120, 1);
        assert!(is_corrupt(fs.truncate(number, 0)), "{room}");
        // The second leaf has something, which is taken for it.
        put_node(&mut image, nodes[1], 1, 84, 0);
        put_extent(&mut image, nodes[1], 0, 100, 1, blocks[2] + 2);
        let mut fs = mount(image);
        assert!(is_corrupt(fs.punch_hole(number, 1, 1000)), "{room}");
    }
}

#[test]
fn a_group_descriptor_is_not_believed_before_the_replay() {
    let Some(mut image) = plain("64bit") else {
        return;
    };
    put32(&mut image, DESCRIPTOR + 0x8, u32::MAX);
    put32(&mut image, DESCRIPTOR + 0x28, u32::MAX);
    let incompatible = u32_at(&image, 1024 + 0x60);
    put32(&mut image, 1024 + 0x60, incompatible | 4);
    assert!(is_corrupt(try_mount(Disk::new(image), true)));
}

#[test]
fn a_replay_does_not_change_the_size_of_blocks() {
    let Some(image) = plain("^64bit") else {
        return;
    };
    let mut superblock = image[BLOCK..2 * BLOCK].to_vec();
    let blocks = u32_at(&superblock, 4);
    put32(&mut superblock, 0x18, 2);
    put32(&mut superblock, 0x4, blocks / 4);
    put32(&mut superblock, 0x14, 0);
    let content = support::Scratch::new(&superblock);
    let commands = [
        "jo".to_string(),
        format!("jw -b 1 {}", content.0.display()),
        "jc".to_string(),
    ];
    let (image, _) = debugfs(&image, &commands);
    assert_eq!(
        try_mount(Disk::new(image), true).err(),
        Some(Error::Corrupt("superblock in the journal"))
    );
}

/// A journal is mapped by block numbers here, and each of them leads to the same blocks.
#[test]
fn a_journal_is_not_longer_than_the_file_system() {
    let Some(mut image) = plain("^64bit,^extents") else {
        return;
    };
    let (place, table) = (inode(&image, 8), free_block(&image, 0));
    let first = u32_at(&image, place + 0x28);
    let entries = table as usize * BLOCK;
    for index in 0..BLOCK / 4 {
        put32(&mut image, entries + index * 4, table);
    }
    for index in 1..15 {
        put32(&mut image, place + 0x28 + index * 4, table);
    }
    let length = 16_000_000;
    put32(&mut image, place + 0x4, u32::MAX);
    put32(&mut image, place + 0x6c, 3);
    put_be32(&mut image, first as usize * BLOCK + 0x10, length);
    let incompatible = u32_at(&image, 1024 + 0x60);
    put32(&mut image, 1024 + 0x60, incompatible | 4);
    assert_eq!(
        try_mount(Disk::new(image), true).err(),
        Some(Error::Corrupt("superblock of the journal"))
    );
}

#[test]
fn directories_above_each_other_end_a_rename() {
    let Some(image) = plain("^64bit") else {
        return;
    };
    let mut fs = mount(image);
    let directory = |fs: &mut Fs<Disk>, parent, name: &[u8]| {
        let new = New {
            mode: 0o040700,
            ..New::default()
        };
        fs.create(parent, name, new).unwrap().number
    };
    let one = directory(&mut fs, ROOT, b"one");
    let two = directory(&mut fs, one, b"two");
    let moved = directory(&mut fs, ROOT, b"moved");
    let block = |fs: &mut Fs<Disk>, number| {
        let inode = fs.inode(number).unwrap();
        fs.map(&inode, 0).unwrap().unwrap().physical as usize
    };
    let place = block(&mut fs, one) * BLOCK;
    let mut image = fs.unmount().unwrap().image;
    put32(&mut image, place + 12, two);
    let mut fs = mount(image);
    let result = fs.rename(ROOT, b"moved", two, b"moved", Rename::Replace);
    assert_eq!(result.err(), Some(Error::Corrupt("loop of directories")));
    assert!(fs.inode(moved).is_ok());
}

/// All entries of an index lead to the same leaf, and each says that the hash goes on.
#[test]
fn an_index_is_not_followed_in_circles() {
    let Some(image) = plain("^64bit,large_dir") else {
        return;
    };
    let mut fs = mount(image);
    for number in 0..40 {
        file(&mut fs, format!("{number:040}").as_bytes());
    }
    let root = fs.inode(ROOT).unwrap();
    assert!(root.size() > 2 * BLOCK as u64);
    let geometry = *fs.geometry();
    let hasher = Hasher::new(
        geometry.hash_version,
        geometry.hash_seed,
        geometry.hash_unsigned,
    );
    let hash = hasher.unwrap().hash(b"name");
    let [first, node] =
        [0, 1].map(|block| fs.map(&root, block).unwrap().unwrap().physical as usize);
    let mut image = fs.unmount().unwrap().image;
    // Two levels below the root. Both nodes are the second block, which is the leaf, too.
    image[first * BLOCK + 24 + 6] = 2;
    for (at, room) in [(first * BLOCK + 32, 124), (node * BLOCK + 8, 127)] {
        for entry in 0..room {
            put32(&mut image, at + entry * 8, hash | 1);
            put32(&mut image, at + entry * 8 + 4, 1);
        }
        put16(&mut image, at, room as u16);
        put16(&mut image, at + 2, room as u16);
    }
    put32(&mut image, node * BLOCK, 0);
    put16(&mut image, node * BLOCK + 4, BLOCK as u16);
    put16(&mut image, node * BLOCK + 6, 0);
    let mut fs = try_mount(Disk::new(image), true).unwrap();
    let root = fs.inode(ROOT).unwrap();
    let before = used();
    assert!(is_corrupt(fs.lookup(&root, b"name")));
    assert!(used() - before < Duration::from_secs(1));
}

/// Maps of files that lead to what is not theirs.
#[test]
fn files_do_not_reach_the_metadata_of_groups() {
    let Some((image, number)) = with_file("^64bit") else {
        return;
    };
    let table = u32_at(&image, DESCRIPTOR + 8);
    let journal = u32_at(&image, map(&image, 8) + 12 + 8);
    for target in [1, 2, table - 1, table, journal] {
        let mut image = image.clone();
        let node = map(&image, number);
        put_node(&mut image, node, 1, 4, 0);
        put_extent(&mut image, node, 0, 0, 1, target);
        let mut fs = mount(image.clone());
        let inode = fs.inode(number).unwrap();
        assert!(is_corrupt(fs.map(&inode, 0)), "{target}");
        assert!(is_corrupt(fs.truncate(number, 0)), "{target}");
        // The same as a block of attributes.
        let place = support::raw::inode(&image, number);
        put_node(&mut image, node, 0, 4, 0);
        put32(&mut image, place + 0x68, target);
        let mut fs = mount(image);
        let inode = fs.inode(number).unwrap();
        assert!(is_corrupt(fs.attributes(&inode, |_, _| {})), "{target}");
    }
    // A bitmap that says that the blocks of inodes are free.
    let mut lies = image.clone();
    let bitmap = u32_at(&image, DESCRIPTOR) as usize * BLOCK;
    lies[bitmap..bitmap + BLOCK].fill(0);
    let mut fs = mount(lies);
    assert!(is_corrupt(fs.allocate(number, 0, 1)));
    // A journal in the inodes.
    let mut lies = image.clone();
    let node = map(&image, 8);
    put32(&mut lies, node + 12 + 8, table);
    assert!(is_corrupt(try_mount(Disk::new(lies), false)));
    // Inodes in the place of a bitmap.
    let mut lies = image;
    put32(&mut lies, DESCRIPTOR + 4, table);
    assert!(is_corrupt(try_mount(Disk::new(lies), false)));
}

#[test]
fn names_lead_neither_to_reserved_nor_to_deleted_inodes() {
    let Some((image, number)) = with_file("^64bit") else {
        return;
    };
    let mut fs = mount(image);
    let root = fs.inode(ROOT).unwrap();
    let block = fs.map(&root, 0).unwrap().unwrap().physical as usize * BLOCK;
    let image = fs.unmount().unwrap().image;
    let entry = (block..block + BLOCK).find(|at| &image[*at + 8..*at + 12] == b"file");
    let entry = entry.unwrap();
    for target in [1, 5, 7, 8, 10] {
        let mut image = image.clone();
        put32(&mut image, entry, target);
        let mut fs = mount(image);
        let root = fs.inode(ROOT).unwrap();
        assert!(is_corrupt(fs.lookup(&root, b"file")), "{target}");
        assert!(is_corrupt(fs.unlink(ROOT, b"file")), "{target}");
    }
    let mut image = image;
    let place = inode(&image, number);
    put16(&mut image, place + 0x1a, 0);
    let mut fs = mount(image);
    let root = fs.inode(ROOT).unwrap();
    assert!(is_corrupt(fs.lookup_inode(&root, b"file")));
    assert!(is_corrupt(fs.unlink(ROOT, b"file")));
    let rename = fs.rename(ROOT, b"file", ROOT, b"other", Rename::Replace);
    assert!(is_corrupt(rename));
}

#[test]
fn a_list_of_orphans_that_leads_nowhere_is_dropped_and_counted() {
    let Some((image, number)) = with_file("^64bit") else {
        return;
    };
    // A reserved inode, none, one that is free; one that is its own successor ends.
    for first in [3, 100_000, number + 1, number] {
        let mut image = image.clone();
        put32(&mut image, 1024 + 0xe8, first);
        let place = inode(&image, number);
        put32(&mut image, place + 0x14, number);
        let mut fs = mount(image);
        let root = fs.inode(ROOT).unwrap();
        assert_eq!(fs.lookup(&root, b"file"), Ok(number));
        let image = fs.unmount().unwrap().image;
        assert_eq!(u32_at(&image, 1024 + 0xe8), 0);
        let errors = u32_at(&image, 1024 + 0x194);
        assert_eq!(errors > 0, first != number, "{first}");
    }
}

/// A file of 4 TiB whose tables have nothing but zeroes at their beginnings.
#[test]
fn a_hole_of_a_block_map_is_skipped() {
    let Some(mut image) = plain("^64bit,^extents,^has_journal") else {
        return;
    };
    let table = free_block(&image, 0);
    let place = inode(&image, 11);
    for index in 0..15 {
        put32(&mut image, place + 0x28 + index * 4, 0);
    }
    put32(&mut image, place + 0x28 + 14 * 4, table);
    put32(&mut image, table as usize * BLOCK + 255 * 4, table + 1);
    put32(
        &mut image,
        (table as usize + 1) * BLOCK + 255 * 4,
        table + 2,
    );
    put32(
        &mut image,
        (table as usize + 2) * BLOCK + 100 * 4,
        table + 3,
    );
    put32(&mut image, place + 0x4, 0);
    put32(&mut image, place + 0x6c, 0x3f0);
    put16(&mut image, place, 0o100600);
    let mut fs = try_mount(Disk::new(image.clone()), true).unwrap();
    let file = fs.inode(11).unwrap();
    let before = used();
    let block = 12 + 256 + 65536 + 255 * 65536 + 255 * 256 + 100;
    assert_eq!(fs.next_data(&file, 0), Ok(Some(block)));
    assert_eq!(fs.next_data(&file, block + 1).ok().flatten(), None);
    // Tables that lead to themselves: more blocks than the disk has.
    for index in 0..256 {
        put32(&mut image, table as usize * BLOCK + index * 4, table);
    }
    let mut fs = try_mount(Disk::new(image), true).unwrap();
    let file = fs.inode(11).unwrap();
    assert!(is_corrupt(fs.next_hole(&file, 70_000)));
    assert!(used() - before < Duration::from_secs(5));
}

#[test]
fn values_of_attributes_do_not_share_their_bytes() {
    let Some((image, number)) = with_file("^64bit") else {
        return;
    };
    let mut fs = mount(image);
    for name in [b"user.a", b"user.b", b"user.c"] {
        fs.set_attribute(number, name, Some(&[7; 300])).unwrap();
    }
    let inode = fs.inode(number).unwrap();
    let mut image = fs.unmount().unwrap().image;
    let place = support::raw::inode(&image, inode.number);
    let block = u32_at(&image, place + 0x68) as usize * BLOCK;
    for entry in 0..3 {
        let at = block + 32 + entry * 20;
        put16(&mut image, at + 2, 100);
        put32(&mut image, at + 8, 900);
    }
    let mut fs = mount(image);
    let inode = fs.inode(number).unwrap();
    assert!(is_corrupt(fs.attribute(&inode, b"user.a")));
    assert!(is_corrupt(fs.set_attribute(number, b"user.d", Some(b"x"))));
}

/// Blocks that are only read are dropped again.
#[test]
fn reading_does_not_fill_the_memory() {
    let arguments = "-b 1024 -J size=1 -N 65536 -O ^metadata_csum";
    let Some(image) = support::make(40, arguments) else {
        return;
    };
    let mut fs = try_mount(Disk::new(image), true).unwrap();
    let mut reads = [0; 2];
    for reads in &mut reads {
        fs.device().works_for = usize::MAX;
        for number in 1..=fs.geometry().inodes {
            let _ = fs.inode(number);
        }
        *reads = usize::MAX - fs.device().works_for;
    }
    assert!(reads[1] > 8192, "{reads:?}");
}

/// Flags of groups mean nothing without checksums: Linux does not heed them then, either.
#[test]
fn a_group_without_a_checksum_is_not_taken_for_unused() {
    let Some((mut image, number)) = with_file("^64bit") else {
        return;
    };
    let free = mount(image.clone()).statistics().unwrap();
    put16(&mut image, DESCRIPTOR + 0x12, 3);
    let mut fs = mount(image);
    assert_eq!(file(&mut fs, b"other"), number + 1);
    let inode = fs.unlink(ROOT, b"other").unwrap();
    fs.evict(inode.number).unwrap();
    assert_eq!(fs.statistics().unwrap(), free);
}
