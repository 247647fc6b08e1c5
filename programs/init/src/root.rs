//! A root file system on a disk, which replaces the initramfs once the file systems and devices
//! that programs expect are mounted.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use crate::sys;

/// The first disk.
const DISK: &str = "/dev/vda";
/// The offset of the magic number of EROFS, and that number in the disk's byte order.
const EROFS_MAGIC: (u64, [u8; 4]) = (1024, 0xe0f5_e1e2u32.to_le_bytes());
/// The first mount point of the new root.
pub const NEW: &str = "/stile/new";
/// The mounts that are moved to the new root; all others stay behind.
const MOVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Changes to the root on the first disk, if the host asks for one; returns whether it did.
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
    enter(&MOVED)?;
    sys::set_host_name(&fs::read_to_string("/etc/hostname").unwrap_or_default());
    Ok(true)
}

/// Makes the file system at [`NEW`] the root, and moves these mounts into it.
pub fn enter(moved: &[&str]) -> io::Result<()> {
    for place in moved {
        let new = format!("{NEW}{place}");
        // A link would lead out of the new root.
        if fs::symlink_metadata(&new).is_ok_and(|found| !found.is_dir()) {
            let _ = fs::remove_file(&new);
        }
        // This fails on a read-only root, where the directory must exist.
        let _ = fs::create_dir(&new);
        sys::mount_with(place, &new, "", libc::MS_MOVE)?;
    }
    std::env::set_current_dir(NEW)?;
    sys::mount_with(".", "/", "", libc::MS_MOVE)?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// The type of the file system on the disk.
fn kind() -> io::Result<&'static str> {
    let (at, magic) = EROFS_MAGIC;
    let mut found = [0; 4];
    fs::File::open(DISK)?.read_exact_at(&mut found, at)?;
    Ok(if found == magic { "erofs" } else { "ext4" })
}

/// Remounts the disk read-only, which leaves it as clean as after umount.
pub fn leave() -> io::Result<()> {
    sys::mount_with("", "/", "", libc::MS_REMOUNT | libc::MS_RDONLY)
}
