//! System calls on capabilities.

use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::credentials::ALL_CAPABILITIES;
use crate::task::{current, pid_table};

/// _LINUX_CAPABILITY_VERSION_1, whose sets have 32 bits.
const VERSION_1: u32 = 0x1998_0330;
/// _LINUX_CAPABILITY_VERSION_2 and 3.
const VERSIONS_64: [u32; 2] = [0x2007_1026, 0x2008_0522];

/// Reads the header; returns the number of words in a set, and the process. For an unknown version,
/// writes the present one back.
fn header(address: usize, probe: bool) -> Result<Option<(usize, i32)>> {
    let header = UserPtr::<[u32; 2]>::new(address);
    let [version, pid] = header.read()?;
    match version {
        VERSION_1 => Ok(Some((1, pid as i32))),
        _ if VERSIONS_64.contains(&version) => Ok(Some((2, pid as i32))),
        _ => {
            header.write(&[VERSIONS_64[1], pid])?;
            if probe { Ok(None) } else { Err(Errno::EINVAL) }
        }
    }
}

/// capget(2)
pub fn capget(head: usize, data: usize) -> Result<usize> {
    let Some((words, pid)) = header(head, data == 0)? else {
        return Ok(0);
    };
    if data == 0 {
        return Ok(0);
    }
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    let who = match pid {
        0 => current().credentials(),
        _ => pid_table::credentials(pid).ok_or(Errno::ESRCH)?,
    };
    let sets = [who.effective, who.permitted, who.inheritable];
    for word in 0..words {
        let part = sets.map(|set| (set >> (32 * word)) as u32);
        UserPtr::new(data).add(word).write(&part)?;
    }
    Ok(0)
}

/// capset(2)
pub fn capset(head: usize, data: usize) -> Result<usize> {
    let Some((words, pid)) = header(head, false)? else {
        return Err(Errno::EINVAL);
    };
    if pid != 0 && pid != current().tid() {
        return Err(Errno::EPERM);
    }
    let mut sets = [0u64; 3];
    for word in 0..words {
        let part = UserPtr::<[u32; 3]>::new(data).add(word).read()?;
        sets.iter_mut()
            .zip(part)
            .for_each(|(set, part)| *set |= (part as u64) << (32 * word));
    }
    // Bits of capabilities that do not exist are ignored.
    let [effective, permitted, inheritable] = sets.map(|set| set & ALL_CAPABILITIES);
    current().change_credentials(|who| {
        let raises = permitted & !who.permitted != 0 || effective & !permitted != 0;
        if raises || inheritable & !who.most_inheritable() != 0 {
            return Err(Errno::EPERM);
        }
        (who.effective, who.permitted, who.inheritable) = (effective, permitted, inheritable);
        who.ambient &= permitted & inheritable;
        Ok(())
    })?;
    Ok(0)
}
