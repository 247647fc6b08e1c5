//! System calls on users and groups with 16-bit numbers.

use alloc::vec::Vec;

use linux_raw_sys::general::{AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use zerocopy::IntoBytes;

use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::syscall::{identity, stat};
use crate::task::current;

/// The ID shown for one that 16 bits cannot hold (`kernel.overflowuid`).
const OVERFLOW: u16 = 65534;

/// Converts a 16-bit ID: all ones leave an identity unchanged.
fn from_id16(id: u32) -> u32 {
    match id as u16 {
        u16::MAX => u32::MAX,
        id => id.into(),
    }
}

/// Converts an ID to 16 bits.
pub fn to_id16(id: u32) -> u16 {
    id.try_into().unwrap_or(OVERFLOW)
}

fn shown(id: Result<usize>) -> Result<usize> {
    id.map(|id| to_id16(id as u32).into())
}

pub fn chown(path: usize, user: u32, group: u32) -> Result<usize> {
    stat::fchownat(AT_FDCWD, path, from_id16(user), from_id16(group), 0)
}

pub fn lchown(path: usize, user: u32, group: u32) -> Result<usize> {
    stat::fchownat(
        AT_FDCWD,
        path,
        from_id16(user),
        from_id16(group),
        AT_SYMLINK_NOFOLLOW,
    )
}

pub fn fchown(fd: i32, user: u32, group: u32) -> Result<usize> {
    stat::fchown(fd, from_id16(user), from_id16(group))
}

pub fn getuid() -> Result<usize> {
    shown(identity::getuid())
}

pub fn geteuid() -> Result<usize> {
    shown(identity::geteuid())
}

pub fn getgid() -> Result<usize> {
    shown(identity::getgid())
}

pub fn getegid() -> Result<usize> {
    shown(identity::getegid())
}

pub fn setuid(id: u32) -> Result<usize> {
    identity::setuid(from_id16(id))
}

pub fn setgid(id: u32) -> Result<usize> {
    identity::setgid(from_id16(id))
}

pub fn setreuid(real: u32, effective: u32) -> Result<usize> {
    identity::setreuid(from_id16(real), from_id16(effective))
}

pub fn setregid(real: u32, effective: u32) -> Result<usize> {
    identity::setregid(from_id16(real), from_id16(effective))
}

pub fn setresuid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    identity::setresuid(from_id16(real), from_id16(effective), from_id16(saved))
}

pub fn setresgid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    identity::setresgid(from_id16(real), from_id16(effective), from_id16(saved))
}

pub fn getresuid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    write_three([real, effective, saved], identity::user_ids())
}

pub fn getresgid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    write_three([real, effective, saved], identity::group_ids())
}

fn write_three(to: [usize; 3], ids: [u32; 3]) -> Result<usize> {
    let mut pairs = to.iter().zip(ids);
    pairs.try_for_each(|(&to, id)| UserPtr::new(to).write(&to_id16(id)))?;
    Ok(0)
}

pub fn setfsuid(id: u32) -> Result<usize> {
    identity::setfsuid(from_id16(id))
}

pub fn setfsgid(id: u32) -> Result<usize> {
    identity::setfsgid(from_id16(id))
}

pub fn getgroups(count: i32, to: usize) -> Result<usize> {
    let groups = current().with_credentials(|who| who.groups.clone());
    let room = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if room == 0 {
        return Ok(groups.len());
    }
    if room < groups.len() {
        return Err(Errno::EINVAL);
    }
    let mut shown = Vec::new();
    let reserved = shown.try_reserve_exact(groups.len());
    reserved.map_err(|_| Errno::ENOMEM)?;
    shown.extend(groups.iter().map(|&group| to_id16(group)));
    UserSlice::new(to, 2 * shown.len()).copy_out(shown.as_bytes())?;
    Ok(shown.len())
}

pub fn setgroups(count: usize, from: usize) -> Result<usize> {
    identity::set_groups(count, |count| {
        let given = UserPtr::<u16>::new(from).read_vec(count)?;
        let mut groups = Vec::new();
        let reserved = groups.try_reserve_exact(count);
        reserved.map_err(|_| Errno::ENOMEM)?;
        groups.extend(given.iter().map(|&group| from_id16(group.into())));
        Ok(groups)
    })
}
