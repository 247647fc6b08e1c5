//! Mounts: mount(2) and umount2(2).

use super::path::{self, check_flags};
use crate::errno::{Errno, Result};
use crate::fs::{Path, mount};
use crate::mm::user::read_cstr;
use crate::task::require;
use linux_raw_sys::general::*;

/// The maximum length of a source or of options.
const TEXT_MAX: usize = 4096;
/// The upper half of the flags, as old programs set it.
const MAGIC: u32 = 0xc0ed_0000;

/// Flags that select an action, rather than being stored in the mount.
const ACTIONS: u32 = MS_REMOUNT
    | MS_BIND
    | MS_MOVE
    | MS_REC
    | MS_SILENT
    | MS_PRIVATE
    | MS_SLAVE
    | MS_UNBINDABLE
    | MS_RELATIME;
const _: () = assert!(
    abi::options::MOUNT.mask() == (mount::KEPT | mount::FLAGS | ACTIONS) as u64,
    "abi and mount disagree"
);

/// mount(2): mounts a new file system, bind-mounts or moves an existing mount, or changes its
/// flags.
pub fn mount(source: usize, target: usize, kind: usize, flags: u32, data: usize) -> Result<usize> {
    const KINDS: u32 = MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE;
    let text = |from: usize| (from != 0).then(|| read_cstr(from, TEXT_MAX)).transpose();
    let (kind, source_text) = (text(kind)?, text(source)?);
    let options = text(data)?.unwrap_or_default();
    let target = path::resolve(AT_FDCWD, target, 0)?;
    let flags = match flags & 0xffff_0000 {
        MAGIC => flags & 0xffff,
        _ => flags,
    };
    if flags & MS_NOUSER != 0 {
        return Err(Errno::EINVAL);
    }
    require(CAP_SYS_ADMIN)?;
    let all = flags & MS_REC != 0;
    if flags & MS_REMOUNT != 0 {
        match flags & MS_BIND {
            0 => mount::remount(&target, flags, &options)?,
            _ => mount::change(&target, flags)?,
        }
    } else if flags & MS_BIND != 0 {
        mount::bind(&named(source)?, target, all)?;
    } else if flags & KINDS != 0 {
        propagate(&target, flags & !(MS_REC | MS_SILENT), all)?;
    } else if flags & MS_MOVE != 0 {
        mount::move_to(&named(source)?, target)?;
    } else {
        let kind = kind.ok_or(Errno::EINVAL)?;
        let source = source_text.as_deref().unwrap_or(b"none");
        mount::mount(source, target, &kind, flags, &options)?;
    }
    Ok(0)
}

fn named(source: usize) -> Result<Path> {
    if source == 0 {
        return Err(Errno::EINVAL);
    }
    path::resolve(AT_FDCWD, source, 0)
}

/// Sets the propagation of mounts to other trees. There is only one tree, so all mounts are private
/// and have no master; sharing them is refused.
fn propagate(target: &Path, kind: u32, all: bool) -> Result<()> {
    match kind {
        MS_PRIVATE => mount::set_unbindable(target, Some(false), all),
        MS_UNBINDABLE => mount::set_unbindable(target, Some(true), all),
        MS_SLAVE => mount::set_unbindable(target, None, all),
        _ => Err(Errno::EINVAL),
    }
}

/// umount2(2)
pub fn umount2(target: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::UMOUNT.mask() as u32)?;
    let follow = if flags & UMOUNT_NOFOLLOW != 0 {
        AT_SYMLINK_NOFOLLOW
    } else {
        0
    };
    let root = path::resolve(AT_FDCWD, target, follow)?;
    require(CAP_SYS_ADMIN)?;
    if flags & MNT_EXPIRE != 0 && flags & (MNT_FORCE | MNT_DETACH) != 0 {
        return Err(Errno::EINVAL);
    }
    mount::unmount(root, flags)?;
    Ok(0)
}
