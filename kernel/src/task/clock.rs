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
/// The time of day less CLOCK_MONOTONIC, in ns.
static OFFSET: AtomicI64 = AtomicI64::new(0);
/// How fast that grows at most without a notification ([`ntp`]).
static FASTEST: AtomicI64 = AtomicI64::new(0);
/// CLOCK_TAI's offset to CLOCK_MONOTONIC, in ns: a leap second does not change it.
static TAI_OFFSET: AtomicI64 = AtomicI64::new(0);

/// CLOCK_MONOTONIC begins now.
pub(super) fn init() {
    BOOT.store(time::now_ticks(), Relaxed);
}

/// The counter when CLOCK_MONOTONIC began, in ticks.
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

/// CLOCK_REALTIME when the counter stood at `ticks`.
pub fn realtime_at(ticks: u64) -> u64 {
    let monotonic = time::ticks_to_ns(ticks - boot_ticks());
    monotonic.saturating_add_signed(OFFSET.load(Relaxed))
}

/// The time of day less CLOCK_MONOTONIC, in ns.
pub fn realtime_offset() -> i64 {
    OFFSET.load(Relaxed)
}

/// CLOCK_TAI, in ns.
pub fn tai_ns() -> u64 {
    monotonic_ns().saturating_add_signed(TAI_OFFSET.load(Relaxed))
}

/// A time of CLOCK_TAI in ns as the time of day.
fn from_tai(ns: u64) -> u64 {
    ns.saturating_add_signed(OFFSET.load(Relaxed) - TAI_OFFSET.load(Relaxed))
}

/// From when on the time of day is refused, in ns since 1970: 30 years before its end
/// (TIME_SETTOD_SEC_MAX).
const LATEST: u64 = 8_277_292_036 * SECOND;

/// Sets CLOCK_REALTIME, in ns since 1970.
///
/// # Errors
/// EINVAL: the machine did not run that early, or it is too late.
pub fn set_realtime(ns: u64) -> Result<()> {
    ntp::set(|now| offset_of(ns, now))?;
    was_set();
    Ok(())
}

/// The offset of CLOCK_REALTIME that is `by` ns later than with `offset`, when CLOCK_MONOTONIC is
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

/// The time of day did not go on as it does by itself.
pub(super) fn was_set() {
    TIMES_SET.fetch_add(1, Relaxed);
    notify_followers();
}

/// CLOCK_REALTIME's offset to CLOCK_MONOTONIC is this from now on, in ns, and grows no faster than
/// that; CLOCK_TAI is `tai` seconds ahead of it. The caller's lock keeps others out.
pub(super) fn publish(offset: i64, fastest: i64, tai: i64) {
    OFFSET.store(offset, Relaxed);
    TAI_OFFSET.store(offset + tai * SECOND as i64, Relaxed);
    FASTEST.store(fastest, Relaxed);
    arch::vdso::set_realtime_offset(offset);
}

/// Deadlines are to be computed again.
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

/// Something that is to happen at a time of day.
pub trait Follow: Send + Sync {
    /// The time of day was set, or CLOCK_TAI, or goes faster.
    fn time_was_set(self: Arc<Self>);
}

/// Notified when the time of day is set.
static FOLLOWERS: Mutex<Sequence<Weak<dyn Follow>>> = Mutex::new(Sequence::new());

/// A follower's place among the others: 0, or its number and one.
pub struct Following(AtomicU64);

impl Following {
    /// A follower that is not registered.
    pub const fn new() -> Self {
        Following(AtomicU64::new(0))
    }

    /// Notifies `follower`, whose part this is, from here on, as long as it lives.
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

/// Refuses clocks whose timers wake the machine to threads without the right to them.
///
/// # Errors
/// EPERM.
pub fn check_alarm(clock: u32) -> Result<()> {
    match clock {
        CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM => require(CAP_WAKE_ALARM),
        _ => Ok(()),
    }
}

/// How often the time of day was set.
pub fn times_set() -> u64 {
    TIMES_SET.load(Relaxed)
}

static TIMES_SET: AtomicU64 = AtomicU64::new(0);
/// How often followers were notified.
static TIMES_NOTIFIED: AtomicU64 = AtomicU64::new(0);

/// When a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// In ticks.
    Ticks(u64),
    /// A time of CLOCK_REALTIME in ns, whenever that comes once the time of day is set.
    TimeOfDay(u64),
    /// A time of CLOCK_TAI in ns.
    Tai(u64),
}

impl Deadline {
    /// In ticks, as the time of day is now.
    pub fn ticks(self) -> u64 {
        match self {
            Deadline::Ticks(ticks) => ticks,
            Deadline::TimeOfDay(ns) => realtime_deadline(ns),
            Deadline::Tai(ns) => realtime_deadline(from_tai(ns)),
        }
    }

    /// Lets the current thread be woken when the time of day is set, if that moves the deadline, as
    /// long as the result lives.
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

/// Waits in `queue` until `ready` holds, a signal comes, or `deadline` passes, and up to `slack`
/// ticks longer.
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

/// Sleeps until `deadline`, with the slack of the current thread, or a signal.
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

/// A clock of time that passes.
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
    /// Its time, in ns.
    pub fn now(self) -> u64 {
        match self {
            Wall::Monotonic => monotonic_ns(),
            Wall::Realtime => realtime_ns(),
            Wall::Tai => tai_ns(),
        }
    }

    /// The deadline, in ticks, of one of its times in ns.
    pub fn deadline(self, ns: u64) -> u64 {
        match self {
            Wall::Monotonic => monotonic_deadline(ns),
            Wall::Realtime => realtime_deadline(ns),
            Wall::Tai => realtime_deadline(from_tai(ns)),
        }
    }
}

/// The deadline, in ticks, of a time of CLOCK_MONOTONIC in ns: never early.
pub fn monotonic_deadline(ns: u64) -> u64 {
    boot_ticks().saturating_add(time::ns_to_ticks(ns).saturating_add(1))
}

/// The deadline, in ticks, of a time of CLOCK_REALTIME in ns: early, where the clock goes slower
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
