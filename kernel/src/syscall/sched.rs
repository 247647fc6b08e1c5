//! System calls on scheduling.

use linux_raw_sys::general::*;

use super::layout::Layout;
use super::time;
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::{Process, Thread, current, pid_table, queue, real_time, require, sched};
use alloc::sync::Arc;

/// The thread `tid`, or the current one for 0.
pub(super) fn thread(tid: i32) -> Result<Arc<Thread>> {
    if tid < 0 {
        return Err(Errno::EINVAL);
    }
    pid_table::thread(if tid == 0 { current().tid() } else { tid }).ok_or(Errno::ESRCH)
}

/// sched_yield(2)
pub fn sched_yield() -> Result<usize> {
    sched::yield_now();
    Ok(0)
}

/// sched_setaffinity(2)
pub fn sched_setaffinity(tid: i32, size: usize, mask: usize) -> Result<usize> {
    let mut bytes = [0; size_of::<u64>()];
    UserSlice::new(mask, size).copy_in(&mut bytes)?;
    let allowed = u64::from_ne_bytes(bytes) & cpu::online_mask();
    if allowed == 0 {
        return Err(Errno::EINVAL);
    }
    let thread = thread(tid)?;
    check_owner(&thread)?;
    thread.sched.allow(allowed);
    sched::leave_forbidden_cpu(&thread);
    Ok(0)
}

/// sched_getaffinity(2)
pub fn sched_getaffinity<L: Layout>(tid: i32, size: usize, to: usize) -> Result<usize> {
    // A number of 32 bits, as on Linux.
    let bits = (size as u32).wrapping_mul(8) as usize;
    if !size.is_multiple_of(L::WORD) || bits < cpu::possible() {
        return Err(Errno::EINVAL);
    }
    let allowed = match thread(tid) {
        Ok(thread) => thread.sched.allowed(),
        Err(Errno::ESRCH) => ended(tid).map(|_| u64::MAX)?,
        Err(error) => return Err(error),
    };
    let allowed = allowed & cpu::online_mask();
    let bytes = allowed.to_ne_bytes();
    UserSlice::new(to, size).copy_out(&bytes)?;
    Ok(size.min(bytes.len()))
}

/// EPERM unless the caller may decide how `thread` is scheduled.
pub(super) fn check_owner(thread: &Thread) -> Result<()> {
    let (own, owner) = (current().credentials(), thread.credentials());
    let covers = owner.permitted & !own.permitted == 0;
    if covers && [owner.uid, owner.euid].contains(&own.euid) {
        Ok(())
    } else {
        require(CAP_SYS_NICE)
    }
}

const _: () = assert!(
    abi::options::POLICIES.is_handled_by(&[
        SCHED_NORMAL as u64,
        SCHED_FIFO as u64,
        SCHED_RR as u64,
        SCHED_BATCH as u64,
        SCHED_IDLE as u64,
        SCHED_DEADLINE as u64,
    ]),
    "abi and the policies disagree"
);

/// Lowest and highest priority of a policy.
pub(super) fn priorities(policy: u32) -> Result<(u32, u32)> {
    match policy {
        SCHED_FIFO | SCHED_RR => Ok((1, 99)),
        SCHED_NORMAL | SCHED_BATCH | SCHED_IDLE | SCHED_DEADLINE => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

/// EPERM unless the caller may have `thread` scheduled so: without CAP_SYS_NICE only its own, as
/// far as the limits go.
pub(super) fn check_change(
    thread: &Thread,
    policy: u32,
    priority: u32,
    nice: Option<i32>,
) -> Result<()> {
    let limits = &thread.process().limits;
    let (old_policy, old_priority) = thread.policy();
    let reset = policy & SCHED_RESET_ON_FORK;
    let within = match policy & !reset {
        SCHED_DEADLINE => false,
        SCHED_FIFO | SCHED_RR => {
            let most = limits.soft(RLIMIT_RTPRIO);
            (policy & !reset == old_policy || most != 0)
                && (priority <= old_priority || priority as usize <= most)
        }
        _ => nice.is_none_or(|nice| nice >= thread.nice() || may_be_nice(thread, nice)),
    };
    let leaves_idle = old_policy == SCHED_IDLE && policy & !reset != SCHED_IDLE;
    let allowed = within
        && (!leaves_idle || may_be_nice(thread, thread.nice()))
        && (reset != 0 || thread.reset_on_fork() == 0)
        && check_owner(thread).is_ok();
    if allowed {
        Ok(())
    } else {
        require(CAP_SYS_NICE)
    }
}

/// Whether RLIMIT_NICE lets a thread have a nice value, however low.
fn may_be_nice(thread: &Thread, nice: i32) -> bool {
    (20 - nice) as usize <= thread.process().limits.soft(RLIMIT_NICE)
}

/// A process that has ended and was not waited for: it has no thread, but its scheduling can be
/// asked for.
fn ended(tid: i32) -> Result<Arc<Process>> {
    let process = pid_table::process(tid).filter(|process| process.is_zombie());
    process.ok_or(Errno::ESRCH)
}

fn set_policy(tid: i32, policy: Option<u32>, parameter: usize) -> Result<usize> {
    if parameter == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = UserPtr::<u32>::new(parameter).read()?;
    let thread = match thread(tid) {
        Err(Errno::ESRCH) => {
            let process = ended(tid)?;
            let [last, _] = process.last_policy();
            process.set_last_policy([policy.unwrap_or(last), priority]);
            return Ok(0);
        }
        thread => thread?,
    };
    let policy = policy.unwrap_or(thread.policy().0 | thread.reset_on_fork());
    let reset = policy & SCHED_RESET_ON_FORK;
    let (least, most) = priorities(policy & !reset)?;
    if !(least..=most).contains(&priority) || policy & !reset == SCHED_DEADLINE {
        return Err(Errno::EINVAL);
    }
    check_change(&thread, policy, priority, None)?;
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
    match thread(tid) {
        Ok(thread) => Ok((thread.policy().0 | thread.reset_on_fork()) as usize),
        Err(Errno::ESRCH) => Ok(ended(tid)?.last_policy()[0] as usize),
        Err(error) => Err(error),
    }
}

/// sched_getparam(2)
pub fn sched_getparam(tid: i32, to: usize) -> Result<usize> {
    if to == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = match thread(tid) {
        Ok(thread) => thread.policy().1,
        Err(Errno::ESRCH) => ended(tid)?.last_policy()[1],
        Err(error) => return Err(error),
    };
    UserPtr::new(to).write(&priority)?;
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
pub fn sched_rr_get_interval<L: Layout>(tid: i32, to: usize) -> Result<usize> {
    let ns = match thread(tid)?.policy().0 {
        SCHED_FIFO => 0,
        SCHED_RR => real_time::turn_ns(),
        _ => queue::SLICE_NS,
    };
    L::put_time(to, time::timespec(ns))?;
    Ok(0)
}

/// Calls `f` with each thread that getpriority(2) and setpriority(2) mean.
pub(super) fn each(
    which: u32,
    who: i32,
    mut f: impl FnMut(&Arc<Thread>) -> Result<()>,
) -> Result<()> {
    if which == PRIO_PROCESS {
        return match thread(who) {
            Ok(thread) => f(&thread),
            // A thread that has ended is better than none.
            Err(_) => ended(who).map(drop),
        };
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
    let each = |process: &Arc<Process>| {
        let at = |index| process.threads().get(index).cloned();
        for thread in (0..).map_while(at) {
            result = f(&thread);
        }
    };
    match which {
        PRIO_PGRP => pid_table::for_each_of_group(group, each),
        _ => pid_table::for_each(
            |process| process.with_credentials(|other| other.uid) == user,
            each,
        ),
    }?;
    result
}

/// PRIO_PROCESS
pub const PRIO_PROCESS: u32 = 0;
/// PRIO_PGRP
const PRIO_PGRP: u32 = 1;
/// PRIO_USER
const PRIO_USER: u32 = 2;

/// getpriority(2): 20 less the least nice value.
pub fn getpriority(which: u32, who: i32) -> Result<usize> {
    let mut least = None;
    each(which, who, |thread| {
        least = Some(least.unwrap_or(20).min(thread.nice()));
        Ok(())
    })?;
    // An ended process has no thread, and so the ordinary value.
    Ok((20 - least.unwrap_or(0)) as usize)
}

/// setpriority(2)
pub fn setpriority(which: u32, who: i32, nice: i32) -> Result<usize> {
    let nice = nice.clamp(-20, 19);
    each(which, who, |thread| {
        check_owner(thread)?;
        if nice < thread.nice() && !may_be_nice(thread, nice) {
            require(CAP_SYS_NICE).map_err(|_| Errno::EACCES)?;
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
