//! System calls on users and groups.

use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::Credentials;
use crate::task::current;
use linux_raw_sys::general::{CAP_SETGID, CAP_SETUID};
use zerocopy::IntoBytes;

/// The ID that leaves an identity unchanged.
const SAME: u32 = u32::MAX;
/// The most supplementary groups (NGROUPS_MAX).
const MOST_GROUPS: usize = 65536;

fn get(f: impl FnOnce(&Credentials) -> u32) -> Result<usize> {
    Ok(current().with_credentials(f) as usize)
}

fn change(f: impl FnOnce(&mut Credentials) -> Result<()>) -> Result<usize> {
    current().change_credentials(f)?;
    Ok(0)
}

/// getuid(2)
pub fn getuid() -> Result<usize> {
    get(|who| who.uid)
}

/// geteuid(2)
pub fn geteuid() -> Result<usize> {
    get(|who| who.euid)
}

/// getgid(2)
pub fn getgid() -> Result<usize> {
    get(|who| who.gid)
}

/// getegid(2)
pub fn getegid() -> Result<usize> {
    get(|who| who.egid)
}

/// The caller's real, effective and saved user.
pub fn user_ids() -> [u32; 3] {
    current().with_credentials(|who| [who.uid, who.euid, who.suid])
}

/// The caller's real, effective and saved group.
pub fn group_ids() -> [u32; 3] {
    current().with_credentials(|who| [who.gid, who.egid, who.sgid])
}

/// getresuid(2)
pub fn getresuid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    write_three([real, effective, saved], user_ids())
}

/// getresgid(2)
pub fn getresgid(real: usize, effective: usize, saved: usize) -> Result<usize> {
    write_three([real, effective, saved], group_ids())
}

fn write_three(to: [usize; 3], ids: [u32; 3]) -> Result<usize> {
    to.iter()
        .zip(ids)
        .try_for_each(|(&to, id)| UserPtr::new(to).write(&id))?;
    Ok(0)
}

/// Real, effective and saved identity after a call that sets all three.
fn set_three(old: [u32; 3], new: [u32; 3], privileged: bool) -> Result<[u32; 3]> {
    let allowed = |id: u32| id == SAME || privileged || old.contains(&id);
    if !new.into_iter().all(allowed) {
        return Err(Errno::EPERM);
    }
    Ok(core::array::from_fn(|n| {
        if new[n] == SAME { old[n] } else { new[n] }
    }))
}

/// Real, effective and saved identity after a call that sets the first two.
fn set_two(old: [u32; 3], [real, effective]: [u32; 2], privileged: bool) -> Result<[u32; 3]> {
    let real_allowed = real == SAME || privileged || old[..2].contains(&real);
    let effective_allowed = effective == SAME || privileged || old.contains(&effective);
    if !real_allowed || !effective_allowed {
        return Err(Errno::EPERM);
    }
    let new_real = if real == SAME { old[0] } else { real };
    let new_effective = if effective == SAME { old[1] } else { effective };
    let saves = real != SAME || effective != SAME && effective != old[0];
    Ok([
        new_real,
        new_effective,
        if saves { new_effective } else { old[2] },
    ])
}

/// Real, effective and saved identity after a call that sets one.
fn set_one(old: [u32; 3], id: u32, privileged: bool) -> Result<[u32; 3]> {
    match id {
        SAME => Err(Errno::EINVAL),
        _ if privileged => Ok([id; 3]),
        _ if id == old[0] || id == old[2] => Ok([old[0], id, old[2]]),
        _ => Err(Errno::EPERM),
    }
}

fn change_user(f: impl FnOnce([u32; 3], bool) -> Result<[u32; 3]>) -> Result<usize> {
    change(|who| {
        [who.uid, who.euid, who.suid] = f([who.uid, who.euid, who.suid], who.can(CAP_SETUID))?;
        who.fsuid = who.euid;
        Ok(())
    })
}

fn change_group(f: impl FnOnce([u32; 3], bool) -> Result<[u32; 3]>) -> Result<usize> {
    change(|who| {
        [who.gid, who.egid, who.sgid] = f([who.gid, who.egid, who.sgid], who.can(CAP_SETGID))?;
        who.fsgid = who.egid;
        Ok(())
    })
}

/// setuid(2)
pub fn setuid(id: u32) -> Result<usize> {
    change_user(|old, privileged| set_one(old, id, privileged))
}

/// setgid(2)
pub fn setgid(id: u32) -> Result<usize> {
    change_group(|old, privileged| set_one(old, id, privileged))
}

/// setreuid(2)
pub fn setreuid(real: u32, effective: u32) -> Result<usize> {
    change_user(|old, privileged| set_two(old, [real, effective], privileged))
}

/// setregid(2)
pub fn setregid(real: u32, effective: u32) -> Result<usize> {
    change_group(|old, privileged| set_two(old, [real, effective], privileged))
}

/// Whether a call that sets all three IDs, and that for file access, would change none of them;
/// then it does nothing.
fn is_idle(old: [u32; 3], for_files: u32, [real, effective, saved]: [u32; 3]) -> bool {
    let stays = |new: u32, old: u32| new == SAME || new == old;
    let acts = effective == SAME || [old[1], for_files] == [effective; 2];
    acts && stays(real, old[0]) && stays(saved, old[2])
}

/// setresuid(2)
pub fn setresuid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    let for_files = current().with_credentials(|who| who.fsuid);
    if is_idle(user_ids(), for_files, [real, effective, saved]) {
        return Ok(0);
    }
    change_user(|old, privileged| set_three(old, [real, effective, saved], privileged))
}

/// setresgid(2)
pub fn setresgid(real: u32, effective: u32, saved: u32) -> Result<usize> {
    let for_files = current().with_credentials(|who| who.fsgid);
    if is_idle(group_ids(), for_files, [real, effective, saved]) {
        return Ok(0);
    }
    change_group(|old, privileged| set_three(old, [real, effective, saved], privileged))
}

/// setfsuid(2): returns the old identity, whether it changed or not.
pub fn setfsuid(id: u32) -> Result<usize> {
    let old = get(|who| who.fsuid);
    change(|who| {
        if who.can(CAP_SETUID) && id != SAME || [who.uid, who.euid, who.suid].contains(&id) {
            who.set_file_user(id);
        }
        Ok(())
    })?;
    old
}

/// setfsgid(2): returns the old identity, whether it changed or not.
pub fn setfsgid(id: u32) -> Result<usize> {
    let old = get(|who| who.fsgid);
    change(|who| {
        if who.can(CAP_SETGID) && id != SAME || [who.gid, who.egid, who.sgid].contains(&id) {
            who.fsgid = id;
        }
        Ok(())
    })?;
    old
}

/// getgroups(2)
pub fn getgroups(count: i32, to: usize) -> Result<usize> {
    let groups = current().with_credentials(|who| who.groups.clone());
    match usize::try_from(count).map_err(|_| Errno::EINVAL)? {
        0 => {}
        room if room < groups.len() => return Err(Errno::EINVAL),
        _ => UserSlice::new(to, groups.len() * 4).copy_out(groups.as_bytes())?,
    }
    Ok(groups.len())
}

/// setgroups(2)
pub fn setgroups(count: usize, from: usize) -> Result<usize> {
    set_groups(count, |count| UserPtr::new(from).read_vec(count))
}

/// Sets the supplementary groups to `count` groups, which `read` copies from the program.
///
/// # Errors
/// EPERM, EINVAL, ENOMEM, and the errors of `read`.
pub fn set_groups(count: usize, read: impl FnOnce(usize) -> Result<Vec<u32>>) -> Result<usize> {
    if !current().with_credentials(|who| who.can(CAP_SETGID)) {
        return Err(Errno::EPERM);
    }
    if count > MOST_GROUPS {
        return Err(Errno::EINVAL);
    }
    let mut groups = read(count)?;
    if groups.contains(&SAME) {
        return Err(Errno::EINVAL);
    }
    heapsort::sort(&mut groups);
    let groups = try_arc(groups)?;
    change(|who| {
        who.groups = groups;
        Ok(())
    })
}
