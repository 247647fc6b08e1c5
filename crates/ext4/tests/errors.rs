//! Damage that is found, and disks that fail: what is recorded, and what the next mount knows.

mod support;

use ext4::{Error, Errors, Fs, New, ROOT};
use support::raw::{inode, plain, put16, put32, u32_at};
use support::{Disk, Scratch, mount, run};

const ERRORS: usize = 1024 + 0x194;

fn create(fs: &mut Fs<Disk>, name: &[u8]) -> Result<u32, Error> {
    let new = New {
        mode: 0o100600,
        ..New::default()
    };
    fs.create(ROOT, name, new).map(|inode| inode.number)
}

/// An image with a file whose count of names is wrong.
fn damaged(behaviour: u16) -> Option<Vec<u8>> {
    let mut fs = mount(plain("^64bit")?);
    let number = create(&mut fs, b"file").unwrap();
    let mut image = fs.unmount().unwrap().image;
    let place = inode(&image, number);
    put16(&mut image, place + 0x1a, 0);
    put16(&mut image, 1024 + 0x3c, behaviour);
    Some(image)
}

fn has_errors(image: &[u8]) -> bool {
    image[1024 + 0x3a] & 2 != 0
}

#[test]
fn damage_is_counted_and_the_rest_goes_on() {
    let Some(image) = damaged(1) else { return };
    let mut fs = mount(image);
    assert_eq!(fs.errors(), Errors::Continue);
    assert!(matches!(fs.unlink(ROOT, b"file"), Err(Error::Corrupt(_))));
    fs.report(Error::Corrupt("what a look-up found"));
    fs.report(Error::NotFound);
    create(&mut fs, b"other").unwrap();
    let image = fs.unmount().unwrap().image;
    assert_eq!((u32_at(&image, ERRORS), has_errors(&image)), (2, true));
    assert_eq!(u32_at(&image, 1024 + 0x1cc), 1_800_000_000);
    let file = Scratch::new(&image);
    let output = run("e2fsck", &["-n", file.0.to_str().unwrap()]).unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains("contains a file system with errors"),
        "{told}"
    );
}

#[test]
fn damage_makes_it_read_only_where_that_is_wanted() {
    for (behaviour, expected) in [(2, Errors::ReadOnly), (3, Errors::Panic)] {
        let Some(image) = damaged(behaviour) else {
            return;
        };
        let mut fs = mount(image);
        assert_eq!(fs.errors(), expected);
        create(&mut fs, b"lost").unwrap();
        assert!(matches!(fs.unlink(ROOT, b"file"), Err(Error::Corrupt(_))));
        assert!(fs.is_aborted());
        assert_eq!(create(&mut fs, b"other"), Err(Error::ReadOnly));
        assert_eq!(fs.commit(), Err(Error::Io));
        let root = fs.inode(ROOT).unwrap();
        assert!(fs.lookup(&root, b"lost").is_ok());
        // The next mount counts what the journal says, once.
        let image = fs.device().image.clone();
        let mut fs = mount(image);
        let root = fs.inode(ROOT).unwrap();
        assert_eq!(fs.lookup(&root, b"lost"), Err(Error::NotFound));
        let image = mount(fs.unmount().unwrap().image).unmount().unwrap().image;
        assert_eq!((u32_at(&image, ERRORS), has_errors(&image)), (1, true));
    }
}

#[test]
fn a_mount_decides_before_the_superblock() {
    let Some(image) = damaged(1) else { return };
    let mut fs = mount(image);
    fs.set_errors(Errors::ReadOnly);
    fs.report(Error::Corrupt("what a look-up found"));
    assert!(fs.is_aborted());
}

/// The power of the disk comes back after each of the places where a commit can fail.
#[test]
fn a_failed_commit_is_known_to_the_next_mount() {
    let Some(image) = plain("^64bit") else { return };
    let mut failures = 0;
    for works_for in 0..40 {
        let mut fs = mount(image.clone());
        create(&mut fs, b"file").unwrap();
        fs.device().works_for = works_for;
        if fs.commit().is_ok() {
            break;
        }
        failures += 1;
        assert!(fs.is_aborted());
        fs.device().works_for = usize::MAX;
        assert_eq!(create(&mut fs, b"other"), Err(Error::ReadOnly));
        let image = fs.device().image.clone();
        let mut fs = mount(image);
        let root = fs.inode(ROOT).unwrap();
        let _ = fs.lookup(&root, b"file");
        support::fsck(&fs.unmount().unwrap().image, "after a failure");
    }
    assert!(failures > 3);
}

/// An orphan that is not there is damage, but no reason not to mount.
#[test]
fn orphans_are_left_to_a_check_where_damage_is_known() {
    let Some(mut image) = plain("^64bit") else {
        return;
    };
    put32(&mut image, 1024 + 0xe8, 11);
    image[1024 + 0x3a] |= 2;
    let image = mount(image).unmount().unwrap().image;
    assert_eq!(u32_at(&image, 1024 + 0xe8), 0);
    assert_eq!(u32_at(&image, ERRORS), 0);
}
