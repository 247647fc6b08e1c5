//! The restrictions on hard links, symbolic links and opens in sticky directories that everybody
//! may write (`/proc/sys/fs/protected_*`), with Debian's defaults. They prevent the owner of one
//! file from making privileged programs act on another's.

use super::dentry::Dentry;
use super::inode::Kind;
use super::perm;
use crate::errno::{Errno, Result};
use crate::task::current;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::general::{S_ISGID, S_ISUID, S_ISVTX, S_IWGRP, S_IWOTH, S_IXGRP};

/// Hard links are only created by the file's owner, or by a user that may read and write the file
/// and gains no privileges by it.
pub static HARD_LINKS: AtomicUsize = AtomicUsize::new(1);
/// Symbolic links in a world-writable sticky folder are only followed by their owner, or if they
/// belong to the folder's owner.
pub static SYMBOLIC_LINKS: AtomicUsize = AtomicUsize::new(1);
/// O_CREAT does not open another user's pipe in a sticky folder that everybody (1) or a group (2)
/// may write.
pub static PIPES: AtomicUsize = AtomicUsize::new(1);
/// O_CREAT does not open another user's file in a sticky folder that everybody (1) or a group (2)
/// may write.
pub static FILES: AtomicUsize = AtomicUsize::new(2);

fn is_ours(uid: u32) -> bool {
    current().with_credentials(|who| who.fsuid == uid)
}

/// EPERM unless the calling thread may create another name for the inode of `dentry`.
pub fn check_link_to(dentry: &Dentry) -> Result<()> {
    if HARD_LINKS.load(Relaxed) == 0 || perm::owner(dentry).is_ok() {
        return Ok(());
    }
    let mode = dentry.inode().attr().mode;
    let program = S_ISGID | S_IXGRP;
    let gains = mode & S_ISUID != 0 || mode & program == program;
    if dentry.kind() == Kind::Regular
        && !gains
        && perm::permitted(dentry, perm::READ | perm::WRITE).is_ok()
    {
        return Ok(());
    }
    Err(Errno::EPERM)
}

/// EACCES unless the calling thread may follow `link`, the last component of a path, in
/// `directory`.
pub fn check_follow(directory: &Dentry, link: &Dentry) -> Result<()> {
    const SHARED: u32 = S_ISVTX | S_IWOTH;
    if SYMBOLIC_LINKS.load(Relaxed) == 0 {
        return Ok(());
    }
    let (above, owner) = (directory.inode().attr(), link.inode().attr().uid);
    if above.mode & SHARED != SHARED || above.uid == owner || is_ours(owner) {
        return Ok(());
    }
    Err(Errno::EACCES)
}

/// EACCES unless the calling thread may open the existing `dentry` in `directory` with O_CREAT
/// (may_create_in_sticky).
pub fn check_create(directory: &Dentry, dentry: &Dentry) -> Result<()> {
    let level = match dentry.kind() {
        Kind::Regular => FILES.load(Relaxed),
        Kind::Fifo => PIPES.load(Relaxed),
        // Directories are refused elsewhere.
        Kind::Directory => 0,
        // No setting says otherwise.
        _ => 1,
    };
    let above = directory.inode().attr();
    if level == 0 || above.mode & S_ISVTX == 0 {
        return Ok(());
    }
    let owner = dentry.inode().attr().uid;
    let writers = if level == 1 {
        S_IWOTH
    } else {
        S_IWOTH | S_IWGRP
    };
    if owner == above.uid || is_ours(owner) || above.mode & writers == 0 {
        return Ok(());
    }
    Err(Errno::EACCES)
}
