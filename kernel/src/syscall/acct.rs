//! acct(2).

use super::file::{check_open, open_checked};
use super::path;
use crate::errno::{Errno, Result};
use crate::fs::file::OpenFlags;
use crate::fs::inode::Kind;
use crate::fs::mount;
use crate::task::{acct as accounting, require};
use linux_raw_sys::general::{
    AT_FDCWD, CAP_SYS_PACCT, O_APPEND, O_LARGEFILE, O_WRONLY, PROC_SUPER_MAGIC, SYSFS_MAGIC,
};

/// acct(2)
pub fn acct(name: usize) -> Result<usize> {
    require(CAP_SYS_PACCT)?;
    if name == 0 {
        accounting::turn(None)?;
        return Ok(0);
    }
    let flags = OpenFlags(O_WRONLY | O_APPEND | O_LARGEFILE);
    let place = path::resolve(AT_FDCWD, name, 0)?;
    check_open(&place, flags)?;
    let mount = place.mount().cloned();
    let place = match mount {
        Some(_) => mount::internal(&place)?,
        None => place,
    };
    let file = open_checked(place, flags)?;
    if file.dentry().kind() != Kind::Regular {
        return Err(Errno::EACCES);
    }
    let mount = mount.ok_or(Errno::EINVAL)?;
    if [PROC_SUPER_MAGIC, SYSFS_MAGIC]
        .map(u64::from)
        .contains(&mount.fs().stat().magic)
    {
        return Err(Errno::EINVAL);
    }
    accounting::turn(Some((file, &mount)))?;
    Ok(0)
}
