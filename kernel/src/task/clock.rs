//! Clocks: the counter in ns since the machine started, and its offset to the time of day.

extern crate alloc;

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use alloc::sync::{Arc, Weak};

use crate::arch::{self, current_arc, time};
use crate::errno::{Errno, Result};
use crate::fs::sequence::Sequence;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

use super::wait_queue::{WaitError, WaitQueue};
use super::{Thread, current, ntp, require, sched};
use linux_raw_sys::general::{CAP_WAKE_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_REALTIME_ALARM};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The counter when the kernel started.
static BOOT: AtomicU64 = AtomicU64::new(0);
/// CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
static OFFSET: AtomicI64 = AtomicI64::new(0);
/// The fastest rate at which that grows without a notification ([`ntp`]).
static FASTEST: AtomicI64 = AtomicI64::new(0);
/// CLOCK_TAI's offset to CLOCK_MONOTONIC, in ns: a leap second does not change it.
static TAI_OFFSET: AtomicI64 = AtomicI64::new(0);

/// Starts CLOCK_MONOTONIC.
pub(super) fn init() {
    BOOT.store(time::now_ticks(), Relaxed);
}

/// The counter, in ticks, at which CLOCK_MONOTONIC began.
pub fn boot_ticks() -> u64 {
    BOOT.load(Relaxed)
}

/// CLOCK_MONOTONIC, in ns.
pub fn monotonic_ns() -> u64 {
    time::ticks_to_ns(time::now_ticks() - boot_ticks())
}

/// CLOCK_REALTIME, in ns since 1970.
pub fn realtime_ns() -> u64 {
    realtime_at(time::now_ticks())
}

/// CLOCK_REALTIME when the counter was at `ticks`.
pub fn realtime_at(ticks: u64) -> u64 {
    let monotonic = time::ticks_to_ns(ticks - boot_ticks());
    monotonic.saturating_add_signed(OFFSET.load(Relaxed))
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
pub fn realtime_offset() -> i64 {
    OFFSET.load(Relaxed)
}

/// CLOCK_TAI, in ns.
pub fn tai_ns() -> u64 {
    monotonic_ns().saturating_add_signed(TAI_OFFSET.load(Relaxed))
}

/// Converts a time of CLOCK_TAI to CLOCK_REALTIME, in ns.
fn from_tai(ns: u64) -> u64 {
    ns.saturating_add_signed(OFFSET.load(Relaxed) - TAI_OFFSET.load(Relaxed))
}

/// The first time of day that is refused, in ns since 1970: 30 years before the clock's end
/// (TIME_SETTOD_SEC_MAX).
pub const LATEST: u64 = 8_277_292_036 * SECOND;

/// Sets CLOCK_REALTIME, in ns since 1970.
///
/// # Errors
/// EINVAL: the time is before the machine's start, or too late.
pub fn set_realtime(ns: u64) -> Result<()> {
    ntp::set(|now| offset_of(ns, now))?;
    was_set();
    Ok(())
}

/// The offset of CLOCK_REALTIME after a step by `by` ns from `offset`, when CLOCK_MONOTONIC is
/// `now`.
///
/// # Errors
/// EINVAL as above.
pub(super) fn stepped(now: u64, offset: i64, by: i64) -> Result<i64> {
    let ns = now.checked_add_signed(offset).ok_or(Errno::EINVAL)?;
    offset_of(ns.checked_add_signed(by).ok_or(Errno::EINVAL)?, now)
}

fn offset_of(ns: u64, now: u64) -> Result<i64> {
    let offset = ns.checked_sub(now).filter(|_| ns < LATEST);
    offset.map(|ns| ns as i64).ok_or(Errno::EINVAL)
}

/// Counts a discontinuity of the time of day.
pub(super) fn was_set() {
    TIMES_SET.fetch_add(1, Relaxed);
    notify_followers();
}

/// Sets CLOCK_REALTIME's offset to CLOCK_MONOTONIC, in ns, and the fastest rate at which it grows;
/// CLOCK_TAI is `tai` seconds ahead of it. The caller holds a lock against other writers.
pub(super) fn publish(offset: i64, fastest: i64, tai: i64) {
    OFFSET.store(offset, Relaxed);
    TAI_OFFSET.store(offset + tai * SECOND as i64, Relaxed);
    FASTEST.store(fastest, Relaxed);
    arch::vdso::set_realtime_offset(offset);
}

/// Notifies followers that deadlines must be computed again.
pub(super) fn notify_followers() {
    TIMES_NOTIFIED.fetch_add(1, Relaxed);
    let (mut from, end) = (0, FOLLOWERS.lock().end());
    while let Some((number, follower)) = next_follower(from).filter(|next| next.0 < end) {
        from = number + 1;
        if let Some(follower) = follower.upgrade() {
            follower.time_was_set();
        }
        sched::cond_resched();
    }
}

fn next_follower(from: u64) -> Option<(u64, Weak<dyn Follow>)> {
    let followers = FOLLOWERS.lock();
    let (number, follower) = followers.first_from(from)?;
    Some((number, follower.clone()))
}

/// An object with a deadline at a time of day.
pub trait Follow: Send + Sync {
    /// Called when the time of day or CLOCK_TAI was set, or advances faster.
    fn time_was_set(self: Arc<Self>);
}

/// Objects that are notified when the time of day is set.
static FOLLOWERS: Mutex<Sequence<Weak<dyn Follow>>> = Mutex::new(Sequence::new());

/// A follower's registration: 0, or its number plus one.
pub struct Following(AtomicU64);

impl Following {
    /// No registration.
    pub const fn new() -> Self {
        Following(AtomicU64::new(0))
    }

    /// Registers `follower`, which owns this, for notifications as long as it lives.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn begin(&self, follower: Weak<dyn Follow>) -> Result<()> {
        if self.0.load(Relaxed) != 0 {
            return Ok(());
        }
        let mut followers = FOLLOWERS.lock();
        if self.0.load(Relaxed) == 0 {
            self.0.store(followers.push(follower)? + 1, Relaxed);
        }
        Ok(())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(number) = self.0.get_mut().checked_sub(1) {
            let gone = FOLLOWERS.lock().remove(number);
            drop(gone);
        }
    }
}

/// EPERM for alarm clocks, whose timers wake the machine, if the thread has no right to them.
///
/// # Errors
/// EPERM.
pub fn check_alarm(clock: u32) -> Result<()> {
    match is_alarm(clock) {
        true => require(CAP_WAKE_ALARM),
        false => Ok(()),
    }
}

/// Whether the clock's timers wake a machine that sleeps.
pub fn is_alarm(clock: u32) -> bool {
    matches!(clock, CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM)
}

/// The number of times that the time of day was set.
pub fn times_set() -> u64 {
    TIMES_SET.load(Relaxed)
}

static TIMES_SET: AtomicU64 = AtomicU64::new(0);
/// The number of times that followers were notified.
static TIMES_NOTIFIED: AtomicU64 = AtomicU64::new(0);

/// When a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// In ticks.
    Ticks(u64),
    /// A time of CLOCK_REALTIME in ns, which moves when the time of day is set.
    TimeOfDay(u64),
    /// A time of CLOCK_TAI in ns.
    Tai(u64),
}

impl Deadline {
    /// The deadline in ticks, according to the present time of day.
    pub fn ticks(self) -> u64 {
        match self {
            Deadline::Ticks(ticks) => ticks,
            Deadline::TimeOfDay(ns) => realtime_deadline(ns),
            Deadline::Tai(ns) => realtime_deadline(from_tai(ns)),
        }
    }

    /// If setting the time of day can move the deadline, makes such a change wake the current
    /// thread, as long as the result lives.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn follow(self) -> Result<Option<Arc<Sleeper>>> {
        if let Deadline::Ticks(_) = self {
            return Ok(None);
        }
        let sleeper = try_arc(Sleeper {
            thread: current_arc(),
            following: Following::new(),
        })?;
        let this: Weak<Sleeper> = Arc::downgrade(&sleeper);
        sleeper.following.begin(this)?;
        Ok(Some(sleeper))
    }
}

/// A thread that sleeps until a time of day.
pub struct Sleeper {
    thread: Arc<Thread>,
    following: Following,
}

impl Follow for Sleeper {
    fn time_was_set(self: Arc<Self>) {
        sched::wake(self.thread.clone());
    }
}

/// Waits in `queue` until `ready` holds, a signal arrives, or `deadline` passes, with a slack of
/// `slack` ticks.
///
/// # Errors
/// ENOMEM.
pub fn wait_in(
    queue: &WaitQueue,
    mut ready: impl FnMut() -> bool,
    deadline: Deadline,
    slack: u64,
) -> Result<core::result::Result<(), WaitError>> {
    let _sleeper = deadline.follow()?;
    loop {
        let before = TIMES_NOTIFIED.load(Relaxed);
        let is_notified = || TIMES_NOTIFIED.load(Relaxed) != before;
        let looks = || ready() || is_notified();
        let woken = queue.wait_with_slack(looks, Some(deadline.ticks()), slack);
        let is_early = woken == Err(WaitError::TimedOut) && deadline.ticks() > time::now_ticks();
        if !is_early && (woken.is_err() || ready()) {
            return Ok(woken);
        }
    }
}

/// Sleeps until `deadline`, with the current thread's slack, or until a signal arrives.
///
/// # Errors
/// ENOMEM.
pub fn sleep_until_time(deadline: Deadline) -> Result<core::result::Result<(), WaitError>> {
    let woken = wait_in(
        &WaitQueue::new(),
        || false,
        deadline,
        current().slack_ticks(),
    )?;
    Ok(woken.or_else(|error| match error {
        WaitError::TimedOut => Ok(()),
        error => Err(error),
    }))
}

/// A clock that measures elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wall {
    /// CLOCK_MONOTONIC.
    #[default]
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_TAI.
    Tai,
}

impl Wall {
    /// The clock's present time, in ns.
    pub fn now(self) -> u64 {
        match self {
            Wall::Monotonic => monotonic_ns(),
            Wall::Realtime => realtime_ns(),
            Wall::Tai => tai_ns(),
        }
    }

    /// The deadline, in ticks, of a time of the clock in ns.
    pub fn deadline(self, ns: u64) -> u64 {
        match self {
            Wall::Monotonic => monotonic_deadline(ns),
            Wall::Realtime => realtime_deadline(ns),
            Wall::Tai => realtime_deadline(from_tai(ns)),
        }
    }
}

/// The deadline, in ticks, of a time of CLOCK_MONOTONIC in ns; never too early.
pub fn monotonic_deadline(ns: u64) -> u64 {
    boot_ticks().saturating_add(time::ns_to_ticks(ns).saturating_add(1))
}

/// The deadline, in ticks, of a time of CLOCK_REALTIME in ns; too early if the clock runs slower
/// until then than it may.
pub fn realtime_deadline(ns: u64) -> u64 {
    let nominal = ns.saturating_add_signed(realtime_offset().saturating_neg());
    monotonic_deadline(match FASTEST.load(Relaxed) {
        0 => nominal,
        rate => {
            let now = monotonic_ns().min(nominal);
            now.saturating_add(::ntp::unslewed(nominal - now, rate))
        }
    })
}

/// The deadline, in ticks, `ns` from now.
pub fn deadline_in(ns: u64) -> u64 {
    time::now_ticks().saturating_add(time::ns_to_ticks(ns).saturating_add(1))
}
