//! System calls on resource limits.

use alloc::sync::Arc;

use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::credentials::Credentials;
use crate::task::limits::Limit;
use crate::task::{Process, can, current, pid_table, require};
use linux_raw_sys::general::{CAP_SYS_RESOURCE, RLIMIT_CPU, RLIMIT_STACK};

/// prlimit64(2)
pub fn prlimit64(pid: i32, kind: u32, new: usize, old: usize) -> Result<usize> {
    let new = UserPtr::<[usize; 2]>::new(new).read_opt()?;
    let process = if pid == 0 || pid == current().tid() {
        current().process().clone()
    } else {
        let (process, owner) = pid_table::with_credentials(pid).ok_or(Errno::ESRCH)?;
        if !is_same_user(&owner) {
            require(CAP_SYS_RESOURCE)?;
        }
        process
    };
    let before = exchange(&process, kind, new)?;
    UserPtr::new(old).write_opt(&[before.soft, before.hard])?;
    Ok(0)
}

/// Whether the current thread's real IDs equal all those of `owner`.
fn is_same_user(owner: &Credentials) -> bool {
    let own = current().credentials();
    [owner.uid, owner.euid, owner.suid] == [own.uid; 3]
        && [owner.gid, owner.egid, owner.sgid] == [own.gid; 3]
}

/// Reads a limit of a process, and sets it if `new` is given.
pub fn exchange(process: &Arc<Process>, kind: u32, new: Option<[usize; 2]>) -> Result<Limit> {
    let before = process.limits.get(kind)?;
    if let Some([soft, hard]) = new {
        process
            .limits
            .set(kind, Limit { soft, hard }, can(CAP_SYS_RESOURCE))?;
        if kind == RLIMIT_CPU {
            process.timers.limit_cpu(process)?;
        }
        if kind == RLIMIT_STACK
            && let Some(space) = process
                .find_thread(|_| true)
                .and_then(|thread| thread.space())
        {
            space.set_stack_limit(soft);
        }
    }
    Ok(before)
}

/// getrlimit(2)
pub fn getrlimit(kind: u32, to: usize) -> Result<usize> {
    let limit = current().process().limits.get(kind)?;
    UserPtr::new(to).write(&[limit.soft, limit.hard])?;
    Ok(0)
}

/// setrlimit(2)
pub fn setrlimit(kind: u32, from: usize) -> Result<usize> {
    if from == 0 {
        return Err(Errno::EFAULT);
    }
    prlimit64(0, kind, from, 0)
}
