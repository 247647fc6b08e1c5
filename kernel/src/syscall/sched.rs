//! System calls on scheduling.

use linux_raw_sys::general::*;

use super::layout::Layout;
use super::time;
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::Credentials;
use crate::task::process::Scheduling;
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
pub fn sched_setaffinity(tid: i32, size: u32, mask: usize) -> Result<usize> {
    let mut bytes = [0; size_of::<u64>()];
    UserSlice::new(mask, size as usize).copy_in(&mut bytes)?;
    let thread = thread(tid).map_err(|_| Errno::ESRCH)?;
    check_owner(&thread.credentials())?;
    let allowed = u64::from_ne_bytes(bytes) & cpu::online_mask();
    if allowed == 0 {
        return Err(Errno::EINVAL);
    }
    thread.sched.allow(allowed);
    sched::leave_forbidden_cpu(&thread);
    Ok(0)
}

/// sched_getaffinity(2)
pub fn sched_getaffinity<L: Layout>(tid: i32, size: usize, to: usize) -> Result<usize> {
    // As on Linux, the number is truncated to 32 bits.
    let bits = (size as u32).wrapping_mul(8) as usize;
    if !size.is_multiple_of(L::WORD) || bits < cpu::possible() {
        return Err(Errno::EINVAL);
    }
    let allowed = match thread(tid) {
        Ok(thread) => thread.sched.allowed(),
        Err(Errno::ESRCH) => Subject::ended(tid).map(|_| u64::MAX)?,
        Err(_) => return Err(Errno::ESRCH),
    };
    let allowed = allowed & cpu::online_mask();
    let bytes = allowed.to_ne_bytes();
    UserSlice::new(to, size).copy_out(&bytes)?;
    Ok(size.min(bytes.len()))
}

/// A thread or ended process whose scheduling attributes can be read and changed.
pub(super) enum Subject {
    Living(Arc<Thread>),
    /// A zombie, whose last thread has ended.
    Ended(Arc<Process>),
}

impl Subject {
    /// The thread `tid`, or the current one for 0; or the zombie with that number.
    pub fn of(tid: i32) -> Result<Self> {
        match thread(tid) {
            Ok(thread) => Ok(Subject::Living(thread)),
            Err(Errno::ESRCH) => Self::ended(tid),
            Err(error) => Err(error),
        }
    }

    fn ended(pid: i32) -> Result<Self> {
        let process = pid_table::process(pid).filter(|process| process.is_zombie());
        process.map(Subject::Ended).ok_or(Errno::ESRCH)
    }

    pub fn process(&self) -> &Arc<Process> {
        match self {
            Subject::Living(thread) => thread.process(),
            Subject::Ended(process) => process,
        }
    }

    pub fn credentials(&self) -> Arc<Credentials> {
        match self {
            Subject::Living(thread) => thread.credentials(),
            Subject::Ended(process) => process.credentials(),
        }
    }

    pub fn scheduling(&self) -> Scheduling {
        match self {
            Subject::Living(thread) => thread.scheduling(),
            Subject::Ended(process) => process.last_scheduling(),
        }
    }

    /// The policy, without SCHED_RESET_ON_FORK, and the priority.
    pub fn policy(&self) -> (u32, u32) {
        let Scheduling {
            policy, priority, ..
        } = self.scheduling();
        (policy & !SCHED_RESET_ON_FORK, priority)
    }

    pub fn reset_on_fork(&self) -> u32 {
        self.scheduling().policy & SCHED_RESET_ON_FORK
    }

    pub fn nice(&self) -> i32 {
        self.scheduling().nice
    }

    pub fn set_policy(&self, policy: u32, priority: u32) {
        match self {
            Subject::Living(thread) => thread.set_policy(policy, priority),
            Subject::Ended(process) => process.set_last_scheduling(Scheduling {
                policy,
                priority,
                ..self.scheduling()
            }),
        }
    }

    pub fn set_nice(&self, nice: i32) {
        match self {
            Subject::Living(thread) => thread.set_nice(nice),
            Subject::Ended(process) => process.set_last_scheduling(Scheduling {
                nice,
                ..self.scheduling()
            }),
        }
    }
}

/// EPERM unless the caller may change the scheduling of a thread with these credentials.
pub(super) fn check_owner(owner: &Credentials) -> Result<()> {
    let own = current().credentials();
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

/// EPERM unless the caller may set this policy for `subject`: without CAP_SYS_NICE only for its own
/// threads, and within the limits.
pub(super) fn check_change(
    subject: &Subject,
    policy: u32,
    priority: u32,
    nice: Option<i32>,
) -> Result<()> {
    let limits = &subject.process().limits;
    let (old_policy, old_priority) = subject.policy();
    let reset = policy & SCHED_RESET_ON_FORK;
    let within = match policy & !reset {
        SCHED_DEADLINE => false,
        SCHED_FIFO | SCHED_RR => {
            let most = limits.soft(RLIMIT_RTPRIO);
            (policy & !reset == old_policy || most != 0)
                && (priority <= old_priority || priority as usize <= most)
        }
        _ => nice.is_none_or(|nice| nice >= subject.nice() || may_be_nice(subject, nice)),
    };
    let leaves_idle = old_policy == SCHED_IDLE && policy & !reset != SCHED_IDLE;
    let allowed = within
        && (!leaves_idle || may_be_nice(subject, subject.nice()))
        && (reset != 0 || subject.reset_on_fork() == 0)
        && check_owner(&subject.credentials()).is_ok();
    if allowed {
        Ok(())
    } else {
        require(CAP_SYS_NICE)
    }
}

/// Whether RLIMIT_NICE permits a nice value.
fn may_be_nice(subject: &Subject, nice: i32) -> bool {
    (20 - nice) as usize <= subject.process().limits.soft(RLIMIT_NICE)
}

fn set_policy(tid: i32, policy: Option<u32>, parameter: usize) -> Result<usize> {
    if parameter == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = UserPtr::<u32>::new(parameter).read()?;
    let subject = Subject::of(tid)?;
    let policy = policy.unwrap_or(subject.scheduling().policy);
    let reset = policy & SCHED_RESET_ON_FORK;
    let (least, most) = priorities(policy & !reset)?;
    if !(least..=most).contains(&priority) || policy & !reset == SCHED_DEADLINE {
        return Err(Errno::EINVAL);
    }
    check_change(&subject, policy, priority, None)?;
    subject.set_policy(policy, priority);
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
    Ok(Subject::of(tid)?.scheduling().policy as usize)
}

/// sched_getparam(2)
pub fn sched_getparam(tid: i32, to: usize) -> Result<usize> {
    if to == 0 {
        return Err(Errno::EINVAL);
    }
    UserPtr::new(to).write(&Subject::of(tid)?.policy().1)?;
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
    let ns = match Subject::of(tid)?.policy().0 {
        SCHED_FIFO => 0,
        SCHED_RR => real_time::turn_ns(),
        _ => queue::SLICE_NS,
    };
    L::put_time(to, time::timespec(ns))?;
    Ok(0)
}

/// Calls `f` with each thread that the arguments of getpriority(2) and setpriority(2) select, until
/// it fails.
///
/// # Errors
/// EINVAL, ESRCH (there is none), ENOMEM, and the errors of `f`.
pub(super) fn each(which: u32, who: i32, mut f: impl FnMut(&Subject) -> Result<()>) -> Result<()> {
    match which {
        PRIO_PROCESS => return f(&Subject::of(who).map_err(|_| Errno::ESRCH)?),
        PRIO_USER if who == 0 => {
            return each_of_user(current().with_credentials(|own| own.uid), f);
        }
        PRIO_USER => return each_of_user(who as u32, f),
        PRIO_PGRP => {}
        _ => return Err(Errno::EINVAL),
    }
    let group = if who == 0 { current().group() } else { who };
    let (mut found, mut result) = (false, Ok(()));
    let mut one = |subject: &Subject| {
        found = true;
        f(subject)
    };
    pid_table::for_each_of_group(group, |process| {
        if result.is_ok() {
            result = each_of(process, &mut one);
        }
    })?;
    result?;
    if found { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Calls `f` with each thread of a user, until it fails.
///
/// # Errors
/// ESRCH (there is none), and the errors of `f`.
pub(super) fn each_of_user(user: u32, mut f: impl FnMut(&Subject) -> Result<()>) -> Result<()> {
    let mut found = false;
    let mut one = |subject: &Subject| {
        if subject.credentials().uid != user {
            return Ok(());
        }
        found = true;
        f(subject)
    };
    let mut next = 1;
    while let Some(process) = pid_table::next_process(next) {
        each_of(&process, &mut one)?;
        sched::cond_resched();
        next = process.pid() + 1;
    }
    if found { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Calls `f` with each thread of a process, or with the zombie, until it fails.
fn each_of(process: &Arc<Process>, f: &mut dyn FnMut(&Subject) -> Result<()>) -> Result<()> {
    let at = |index| process.threads().get(index).cloned();
    for thread in (0..).map_while(at) {
        f(&Subject::Living(thread))?;
        sched::cond_resched();
    }
    if process.is_zombie() {
        f(&Subject::Ended(process.clone()))?;
    }
    Ok(())
}

/// PRIO_PROCESS
pub const PRIO_PROCESS: u32 = 0;
/// PRIO_PGRP
const PRIO_PGRP: u32 = 1;
/// PRIO_USER
pub const PRIO_USER: u32 = 2;

/// getpriority(2): returns 20 minus the lowest nice value.
pub fn getpriority(which: u32, who: i32) -> Result<usize> {
    let mut least = 20;
    each(which, who, |subject| {
        least = least.min(subject.nice());
        Ok(())
    })?;
    Ok((20 - least) as usize)
}

/// setpriority(2): sets all that it may, and returns the last error.
pub fn setpriority(which: u32, who: i32, nice: i32) -> Result<usize> {
    let nice = nice.clamp(-20, 19);
    let mut result = Ok(0);
    each(which, who, |subject| {
        match check_nice(subject, nice) {
            Ok(()) => subject.set_nice(nice),
            Err(error) => result = Err(error),
        }
        Ok(())
    })?;
    result
}

/// Whether the caller may give `subject` a nice value.
///
/// # Errors
/// EPERM, EACCES.
fn check_nice(subject: &Subject, nice: i32) -> Result<()> {
    check_owner(&subject.credentials())?;
    if nice < subject.nice() && !may_be_nice(subject, nice) {
        require(CAP_SYS_NICE).map_err(|_| Errno::EACCES)?;
    }
    Ok(())
}

/// getcpu(2)
pub fn getcpu(to: usize, node: usize, _cache: usize) -> Result<usize> {
    UserPtr::new(to).write_opt(&(cpu::this().index() as u32))?;
    UserPtr::new(node).write_opt(&0u32)?;
    Ok(0)
}
