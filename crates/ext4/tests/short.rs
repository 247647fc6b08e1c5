//! Requests for which there is no memory: the file system goes on with the next try, and what was
//! said to be on the medium is there.

mod support;

use ext4::{Error, Fs, New, ROOT};
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

/// Calls `act` until it has the memory that it wants, once without any after each count of
/// requests. Returns whether there was any lack.
fn short(
    fs: &mut Fs<Disk>,
    after: usize,
    act: impl Fn(&mut Fs<Disk>) -> Result<(), Error>,
) -> bool {
    fs.device().short_after = Some(after);
    let first = act(fs);
    let lacked = fs.device().short_after.take().is_none();
    if lacked {
        assert_eq!(first, Err(Error::NoMemory), "after {after} requests");
    }
    assert!(!fs.is_aborted(), "after {after} requests");
    act(fs).unwrap();
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
