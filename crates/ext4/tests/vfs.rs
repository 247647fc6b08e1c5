//! Operations of a kernel's file layer beyond look-up, create and read.

mod support;

use ext4::{Change, Error, Fs, Inode, New, ROOT, Rename, Stamp, Time, acl_from_disk, acl_to_disk};
use support::raw::{plain, put32};
use support::{Disk, Event, Scratch, debugfs, fsck, make, mount};

const KIND: &str = "-b 1024 -J size=1";

fn new(mode: u16) -> New<'static> {
    New {
        mode,
        ..New::default()
    }
}

fn file(fs: &mut Fs<Disk>, name: &[u8]) -> u32 {
    fs.create(ROOT, name, new(0o100600)).unwrap().number
}

fn lookup(fs: &mut Fs<Disk>, name: &[u8]) -> Result<Inode, Error> {
    let root = fs.inode(ROOT)?;
    let number = fs.lookup(&root, name)?;
    fs.inode(number)
}

/// The disk as it is after a cut of the power, with its orphans removed.
fn cut(fs: &mut Fs<Disk>) -> Fs<Disk> {
    mount(fs.device().image.clone())
}

#[test]
fn an_inode_without_a_name_gets_one_or_is_gone() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let free = fs.statistics().unwrap();
    let unnamed = fs.create_unnamed(ROOT, new(0o100600)).unwrap();
    assert_eq!(unnamed.links(), 0);
    fs.allocate(unnamed.number, 0, 3).unwrap();
    fs.commit().unwrap();
    let mut after = cut(&mut fs);
    assert_eq!(after.statistics().unwrap(), free);
    fsck(&after.unmount().unwrap().image, "orphan");
    let linked = fs.link(unnamed.number, ROOT, b"name").unwrap();
    assert_eq!(linked.links(), 1);
    fs.commit().unwrap();
    let mut after = cut(&mut fs);
    assert_eq!(lookup(&mut after, b"name").unwrap().number, linked.number);
    fsck(&after.unmount().unwrap().image, "linked");
    assert_eq!(
        fs.create_unnamed(ROOT, new(0o040700)).err(),
        Some(Error::IsDirectory)
    );
}

#[test]
fn a_whiteout_takes_the_old_name() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let (moved, lost) = (file(&mut fs, b"old"), file(&mut fs, b"new"));
    let cover = Some(new(0o020000));
    let mut rename = |how| fs.rename_and_cover(ROOT, b"old", ROOT, b"new", how, cover);
    assert_eq!(rename(Rename::Exchange).err(), Some(Error::Invalid));
    assert_eq!(rename(Rename::NoReplace).err(), Some(Error::Exists));
    assert_eq!(rename(Rename::Replace).unwrap().unwrap().number, lost);
    fs.evict(lost).unwrap();
    assert_eq!(lookup(&mut fs, b"new").unwrap().number, moved);
    let whiteout = lookup(&mut fs, b"old").unwrap();
    assert_eq!((whiteout.mode(), whiteout.device()), (0o020000, (0, 0)));
    fsck(&fs.unmount().unwrap().image, "whiteout");
}

/// What was written to the disk while `work` was done: blocks, then flushes.
fn written(fs: &mut Fs<Disk>, work: impl FnOnce(&mut Fs<Disk>)) -> (usize, usize) {
    fs.device().record = Some(Vec::new());
    work(fs);
    let events = fs.device().record.take().unwrap();
    let writes = events
        .iter()
        .filter(|event| matches!(event, Event::Write(..)));
    let writes = writes.count();
    (writes, events.len() - writes)
}

#[test]
fn a_sync_commits_only_what_the_transaction_has() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let one = file(&mut fs, b"one");
    fs.allocate(one, 0, 1).unwrap();
    fs.commit().unwrap();
    let two = file(&mut fs, b"two");
    // What is written already, and what others have changed, is nothing.
    assert_eq!(
        written(&mut fs, |fs| fs.sync_inode(one, false).unwrap()),
        (0, 1)
    );
    assert!(lookup(&mut cut(&mut fs), b"two").is_err());
    let times = Change {
        modify: Some(Time {
            seconds: 7,
            nanoseconds: 1,
        }),
        ..Change::default()
    };
    fs.change_inode_attributes(one, times).unwrap();
    assert_eq!(
        written(&mut fs, |fs| fs.sync_inode(one, true).unwrap()),
        (0, 1)
    );
    fs.mark_written(one, 0, 1).unwrap();
    assert_ne!(
        written(&mut fs, |fs| fs.sync_inode(one, true).unwrap()).0,
        0
    );
    assert!(lookup(&mut cut(&mut fs), b"two").is_ok());
    fs.change_inode_attributes(two, times).unwrap();
    assert_ne!(
        written(&mut fs, |fs| fs.sync_inode(two, false).unwrap()).0,
        0
    );
    // The names of a directory are its data.
    file(&mut fs, b"three");
    fs.sync_inode(ROOT, true).unwrap();
    assert!(lookup(&mut cut(&mut fs), b"three").is_ok());
}

#[test]
fn an_access_does_not_change_an_inode() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let time = Time {
        seconds: 1_900_000_000,
        nanoseconds: 3,
    };
    fs.set_now(time);
    fs.set_access_time(number, time).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(inode.time(Stamp::Access), time);
    assert_eq!(inode.time(Stamp::Change).seconds, 1_800_000_000);
    let change = Change {
        access: Some(time),
        ..Change::default()
    };
    let inode = fs.change_inode_attributes(number, change).unwrap();
    assert_eq!(inode.time(Stamp::Change), time);
}

#[test]
fn a_transaction_is_committed_when_it_is_five_seconds_old() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let at = |seconds| Time {
        seconds,
        nanoseconds: 0,
    };
    fs.set_now(at(1_900_000_000));
    fs.commit_if_due(at(1_900_000_100)).unwrap();
    file(&mut fs, b"file");
    fs.commit_if_due(at(1_900_000_004)).unwrap();
    assert!(lookup(&mut cut(&mut fs), b"file").is_err());
    fs.commit_if_due(at(1_900_000_005)).unwrap();
    assert!(lookup(&mut cut(&mut fs), b"file").is_ok());
}

#[test]
fn the_size_of_what_was_written_before_leaves_the_times() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let times = |fs: &mut Fs<Disk>| {
        let inode = fs.inode(number).unwrap();
        [Stamp::Modify, Stamp::Change].map(|stamp| inode.time(stamp).seconds)
    };
    let before = times(&mut fs);
    fs.set_now(Time {
        seconds: 1_900_000_000,
        nanoseconds: 0,
    });
    fs.extend_written(number, 10).unwrap();
    assert_eq!(times(&mut fs), before);
    assert_eq!(fs.inode(number).unwrap().size(), 10);
    assert_eq!(fs.extend_written(number, 9).err(), Some(Error::Invalid));
    let set = |fs: &mut Fs<Disk>, seconds| {
        let time = Time {
            seconds,
            nanoseconds: 0,
        };
        fs.set_modify_time(number, time).unwrap();
    };
    set(&mut fs, 1_850_000_000);
    assert_eq!(times(&mut fs), [1_850_000_000; 2]);
    set(&mut fs, 1_840_000_000);
    assert_eq!(times(&mut fs), [1_840_000_000, 1_850_000_000]);
    fs.extend(number, 20).unwrap();
    assert_eq!(times(&mut fs), [1_900_000_000; 2]);
}

#[test]
fn the_last_blocks_are_for_root_and_for_maps() {
    let Some(image) = make(5, "-b 1024 -J size=1 -m 10") else {
        return;
    };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let mut fill = |privileged| {
        fs.set_privileged(privileged);
        let block = |fs: &mut Fs<Disk>| {
            let inode = fs.inode(number).unwrap();
            inode.size() as u32 / 1024
        };
        loop {
            let at = block(&mut fs);
            match fs.allocate(number, at, 64) {
                Ok(extent) => fs.extend(number, u64::from(extent.end()) * 1024).unwrap(),
                Err(error) => {
                    assert_eq!(error, Error::NoSpace);
                    return fs.statistics().unwrap();
                }
            }
        }
    };
    let (user, root) = (fill(false), fill(true));
    assert_eq!(user.available, 0);
    assert!(
        user.free_blocks - root.free_blocks >= user.reserved,
        "{user:?} {root:?}"
    );
    assert!(root.free_blocks > 0);
    // Each second block is written: there are extents for more than one node.
    let size = fs.inode(number).unwrap().size() as u32 / 1024;
    for block in (0..size).step_by(2) {
        fs.mark_written(number, block, 1).unwrap();
    }
    fsck(&fs.unmount().unwrap().image, "full");
}

#[test]
fn space_is_counted_as_by_linux() {
    let Some(mut image) = plain("^64bit") else {
        return;
    };
    let statistics = mount(image.clone()).statistics().unwrap();
    assert!(statistics.usable < statistics.blocks - 1024);
    let kept = statistics.reserved + statistics.blocks / 50;
    assert_eq!(statistics.available, statistics.free_blocks - kept);
    // Where mke2fs did not store it, the same is counted.
    put32(&mut image, 1024 + 0x248, 0);
    assert_eq!(mount(image).statistics().unwrap(), statistics);
}

#[test]
fn blocks_are_allocated_ahead_and_zeroed_in_place() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    fs.preallocate(number, 3 * 1024 + 100, 5000, true).unwrap();
    assert_eq!(fs.inode(number).unwrap().size(), 0);
    fs.preallocate(number, 3 * 1024 + 100, 5000, false).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(inode.size(), 3 * 1024 + 5100);
    assert_eq!(fs.next_mapped(&inode, 0), Ok(Some(3)));
    assert_eq!(fs.next_data(&inode, 0), Ok(None));
    let extent = fs.map(&inode, 3).unwrap().unwrap();
    assert_eq!((extent.length, extent.written), (5, false));
    fs.mark_written(number, 4, 3).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_data(&inode, 0), Ok(Some(4)));
    assert_eq!(fs.next_hole(&inode, 4), Ok(7));
    assert_eq!(fs.next_hole(&inode, 0), Ok(0));
    fs.zero_range(number, 5, 10).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_hole(&inode, 4), Ok(5));
    assert_eq!(fs.next_data(&inode, 5), Ok(None));
    let again = fs.map(&inode, 5).unwrap().unwrap();
    assert_eq!(again.physical, extent.physical + 2);
    assert!(fs.map(&inode, 14).unwrap().is_some());
    assert_eq!(fs.map(&inode, 15), Ok(None));
    // A hole of no blocks in the middle of an extent is none.
    fs.punch_hole(number, 10, 0).unwrap();
    let same = fs.inode(number).unwrap();
    let extent = fs.map(&same, 9).unwrap().unwrap();
    assert_eq!((extent.length, extent.written), (6, false));
    // Truncation to the size that it has frees what is behind.
    fs.truncate(number, inode.size()).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.map(&inode, 8), Ok(None));
    fsck(&fs.unmount().unwrap().image, "fallocate");
}

/// The last block of the longest file has the number 2^32 - 2.
#[test]
fn the_last_blocks_that_a_file_can_have_are_used() {
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    let last = u32::MAX - 1;
    let offset = u64::from(last - 1) * 1024;
    fs.preallocate(number, offset, 2048, false).unwrap();
    let more = fs.preallocate(number, offset, 2049, false);
    assert_eq!(more, Err(Error::TooLarge));
    fs.mark_written(number, last - 1, 2).unwrap();
    fs.zero_range(number, last, 1).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_data(&inode, 0), Ok(Some(last - 1)));
    assert_eq!(fs.next_hole(&inode, last - 1), Ok(last));
    fs.punch_hole(number, last, u32::MAX).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_mapped(&inode, last), Ok(None));
    assert_eq!(fs.next_hole(&inode, u32::MAX), Ok(u32::MAX));
    fsck(&fs.unmount().unwrap().image, "the longest file");
}

/// A written extent has one block more than one that is not can have.
#[test]
fn the_longest_extent_is_zeroed_in_two() {
    let Some(image) = make(
        80,
        "-b 1024 -J size=1 -G 64 -N 128 -O sparse_super2,^resize_inode",
    ) else {
        return;
    };
    let mut fs = mount(image);
    let number = file(&mut fs, b"file");
    fs.preallocate(number, 0, 70_000 * 1024, false).unwrap();
    let mut starts = Vec::new();
    // Parts of 4096 blocks make it, if they begin where the blocks on disk do.
    let inode = fs.inode(number).unwrap();
    let (mut at, mut behind) = (0, 0);
    while let Some(extent) = fs.map(&inode, at).unwrap() {
        if extent.physical != behind {
            starts.push(at);
        }
        (at, behind) = (extent.end(), extent.physical + u64::from(extent.length));
    }
    starts.push(at);
    for pair in starts.windows(2) {
        for block in (pair[0]..pair[1]).step_by(4096) {
            let count = (pair[1] - block).min(4096);
            fs.mark_written(number, block, count).unwrap();
        }
    }
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_hole(&inode, 0), Ok(70_000));
    let mut lengths = Vec::new();
    while let Some(at) = fs.next_mapped(&inode, lengths.iter().sum()).unwrap() {
        lengths.push(fs.map(&inode, at).unwrap().unwrap().length);
    }
    assert_eq!(lengths.iter().max(), Some(&0x8000));
    fs.zero_range(number, 0, 70_000).unwrap();
    let inode = fs.inode(number).unwrap();
    assert_eq!(fs.next_data(&inode, 0), Ok(None));
    fsck(&fs.unmount().unwrap().image, "zeroed");
}

#[test]
fn flags_are_set_told_and_inherited() {
    const NO_ATIME: u32 = 0x80;
    const SYNC_DIRECTORY: u32 = 0x1_0000;
    const EXTENTS: u32 = 0x8_0000;
    let Some(image) = make(5, KIND) else { return };
    let mut fs = mount(image);
    let directory = fs.create(ROOT, b"directory", new(0o040700)).unwrap();
    let flags = directory.user_flags();
    assert_eq!(flags, EXTENTS);
    // Programs give back what they were told, with a change.
    fs.set_user_flags(directory.number, flags | NO_ATIME | SYNC_DIRECTORY | 0x20)
        .unwrap();
    let mut made = |name: &[u8], mode| {
        let target: &[u8] = if mode & 0o170000 == 0o120000 {
            b"x"
        } else {
            b""
        };
        let new = New {
            mode,
            target,
            ..New::default()
        };
        let inode = fs.create(directory.number, name, new).unwrap();
        (inode.number, inode.user_flags())
    };
    let (number, file) = made(b"file", 0o100600);
    assert_eq!(file, EXTENTS | NO_ATIME);
    assert_eq!(
        made(b"sub", 0o040700).1,
        EXTENTS | NO_ATIME | SYNC_DIRECTORY
    );
    assert_eq!(made(b"link", 0o120777).1, NO_ATIME);
    let unsupported = Err(Error::Unsupported("flags of an inode"));
    // Without extents, with data in the journal, for directories only, for nobody.
    for flags in [
        0,
        EXTENTS | 0x4000,
        EXTENTS | SYNC_DIRECTORY,
        EXTENTS | 1 << 31,
    ] {
        assert_eq!(fs.set_user_flags(number, flags), unsupported, "{flags:x}");
    }
    assert_eq!(fs.set_user_flags(number, EXTENTS | 0x10), Ok(()));
    assert_eq!(fs.inode(number).unwrap().user_flags(), EXTENTS | 0x10);
    assert_eq!(
        fs.inode(number).unwrap().time(Stamp::Modify).seconds,
        1_800_000_000
    );
    fsck(&fs.unmount().unwrap().image, "flags");
}

#[test]
fn access_control_lists_have_two_forms() {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 1000),
        (0x04, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(number.to_le_bytes());
    }
    let disk = acl_to_disk(&list).unwrap();
    assert_eq!(acl_from_disk(&disk).unwrap(), list);
    for end in [0, 3, 5, list.len() - 1] {
        assert_eq!(acl_to_disk(&list[..end]), Err(Error::Invalid), "{end}");
    }
    for end in [0, 3, 5, disk.len() - 1] {
        let result = acl_from_disk(&disk[..end]);
        assert!(matches!(result, Err(Error::Corrupt(_))), "{end}");
    }
    // debugfs takes what setxattr(2) takes, and stores the form of the disk.
    let Some(image) = make(5, KIND) else { return };
    let (content, value) = (Scratch::new(b"x"), Scratch::new(&list));
    let commands = [
        format!("write {} file", content.0.display()),
        format!(
            "ea_set -f {} file system.posix_acl_access",
            value.0.display()
        ),
    ];
    let (image, _) = debugfs(&image, &commands);
    let mut fs = mount(image);
    let inode = lookup(&mut fs, b"file").unwrap();
    let name = b"system.posix_acl_access";
    assert_eq!(fs.attribute(&inode, name).unwrap(), disk);
    fs.set_attribute(inode.number, name, Some(&disk)).unwrap();
    fsck(&fs.unmount().unwrap().image, "lists");
}
