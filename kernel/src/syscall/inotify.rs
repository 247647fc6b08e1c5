//! inotify.

use super::path::{self, check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::inode::Kind;
use crate::fs::inotify::{self, Inotify};
use crate::fs::perm;
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// inotify_init1(2)
pub fn inotify_init1(flags: u32) -> Result<usize> {
    check_flags(flags, O_CLOEXEC | O_NONBLOCK)?;
    Ok(current()
        .files()
        .add(inotify::new(flags)?, flags & O_CLOEXEC != 0)? as usize)
}

fn instance(fd: i32) -> Result<Arc<Inotify>> {
    opened(fd)?.ops_as::<Inotify>().ok_or(Errno::EINVAL)
}

/// All events and flags of a watch (ALL_INOTIFY_BITS).
const KNOWN: u32 = abi::options::INOTIFY.mask() as u32;

/// inotify_add_watch(2)
pub fn inotify_add_watch(fd: i32, path: usize, mask: u32) -> Result<usize> {
    check_flags(mask, KNOWN)?;
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    let instance = instance(fd)?;
    if mask & IN_MASK_ADD != 0 && mask & IN_MASK_CREATE != 0 {
        return Err(Errno::EINVAL);
    }
    let follow = if mask & IN_DONT_FOLLOW != 0 {
        AT_SYMLINK_NOFOLLOW
    } else {
        0
    };
    let entry = path::resolve(AT_FDCWD, path, follow)?;
    if mask & IN_ONLYDIR != 0 && entry.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    perm::check(&entry, perm::READ)?;
    Ok(instance.watch(&entry, mask)? as usize)
}

/// inotify_rm_watch(2)
pub fn inotify_rm_watch(fd: i32, watch: i32) -> Result<usize> {
    instance(fd)?.unwatch(watch)?;
    Ok(0)
}
