//! acct(2).

use super::file::{check_open, open_checked};
use super::path;
use crate::errno::{Errno, Result};
use crate::fs::file::OpenFlags;
use crate::fs::inode::Kind;
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
    let kind = place.mount().map_or(0, |mount| mount.fs().stat().magic);
    let file = open_checked(place, flags)?;
    if file.dentry().kind() != Kind::Regular {
        return Err(Errno::EACCES);
    }
    if [PROC_SUPER_MAGIC, SYSFS_MAGIC]
        .map(u64::from)
        .contains(&kind)
    {
        return Err(Errno::EINVAL);
    }
    accounting::turn(Some(file))?;
    Ok(0)
}
