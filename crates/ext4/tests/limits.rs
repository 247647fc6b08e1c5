//! Limits of the format: names, links, times, attributes, and lists that are long.

mod support;

use std::time::Duration;

use ext4::{Change, Error, Fs, Inode, New, Options, ROOT, Stamp, Time};
use support::raw::{BLOCK, inode, map, plain, put_extent, put_index, put_node, put16};
use support::{Disk, fsck, make, mount, used};

fn new(mode: u16) -> New<'static> {
    New {
        mode,
        ..New::default()
    }
}

fn file(fs: &mut Fs<Disk>, name: &[u8]) -> u32 {
    fs.create(ROOT, name, new(0o100600)).unwrap().number
}

#[test]
fn names_links_and_targets_have_their_limits() {
    let Some(image) = plain("^64bit") else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, &[b'x'; 255]);
    let long = fs.create(ROOT, &[b'x'; 256], new(0o100600));
    assert_eq!(long.err(), Some(Error::TooLong));
    for (length, error) in [
        (0, Some(Error::Invalid)),
        (1023, None),
        (1024, Some(Error::TooLong)),
    ] {
        let target = vec![b't'; length];
        let link = New {
            target: &target,
            ..new(0o120777)
        };
        assert_eq!(
            fs.create(ROOT, format!("link {length}").as_bytes(), link)
                .err(),
            error,
            "{length}"
        );
    }
    let directory = fs.create(ROOT, b"directory", new(0o040700)).unwrap();
    let mut image = fs.unmount().unwrap().image;
    for number in [number, directory.number] {
        let place = inode(&image, number) + 0x1a;
        put16(&mut image, place, 65_000);
    }
    let mut fs = mount(image);
    let link = fs.link(number, ROOT, b"one more");
    assert_eq!(link.err(), Some(Error::TooManyLinks));
    // A directory is not counted further, but only where it has an index.
    let sub = |fs: &mut Fs<Disk>| fs.create(directory.number, b"sub", new(0o040700));
    assert_eq!(sub(&mut fs).err(), Some(Error::TooManyLinks));
    for number in 0..60 {
        let name = format!("{number} {}", "y".repeat(40));
        fs.create(directory.number, name.as_bytes(), new(0o100600))
            .unwrap();
    }
    sub(&mut fs).unwrap();
    assert_eq!(fs.inode(directory.number).unwrap().links(), 1);
    fs.rmdir(directory.number, b"sub").unwrap();
    assert_eq!(fs.inode(directory.number).unwrap().links(), 1);
}

#[test]
fn times_go_from_1901_to_2446() {
    for (size, first, last) in [
        (256, -(1i64 << 31), (1i64 << 34) - (1 << 31) - 1),
        (128, -(1 << 31), (1 << 31) - 1),
    ] {
        let arguments = format!("-b 1024 -J size=1 -I {size}");
        let Some(image) = make(5, &arguments) else {
            return;
        };
        let mut fs = mount(image);
        let number = file(&mut fs, b"file");
        for (wanted, stored) in [
            (first, first),
            (last, last),
            (first - 1, first),
            (last + 1, last),
            (i64::MAX, last),
            (0, 0),
            (-1, -1),
        ] {
            let time = Time {
                seconds: wanted,
                nanoseconds: 0,
            };
            let change = Change {
                modify: Some(time),
                ..Change::default()
            };
            let inode = fs.change_inode_attributes(number, change).unwrap();
            assert_eq!(inode.time(Stamp::Modify).seconds, stored, "{size} {wanted}");
        }
    }
}

fn attribute(fs: &mut Fs<Disk>, inode: &Inode, name: &[u8]) -> Option<Vec<u8>> {
    fs.attribute(inode, name).ok()
}

/// Inodes of the time before there were fields beyond 128 bytes have the room, but do not use it.
#[test]
fn an_inode_without_further_fields_keeps_its_attributes_in_a_block() {
    let Some(image) = plain("^64bit") else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let mut image = fs.unmount().unwrap().image;
    let place = inode(&image, number) + 128;
    put16(&mut image, place, 0);
    image[place..place + 128].fill(0);
    let mut fs = mount(image);
    fs.set_attribute(number, b"user.name", Some(b"value"))
        .unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(
        attribute(&mut fs, &inode, b"user.name"),
        Some(b"value".into())
    );
    fsck(&fs.unmount().unwrap().image, "without fields");
}

#[test]
fn attributes_are_removed_from_a_full_disk() {
    let Some(image) = plain("^64bit") else { return };
    let mut fs = mount(image);
    let (number, other) = (file(&mut fs, b"file"), file(&mut fs, b"other"));
    for name in [b"user.one", b"user.two"] {
        fs.set_attribute(number, name, Some(&[1; 200])).unwrap();
    }
    let error = (0..).find_map(|block| fs.allocate(other, block, 1).err());
    assert_eq!(error, Some(Error::NoSpace));
    fs.commit().unwrap();
    fs.set_attribute(number, b"user.one", None).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(attribute(&mut fs, &inode, b"user.one"), None);
    assert_eq!(attribute(&mut fs, &inode, b"user.two"), Some(vec![1; 200]));
    let reserved = fs.set_attribute(number, b"system.data", Some(b"x"));
    assert_eq!(reserved, Err(Error::Invalid));
    fsck(&fs.unmount().unwrap().image, "full");
}

/// The first of many files that are open without a name is closed first.
#[test]
fn an_orphan_leaves_a_long_list_at_once() {
    let Some(image) = make(40, "-b 1024 -J size=4 -N 16384") else {
        return;
    };
    let mut fs = mount(image);
    let unnamed = |fs: &mut Fs<Disk>| fs.create_unnamed(ROOT, new(0o100600)).unwrap().number;
    let all: Vec<u32> = (0..8000).map(|_| unnamed(&mut fs)).collect();
    let before = used();
    let (first, second) = all.split_at(4000);
    for number in first {
        fs.evict(*number).unwrap();
    }
    // Some in the middle, and others while there are such.
    for number in second.iter().step_by(2) {
        fs.evict(*number).unwrap();
    }
    for number in second.iter().skip(1).step_by(2) {
        assert!(fs.link(*number, ROOT, b"lost+found").is_err());
        fs.evict(*number).unwrap();
    }
    let taken = used() - before;
    fsck(&fs.unmount().unwrap().image, "orphans");
    assert!(taken < Duration::from_secs(15), "{taken:?}");
}

/// A tree of the greatest depth, whose nodes have one entry each, grows and goes.
#[test]
fn a_tree_of_five_levels_is_read_grown_and_freed() {
    let Some(image) = plain("^64bit") else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    fs.preallocate(number, 0, 6 * 1024, false).unwrap();
    let inode = fs.inode(number).unwrap();
    let extent = fs.map(&inode, 0).unwrap().unwrap();
    assert_eq!(extent.length, 6);
    let first = extent.physical as u32;
    let mut image = fs.unmount().unwrap().image;
    // Five of its blocks become nodes, the sixth stays.
    let mut node = map(&image, number);
    for depth in (1..=5).rev() {
        let room = if depth == 5 { 4 } else { 84 };
        put_node(&mut image, node, 1, room, depth);
        put_index(&mut image, node, 0, 0, first + 5 - u32::from(depth));
        node = (first as usize + 5 - usize::from(depth)) * BLOCK;
    }
    put_node(&mut image, node, 1, 84, 0);
    put_extent(&mut image, node, 0, 0, 1, first + 5);
    let mut fs = mount(image);
    let inode = fs.inode(number).unwrap();
    assert_eq!(
        fs.map(&inode, 0).unwrap().unwrap().physical,
        u64::from(first) + 5
    );
    for block in 1..200 {
        fs.allocate(number, block * 2, 1).unwrap();
    }
    let inode = fs.inode(number).unwrap();
    for block in 0..200 {
        assert!(fs.map(&inode, block * 2).unwrap().is_some());
        assert_eq!(fs.map(&inode, block * 2 + 1), Ok(None));
    }
    fs.truncate(number, 0).unwrap();
    fsck(&fs.unmount().unwrap().image, "five levels");
}

/// A page of the caller's cache holds whole blocks, and a device transfers no less than its own.
#[test]
fn blocks_have_a_size_that_the_mount_can_take() {
    let Some(image) = make(16, "-b 8192") else {
        return;
    };
    let with = |smallest_block, largest_block| {
        let disk = Disk::new(image.clone());
        let options = Options {
            smallest_block,
            largest_block,
            ..Options::default()
        };
        Fs::mount(disk, options).map(|_| ()).err()
    };
    let refused = Some(Error::Unsupported("size of a block"));
    assert_eq!(with(512, 4096), refused);
    assert_eq!(with(16384, 65536), refused);
    assert_eq!(with(8192, 8192), None);
}

/// As with Linux, the file has what was found before the disk was full.
#[test]
fn a_file_grows_over_what_was_found_for_it() {
    let Some(image) = make(3, "-b 1024 -J size=1 -N 64") else {
        return;
    };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let done = fs.preallocate(number, 100, 1 << 30, false);
    assert_eq!(done, Err(Error::NoSpace));
    let inode = fs.inode(number).unwrap();
    assert!(inode.size() > 500 << 10);
    let last = fs.map(&inode, (inode.size() / 1024) as u32 - 1).unwrap();
    assert!(last.is_some());
    fsck(&fs.unmount().unwrap().image, "a full disk");
}

/// Others have their turn while the many extents of a file are walked over.
#[test]
fn who_walks_over_a_file_pauses() {
    const EXTENTS: u32 = 200;
    let Some(image) = make(3, "-b 1024 -J size=1 -N 64") else {
        return;
    };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    for block in 0..EXTENTS {
        fs.allocate(number, 2 * block, 1).unwrap();
    }
    let pauses = |fs: &mut Fs<Disk>, act: &dyn Fn(&mut Fs<Disk>)| {
        let before = fs.device().pauses;
        act(fs);
        fs.device().pauses - before
    };
    let walked = pauses(&mut fs, &|fs| {
        let inode = fs.inode(number).unwrap();
        assert_eq!(fs.next_data(&inode, 0), Ok(None));
    });
    assert!(walked >= EXTENTS as usize, "{walked}");
    let filled = pauses(&mut fs, &|fs| {
        let end = 2048 * u64::from(EXTENTS);
        fs.preallocate(number, 0, end, false).unwrap();
    });
    assert!(filled >= EXTENTS as usize, "{filled}");
}
