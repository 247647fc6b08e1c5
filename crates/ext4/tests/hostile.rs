//! Images that somebody made to do harm: each field that is used has a value that no program of
//! e2fsprogs writes. The answer is an error, soon, and with little memory.

mod support;

use std::time::{Duration, Instant};

use ext4::{Error, Fs, Hasher, New, ROOT, Rename};
use support::raw::{
    BLOCK, DESCRIPTOR, free_block, inode, map, plain, put_be32, put_extent, put_index, put_node,
    put16, put32, u32_at,
};
use support::{Disk, debugfs, mount, try_mount};

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
        let mut fs = mount(image);
        let _ = fs.allocate(number, 120, 1);
        assert!(is_corrupt(fs.truncate(number, 0)), "{room}");
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
    let start = Instant::now();
    assert!(is_corrupt(fs.lookup(&root, b"name")));
    assert!(start.elapsed() < Duration::from_secs(1));
}
