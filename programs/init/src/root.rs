//! A root file system on a disk, which replaces the initramfs once the file systems and devices
//! that programs expect are mounted.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use crate::sys;

/// The first disk.
const DISK: &str = "/dev/vda";
/// Where an EROFS has its magic number, and that number as it stands there.
const EROFS_MAGIC: (u64, [u8; 4]) = (1024, 0xe0f5_e1e2u32.to_le_bytes());
/// Where the disk is mounted first.
const NEW: &str = "/stile/new";
/// The mounts that come along; what else there is stays behind.
const MOVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Goes over to the root on the first disk, if there shall be one; whether there is.
pub fn switch() -> io::Result<bool> {
    let Ok(how) = fs::read_to_string(wire::ROOT_PATH) else {
        return Ok(false);
    };
    let flags = match how.trim() {
        "ro" => libc::MS_RDONLY,
        _ => 0,
    };
    fs::create_dir_all(NEW)?;
    sys::mount_with(DISK, NEW, kind()?, flags)?;
    for place in MOVED {
        let new = format!("{NEW}{place}");
        // On a root that cannot be written it must be there.
        let _ = fs::create_dir(&new);
        sys::mount_with(place, &new, "", libc::MS_MOVE)?;
    }
    std::env::set_current_dir(NEW)?;
    sys::mount_with(".", "/", "", libc::MS_MOVE)?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")?;
    sys::set_host_name(&fs::read_to_string("/etc/hostname").unwrap_or_default());
    Ok(true)
}

/// The kind of file system that is on the disk.
fn kind() -> io::Result<&'static str> {
    let (at, magic) = EROFS_MAGIC;
    let mut found = [0; 4];
    fs::File::open(DISK)?.read_exact_at(&mut found, at)?;
    Ok(if found == magic { "erofs" } else { "ext4" })
}

/// Leaves the disk as after an umount: nobody writes any more.
pub fn leave() -> io::Result<()> {
    sys::mount_with("", "/", "", libc::MS_REMOUNT | libc::MS_RDONLY)
}
