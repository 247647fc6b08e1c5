//! A container image as the root: an overlay of its file system and of what is written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::root::{self, NEW};
use crate::sys;
use crate::user::read_regular;

/// The mount points of the image and of what is written.
const LOWER: &str = "/stile/lower";
const WRITTEN: &str = "/stile/written";
/// The mounts that are moved to the new root; an image may have files in `/run` and `/tmp`.
const MOVED: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Files of the machine that the image gets, if there are any.
const GIVEN: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// The root after the change.
pub struct Image {
    /// The file system with what is written, if it is on a disk.
    kept: Option<File>,
}

/// Changes to the image, if the host asks for one.
pub fn switch() -> io::Result<Option<Image>> {
    let Ok(disks) = fs::read_to_string(wire::IMAGE_PATH) else {
        return Ok(None);
    };
    let mut disks = disks.split_whitespace();
    let (image, kept) = (disks.next().unwrap_or_default(), disks.next());
    for folder in [LOWER, WRITTEN, NEW] {
        fs::create_dir_all(folder)?;
    }
    sys::mount_with(image, LOWER, "erofs", libc::MS_RDONLY)?;
    match kept {
        Some(disk) => sys::mount_with(disk, WRITTEN, "ext4", 0)?,
        None => sys::mount_with("tmpfs", WRITTEN, "tmpfs", 0)?,
    }
    let [upper, work] = ["upper", "work"].map(|name| format!("{WRITTEN}/{name}"));
    make_upper(&upper)?;
    fs::create_dir_all(&work)?;
    let options = format!("lowerdir={LOWER},upperdir={upper},workdir={work}");
    sys::mount_overlay(NEW, &options)?;
    let kept = kept.map(|_| File::open(WRITTEN)).transpose()?;
    let given = GIVEN.map(|path| fs::read(path).ok());
    root::enter(&MOVED)?;
    for (path, content) in GIVEN.into_iter().zip(given) {
        if let Some(content) = content
            && let Err(error) = give(path, &content)
        {
            eprintln!("init: {path}: {error}");
        }
    }
    Ok(Some(Image { kept }))
}

/// Makes the upper directory, which has the attributes of the image's root.
fn make_upper(upper: &str) -> io::Result<()> {
    if fs::exists(upper)? {
        return Ok(());
    }
    let root = fs::metadata(LOWER)?;
    // A name that exists has all attributes, even if the machine is cut off.
    let new = format!("{WRITTEN}/new");
    fs::create_dir_all(&new)?;
    chown(&new, Some(root.uid()), Some(root.gid()))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(root.mode() & 0o7777))?;
    fs::rename(new, upper)
}

/// Gives the image a file with this content, in place of a link to somewhere else.
fn give(path: &str, content: &[u8]) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|file| file.is_symlink());
    if !is_link && read_regular(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all("/etc")?;
    let _ = fs::remove_file(path);
    File::create_new(path)?.write_all(content)
}

impl Image {
    /// Remounts everything read-only, which leaves the disk as clean as after umount.
    pub fn leave(self) -> io::Result<()> {
        let Some(kept) = self.kept else {
            return Ok(());
        };
        let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
        sys::mount_with("", "/", "", flags)?;
        sys::change_directory(&kept)?;
        sys::mount_with("", ".", "", flags)
    }
}
