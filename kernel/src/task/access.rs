//! Who may look into another process.

use super::{Process, current};
use crate::errno::{Errno, Result};
use linux_raw_sys::general::CAP_SYS_PTRACE;

/// Whether the current thread may look into `target` and change what it finds there, as ptrace(2) has it.
///
/// # Errors
/// EPERM.
pub fn check(target: &Process) -> Result<()> {
    if core::ptr::eq(target, &**current().process()) {
        return Ok(());
    }
    let (users, groups, held) = target.with_credentials(|who| {
        (
            [who.uid, who.euid, who.suid],
            [who.gid, who.egid, who.sgid],
            who.permitted,
        )
    });
    let allowed = current().with_credentials(|who| {
        let same = users.iter().all(|&id| id == who.uid) && groups.iter().all(|&id| id == who.gid);
        let covers = held & !who.permitted == 0;
        who.can(CAP_SYS_PTRACE) || same && covers && target.dumpable() == 1
    });
    if allowed { Ok(()) } else { Err(Errno::EPERM) }
}
