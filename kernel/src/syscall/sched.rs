//! System calls on scheduling.

use linux_raw_sys::general::*;

use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::{Thread, current, require, sched, tree};
use alloc::sync::Arc;

/// The thread `tid`, or the current one for 0.
pub(super) fn thread(tid: i32) -> Result<Arc<Thread>> {
    if tid < 0 {
        return Err(Errno::EINVAL);
    }
    tree::thread(if tid == 0 { current().tid() } else { tid }).ok_or(Errno::ESRCH)
}

/// sched_yield(2)
pub fn sched_yield() -> Result<usize> {
    sched::yield_now();
    Ok(0)
}

fn online() -> u64 {
    u64::MAX >> (u64::BITS as usize - cpu::count())
}

/// sched_setaffinity(2)
pub fn sched_setaffinity(tid: i32, size: usize, mask: usize) -> Result<usize> {
    let mut bytes = [0; size_of::<u64>()];
    UserSlice::new(mask, size).copy_in(&mut bytes)?;
    let allowed = u64::from_ne_bytes(bytes) & online();
    if allowed == 0 {
        return Err(Errno::EINVAL);
    }
    let thread = thread(tid)?;
    check_owner(&thread)?;
    thread.sched.allow(allowed);
    sched::settle(&thread);
    Ok(0)
}

/// sched_getaffinity(2)
pub fn sched_getaffinity(tid: i32, size: usize, to: usize) -> Result<usize> {
    if size % size_of::<usize>() != 0 || size * 8 < cpu::count() {
        return Err(Errno::EINVAL);
    }
    let allowed = thread(tid)?.sched.allowed() & online();
    let bytes = allowed.to_ne_bytes();
    UserSlice::new(to, size).copy_out(&bytes)?;
    Ok(size.min(bytes.len()))
}

/// EPERM unless the caller may decide how `thread` is scheduled.
pub(super) fn check_owner(thread: &Thread) -> Result<()> {
    let owner = thread.with_credentials(|who| (who.uid, who.euid));
    let own = current().with_credentials(|who| who.euid);
    if own == owner.0 || own == owner.1 {
        Ok(())
    } else {
        require(CAP_SYS_NICE)
    }
}

/// Lowest and highest priority of a policy.
pub(super) fn priorities(policy: u32) -> Result<(u32, u32)> {
    match policy {
        SCHED_FIFO | SCHED_RR => Ok((1, 99)),
        SCHED_NORMAL | SCHED_BATCH | SCHED_IDLE | SCHED_DEADLINE => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

fn set_policy(tid: i32, policy: Option<u32>, parameter: usize) -> Result<usize> {
    if parameter == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = UserPtr::<u32>::new(parameter).read()?;
    let thread = thread(tid)?;
    let policy = policy.unwrap_or(thread.policy().0 | thread.reset_on_fork());
    let reset = policy & SCHED_RESET_ON_FORK;
    let (least, most) = priorities(policy & !reset)?;
    if !(least..=most).contains(&priority) || policy & !reset == SCHED_DEADLINE {
        return Err(Errno::EINVAL);
    }
    check_owner(&thread)?;
    if most != 0 {
        require(CAP_SYS_NICE)?;
    }
    thread.set_policy(policy, priority);
    Ok(0)
}

/// sched_setscheduler(2)
pub fn sched_setscheduler(tid: i32, policy: u32, parameter: usize) -> Result<usize> {
    set_policy(tid, Some(policy), parameter)
}

/// sched_setparam(2)
pub fn sched_setparam(tid: i32, parameter: usize) -> Result<usize> {
    set_policy(tid, None, parameter)
}

/// sched_getscheduler(2)
pub fn sched_getscheduler(tid: i32) -> Result<usize> {
    let thread = thread(tid)?;
    Ok((thread.policy().0 | thread.reset_on_fork()) as usize)
}

/// sched_getparam(2)
pub fn sched_getparam(tid: i32, to: usize) -> Result<usize> {
    if to == 0 {
        return Err(Errno::EINVAL);
    }
    UserPtr::new(to).write(&thread(tid)?.policy().1)?;
    Ok(0)
}

/// sched_get_priority_max(2)
pub fn sched_get_priority_max(policy: u32) -> Result<usize> {
    Ok(priorities(policy)?.1 as usize)
}

/// sched_get_priority_min(2)
pub fn sched_get_priority_min(policy: u32) -> Result<usize> {
    Ok(priorities(policy)?.0 as usize)
}

/// sched_rr_get_interval(2)
pub fn sched_rr_get_interval(tid: i32, to: usize) -> Result<usize> {
    let fifo = thread(tid)?.policy().0 == SCHED_FIFO;
    let ns = if fifo {
        0
    } else {
        crate::task::queue::SLICE_NS
    };
    UserPtr::new(to).write(&[0, ns])?;
    Ok(0)
}

/// Calls `f` with each thread that getpriority(2) and setpriority(2) mean.
pub(super) fn each(
    which: u32,
    who: i32,
    mut f: impl FnMut(&Arc<Thread>) -> Result<()>,
) -> Result<()> {
    if which == PRIO_PROCESS {
        return f(&thread(who).map_err(|_| Errno::ESRCH)?);
    }
    let group = if who == 0 { current().group() } else { who };
    let user = if who == 0 {
        current().with_credentials(|own| own.uid)
    } else {
        who as u32
    };
    if which > PRIO_USER {
        return Err(Errno::EINVAL);
    }
    let mut result = Err(Errno::ESRCH);
    tree::for_each(
        |process| match which {
            PRIO_PGRP => process.group() == group,
            _ => process.with_credentials(|other| other.uid) == user,
        },
        |process| {
            let threads: alloc::vec::Vec<_> = process.threads().iter().cloned().collect();
            for thread in &threads {
                result = f(thread);
            }
        },
    )?;
    result
}

/// PRIO_PROCESS
const PRIO_PROCESS: u32 = 0;
/// PRIO_PGRP
const PRIO_PGRP: u32 = 1;
/// PRIO_USER
const PRIO_USER: u32 = 2;

/// getpriority(2): 20 less the least nice value.
pub fn getpriority(which: u32, who: i32) -> Result<usize> {
    let mut least = i32::MAX;
    each(which, who, |thread| {
        least = least.min(thread.nice());
        Ok(())
    })?;
    Ok((20 - least) as usize)
}

/// setpriority(2)
pub fn setpriority(which: u32, who: i32, nice: i32) -> Result<usize> {
    let nice = nice.clamp(-20, 19);
    each(which, who, |thread| {
        let owner = thread.with_credentials(|who| (who.uid, who.euid));
        let own = current().with_credentials(|who| who.euid);
        let privileged = require(CAP_SYS_NICE);
        if own != owner.0 && own != owner.1 && privileged.is_err() {
            return Err(Errno::EPERM);
        }
        if nice < thread.nice() && privileged.is_err() {
            return Err(Errno::EACCES);
        }
        thread.set_nice(nice);
        Ok(())
    })?;
    Ok(0)
}

/// getcpu(2)
pub fn getcpu(to: usize, node: usize, _cache: usize) -> Result<usize> {
    UserPtr::new(to).write_opt(&(cpu::this().index() as u32))?;
    UserPtr::new(node).write_opt(&0u32)?;
    Ok(0)
}
