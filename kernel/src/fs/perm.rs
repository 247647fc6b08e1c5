//! Permission checks.

use super::dentry::Dentry;
use super::inode::{Attr, Kind};
use super::mount::KEEPS_FLAGS;
use super::path::Path;
use crate::errno::{Errno, Result};
use crate::task::credentials::Credentials;
use crate::task::{can, current};
use linux_raw_sys::general::*;

/// Search a directory, or execute a file.
pub const EXECUTE: u32 = 1;
/// Write.
pub const WRITE: u32 = 2;
/// Read.
pub const READ: u32 = 4;

/// EACCES unless the calling thread may do `wanted` to the inode at `path`; EROFS if it cannot be
/// written at all.
#[inline]
pub fn check(path: &Path, wanted: u32) -> Result<()> {
    if wanted & WRITE != 0 && path.mount_flags() & (MS_RDONLY | KEEPS_FLAGS) != 0 {
        writable(path)?;
        check_flags(path, path, FS_IMMUTABLE_FL)?;
    }
    permitted(path, wanted)
}

/// Flags that forbid changing an inode's attributes or removing one of its names.
pub const FIXED: u32 = FS_IMMUTABLE_FL | FS_APPEND_FL;

/// EPERM if the inode of `dentry`, which is in the mount of `path`, has one of these flags
/// (FS_*_FL).
pub fn check_flags(path: &Path, dentry: &Dentry, flags: u32) -> Result<()> {
    match path.mount_flags() & KEEPS_FLAGS != 0 && dentry.inode().flags() & flags != 0 {
        true => Err(Errno::EPERM),
        false => Ok(()),
    }
}

/// EACCES unless the calling thread may do `wanted` to the inode of `dentry`, regardless of its
/// mount.
pub fn permitted(dentry: &Dentry, wanted: u32) -> Result<()> {
    if can(CAP_DAC_OVERRIDE) && (wanted & EXECUTE == 0 || dentry.kind() == Kind::Directory) {
        return Ok(());
    }
    // The attributes are read first: the owner of a /proc/PID directory comes from that process's
    // credentials, which may be the caller's own.
    let attr = dentry.inode().attr();
    let checked = current().with_credentials(|who| check_as(who, &attr, wanted));
    checked.or_else(|error| {
        if dentry.inode().permits() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// EROFS if the mount of `path` is read-only, whatever the file is (Linux's mnt_want_write).
pub fn mount_writable(path: &Path) -> Result<()> {
    match path.mount_flags() & MS_RDONLY {
        0 => Ok(()),
        _ => Err(Errno::EROFS),
    }
}

/// EROFS if writing at `path` would change a file system that is mounted read-only.
pub fn writable(path: &Path) -> Result<()> {
    let stored = matches!(path.kind(), Kind::Regular | Kind::Directory | Kind::Symlink);
    if stored && path.mount_flags() & MS_RDONLY != 0 {
        Err(Errno::EROFS)
    } else {
        Ok(())
    }
}

/// EACCES unless the calling thread may search the directory `dentry`.
pub fn search(dentry: &Dentry) -> Result<()> {
    permitted(dentry, EXECUTE)
}

/// EACCES unless `who` may do `wanted` to an inode with the attributes `attr`.
pub fn check_as(who: &Credentials, attr: &Attr, wanted: u32) -> Result<()> {
    let shift = if who.fsuid == attr.uid {
        6
    } else if who.in_group(attr.gid) {
        3
    } else {
        0
    };
    let directory = Kind::of_mode(attr.mode) == Some(Kind::Directory);
    let executable = directory || attr.mode & 0o111 != 0;
    let reads = wanted == READ || directory && wanted & WRITE == 0;
    if attr.mode >> shift & wanted == wanted
        || who.can(CAP_DAC_OVERRIDE) && (wanted & EXECUTE == 0 || executable)
        || who.can(CAP_DAC_READ_SEARCH) && reads
    {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// EPERM unless the calling thread owns the inode of `dentry` (or is privileged).
pub fn owner(dentry: &Dentry) -> Result<()> {
    if can(CAP_FOWNER) || owns(dentry.inode().attr().uid) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// EPERM if a sticky directory prevents the calling thread from removing `victim`.
pub fn sticky(directory: &Dentry, victim: &Dentry) -> Result<()> {
    if can(CAP_FOWNER) {
        return Ok(());
    }
    let above = directory.inode().attr();
    let ours = owns(above.uid) || owns(victim.inode().attr().uid);
    if above.mode & 0o1000 == 0 || ours {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn owns(uid: u32) -> bool {
    current().with_credentials(|who| who.fsuid == uid)
}
