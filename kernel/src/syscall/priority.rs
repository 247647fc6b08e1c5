//! System calls on the priority of threads: scheduling attributes, and I/O priorities.

use linux_raw_sys::general::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::path::check_flags;
use super::process::check_rest;
use super::sched::{self, Subject, each};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::Credentials;
use crate::task::{can, current, require};

/// `struct sched_attr` (include/uapi/linux/sched/types.h).
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    clamps: [u32; 2],
}

/// The sizes of the original `struct sched_attr`, and of the present one.
const FIRST: usize = 48;
const WHOLE: usize = size_of::<Attributes>();
/// SCHED_FLAG_KEEP_POLICY, SCHED_FLAG_KEEP_PARAMS, and all known flags.
const KEEP_POLICY: u64 = 8;
const KEEP_PARAMETERS: u64 = 16;
const FLAGS: u64 = abi::options::SCHED_FLAGS.mask() | CLAMPS;
/// SCHED_FLAG_UTIL_CLAMP: hints for the CPU's frequency, which are not supported.
const CLAMPS: u64 = 0x60;
/// SCHED_FLAG_RESET_ON_FORK
const RESET_ON_FORK: u64 = 1;
/// The shortest runtime of a deadline thread, in ns.
const SHORTEST: u64 = 1024;

/// sched_setattr(2)
pub fn sched_setattr(tid: i32, attributes: usize, flags: u32) -> Result<usize> {
    if attributes == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    check_flags(flags, 0)?;
    let size = match UserPtr::<u32>::new(attributes).read()? as usize {
        0 => FIRST,
        size => size,
    };
    let fits = (FIRST..=crate::mm::PAGE_SIZE).contains(&size);
    let checked = fits.then(|| check_rest(attributes, WHOLE, size));
    if !matches!(checked, Some(Ok(()))) {
        UserPtr::new(attributes).write(&(WHOLE as u32))?;
        return Err(Errno::E2BIG);
    }
    let mut given = Attributes::default();
    UserSlice::new(attributes, size.min(WHOLE)).copy_in(given.as_mut_bytes())?;
    let clamps = given.flags & CLAMPS != 0 && size < WHOLE;
    if clamps || given.flags & !FLAGS != 0 || (given.policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let subject = Subject::of(tid)?;
    let (old_policy, old_priority) = subject.policy();
    let reset = match given.flags & RESET_ON_FORK {
        0 => 0,
        _ => SCHED_RESET_ON_FORK,
    };
    let (policy, reset) = if given.flags & KEEP_POLICY != 0 {
        (old_policy, subject.reset_on_fork())
    } else {
        (given.policy, reset)
    };
    if given.flags & KEEP_PARAMETERS != 0 {
        given.priority = old_priority;
        given.nice = subject.nice();
    }
    let (least, most) = sched::priorities(policy)?;
    if !(least..=most).contains(&given.priority) {
        return Err(Errno::EINVAL);
    }
    if policy == SCHED_DEADLINE {
        let period = match given.period {
            0 => given.deadline,
            period => period,
        };
        let (runtime, deadline) = (given.runtime, given.deadline);
        if runtime < SHORTEST || runtime > deadline || deadline > period || period >> 63 != 0 {
            return Err(Errno::EINVAL);
        }
    }
    // The nice value of a thread with another policy is unchanged.
    let is_fair = matches!(policy, SCHED_NORMAL | SCHED_BATCH);
    let nice = is_fair.then(|| given.nice.clamp(-20, 19));
    sched::check_change(&subject, policy | reset, given.priority, nice)?;
    if given.flags & CLAMPS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if given.flags & KEEP_PARAMETERS != 0 {
        // As on Linux, the parameters to keep include the policy, but not the reset on fork.
        subject.set_policy(old_policy | reset, old_priority);
        return Ok(0);
    }
    if policy == SCHED_DEADLINE {
        // No time is reserved for such threads, so none is admitted.
        return Err(Errno::EBUSY);
    }
    subject.set_policy(policy | reset, given.priority);
    if let Some(nice) = nice {
        subject.set_nice(nice);
    }
    Ok(0)
}

/// sched_getattr(2)
pub fn sched_getattr(tid: i32, to: usize, size: u32, flags: u32) -> Result<usize> {
    let size = size as usize;
    if to == 0 || tid < 0 || !(FIRST..=crate::mm::PAGE_SIZE).contains(&size) {
        return Err(Errno::EINVAL);
    }
    check_flags(flags, 0)?;
    let subject = Subject::of(tid)?;
    let (policy, priority) = subject.policy();
    let is_real_time = matches!(policy, SCHED_FIFO | SCHED_RR);
    let resets = subject.reset_on_fork() != 0;
    let shown = Attributes {
        size: size.min(WHOLE) as u32,
        policy,
        flags: if resets { RESET_ON_FORK } else { 0 },
        nice: if is_real_time { 0 } else { subject.nice() },
        priority,
        ..Attributes::default()
    };
    UserSlice::new(to, size).copy_out(shown.as_bytes())?;
    Ok(0)
}

/// The shift of the class in an I/O priority (include/uapi/linux/ioprio.h).
const CLASS_SHIFT: u32 = 13;
const NONE: u32 = 0;
const REAL_TIME: u32 = 1;
const BEST_EFFORT: u32 = 2;
const IDLE: u32 = 3;
/// The levels of a class; the bits above them are hints to the device (IOPRIO_HINT).
const LEVELS: u32 = 8;

const _: () = assert!(
    abi::options::IOPRIO.is_handled_by(&[
        NONE as u64,
        REAL_TIME as u64,
        BEST_EFFORT as u64,
        IDLE as u64,
    ]),
    "abi and ioprio_set disagree"
);

/// Converts the numbers of ioprio_get(2) to those of getpriority(2).
fn kind(which: u32) -> Result<u32> {
    which
        .checked_sub(1)
        .filter(|&kind| kind < 3)
        .ok_or(Errno::EINVAL)
}

/// EPERM unless the caller may set the I/O priority of a thread with these credentials.
fn check_io_owner(owner: &Credentials) -> Result<()> {
    let own = current().credentials();
    let covers = owner.permitted & !own.permitted == 0;
    if covers && [own.uid, own.euid].contains(&owner.uid) {
        Ok(())
    } else {
        require(CAP_SYS_NICE)
    }
}

impl Subject {
    /// A thread that has ended has no I/O context any more.
    fn io_priority(&self) -> u32 {
        match self {
            Subject::Living(thread) => thread.io_priority(),
            Subject::Ended(_) => 0,
        }
    }

    fn set_io_priority(&self, priority: u32) -> Result<()> {
        match self {
            Subject::Living(thread) => thread.set_io_priority(priority),
            Subject::Ended(_) => Ok(()),
        }
    }
}

/// ioprio_set(2)
pub fn ioprio_set(which: u32, who: i32, priority: u32) -> Result<usize> {
    let (class, level) = (priority >> CLASS_SHIFT & 7, priority % LEVELS);
    match class {
        REAL_TIME if !can(CAP_SYS_ADMIN) => require(CAP_SYS_NICE)?,
        REAL_TIME | BEST_EFFORT | IDLE => {}
        NONE if level == 0 => {}
        _ => return Err(Errno::EINVAL),
    }
    let set = |subject: &Subject| {
        check_io_owner(&subject.credentials())?;
        subject.set_io_priority(priority)
    };
    match (kind(which)?, who) {
        // As on Linux, 0 is user 0 here, rather than the caller.
        (sched::PRIO_USER, 0) => sched::each_of_user(0, set)?,
        (kind, who) => each(kind, who, set)?,
    }
    Ok(0)
}

/// ioprio_get(2): the highest priority of several threads; for a single one, the value that was
/// set.
pub fn ioprio_get(which: u32, who: i32) -> Result<usize> {
    let kind = kind(which)?;
    let mut best = None;
    each(kind, who, |subject| {
        let own = match subject.io_priority() {
            set if set >> CLASS_SHIFT != NONE || kind == sched::PRIO_PROCESS => set,
            _ => usual(subject),
        };
        best = Some(best.map_or(own, |best: u32| best.min(own)));
        Ok(())
    })?;
    best.map(|best| best as usize).ok_or(Errno::ESRCH)
}

/// The I/O priority of a thread for which none was set, which follows from its scheduling.
fn usual(subject: &Subject) -> u32 {
    let class = match subject.policy().0 {
        SCHED_IDLE => IDLE,
        SCHED_FIFO | SCHED_RR => REAL_TIME,
        _ => BEST_EFFORT,
    };
    class << CLASS_SHIFT | ((subject.nice() + 20) / 5) as u32
}
