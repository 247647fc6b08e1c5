//! Requests that run out of memory: the file system continues with the next try, and everything
//! that was reported as durable is on the medium.

mod support;

use ext4::{Device, Error, Fs, New, ROOT};
use support::{Disk, fsck, make, mount};

fn new(mode: u16) -> New<'static> {
    New {
        mode,
        ..New::default()
    }
}

/// A small file system, which can be filled.
fn small() -> Option<Fs<Disk>> {
    let image = make(3, "-b 1024 -J size=1 -O ^resize_inode -N 64")?;
    let mut fs = mount(image);
    fs.set_privileged(true);
    Some(fs)
}

/// Calls `act`, which lacks memory once after so many requests, and calls it again if it did.
/// Returns whether it did.
fn short(
    fs: &mut Fs<Disk>,
    after: usize,
    act: impl Fn(&mut Fs<Disk>) -> Result<(), Error>,
) -> bool {
    fs.device().short_after = Some(after);
    let first = act(fs);
    let lacked = fs.device().short_after.take().is_none();
    assert!(!fs.is_aborted(), "after {after} requests");
    if lacked {
        assert_eq!(first, Err(Error::NoMemory), "after {after} requests");
        act(fs).unwrap();
    }
    lacked
}

#[test]
fn a_checkpoint_without_memory_is_done_by_the_next() {
    for after in 0.. {
        let Some(mut fs) = small() else { return };
        fs.create(ROOT, b"directory", new(0o040700)).unwrap();
        let lacked = short(&mut fs, after, |fs| fs.checkpoint());
        fs.create(ROOT, b"later", new(0o040700)).unwrap();
        fs.commit().unwrap();
        let image = fs.device().image.clone();
        let mut fs = mount(image);
        let root = fs.inode(ROOT).unwrap();
        for name in [&b"directory"[..], b"later"] {
            fs.lookup(&root, name).unwrap();
        }
        fsck(&fs.unmount().unwrap().image, "after a checkpoint");
        if !lacked {
            assert!(after > 4);
            break;
        }
    }
}

/// Fills a file with all blocks that are free, which all hold `byte` then.
fn fill(fs: &mut Fs<Disk>, byte: u8) -> u32 {
    let number = fs.create(ROOT, b"file", new(0o100600)).unwrap().number;
    let size = fs.geometry().block_size;
    let mut block = 0;
    while let Ok(extent) = fs.allocate(number, block, 1 << 16) {
        let content = vec![byte; extent.length as usize * size];
        let at = extent.physical * size as u64;
        fs.device().write(at, &content).unwrap();
        fs.mark_written(number, block, extent.length).unwrap();
        block = extent.end();
    }
    fs.extend(number, u64::from(block) * size as u64).unwrap();
    number
}

/// A block of a directory is freed after a checkpoint that lacked memory, and becomes part of a
/// file: the journal must not write over that.
#[test]
fn a_freed_block_is_revoked_after_half_a_checkpoint() {
    for after in 0.. {
        let Some(mut fs) = small() else { return };
        let directory = fs.create(ROOT, b"directory", new(0o040700)).unwrap();
        fs.device().short_after = Some(after);
        let first = fs.checkpoint();
        fs.device().short_after = None;
        fs.rmdir(ROOT, b"directory").unwrap();
        fs.evict(directory.number).unwrap();
        fs.commit().unwrap();
        let number = fill(&mut fs, 0xaa);
        fs.commit().unwrap();
        let image = fs.device().image.clone();
        let mut fs = mount(image);
        let (inode, size) = (fs.inode(number).unwrap(), fs.geometry().block_size);
        let mut block = 0;
        while let Some(extent) = fs.map(&inode, block).unwrap() {
            let at = extent.physical as usize * size;
            let content = &fs.device().image[at..at + extent.length as usize * size];
            let other = content.iter().position(|&byte| byte != 0xaa);
            assert_eq!(other, None, "after {after} requests");
            block = extent.end();
        }
        assert!(block > 1000);
        fsck(&fs.unmount().unwrap().image, "a file after a directory");
        if first.is_ok() {
            break;
        }
    }
}

/// The caller that lacked memory to free an inode tries again.
#[test]
fn an_orphan_that_lacked_memory_is_freed_by_the_next_try() {
    for after in 0.. {
        let Some(mut fs) = small() else { return };
        let before = fs.statistics().unwrap().free_blocks;
        let number = fill(&mut fs, 1);
        fs.unlink(ROOT, b"file").unwrap();
        fs.relieve().unwrap();
        let lacked = short(&mut fs, after, |fs| fs.evict(number));
        assert_eq!(fs.statistics().unwrap().free_blocks, before);
        fsck(&fs.unmount().unwrap().image, "without the file");
        if !lacked {
            break;
        }
    }
}
