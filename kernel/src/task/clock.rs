//! Clocks: the counter in ns since the machine started, and the offset to the time of day.

extern crate alloc;

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::arch::{self, time};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::SleepMutex;

use super::wait::{WaitError, WaitQueue};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The counter when the kernel started.
static BOOT: AtomicU64 = AtomicU64::new(0);
/// The time of day less CLOCK_MONOTONIC, in ns.
static OFFSET: AtomicI64 = AtomicI64::new(0);

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

/// The same when the counter stood at `ticks`.
pub fn realtime_at(ticks: u64) -> u64 {
    let monotonic = time::ticks_to_ns(ticks - boot_ticks());
    monotonic.saturating_add_signed(OFFSET.load(Relaxed))
}

/// The time of day less CLOCK_MONOTONIC, in ns.
pub fn realtime_offset() -> i64 {
    OFFSET.load(Relaxed)
}

/// Sets CLOCK_REALTIME, in ns since 1970.
pub fn set_realtime(ns: u64) {
    let offset = ns as i64 - monotonic_ns() as i64;
    OFFSET.store(offset, Relaxed);
    arch::vdso::set_realtime_offset(offset);
    TIMES_SET.fetch_add(1, Relaxed);
    FOLLOWERS.lock().retain(|follower| {
        let living = follower.upgrade();
        living.is_some_and(|follower| {
            follower.time_was_set();
            true
        })
    });
}

/// Something that is to happen at a time of day.
pub trait Follow: Send + Sync {
    /// The time of day was set.
    fn time_was_set(self: Arc<Self>);
}

/// Who is told when the time of day is set.
static FOLLOWERS: SleepMutex<Vec<Weak<dyn Follow>>> = SleepMutex::new(Vec::new());

/// Tells `follower` from here on, as long as it lives.
///
/// # Errors
/// ENOMEM.
pub fn follow(follower: Weak<dyn Follow>) -> Result<()> {
    let mut followers = FOLLOWERS.lock();
    if followers.len() == followers.capacity() {
        // As many as are dead make room for new ones.
        followers.retain(|follower| follower.strong_count() > 0);
        let room = followers.len().max(8);
        followers.try_reserve(room).map_err(|_| Errno::ENOMEM)?;
    }
    followers.push(follower);
    Ok(())
}

/// How often the time of day was set.
pub fn times_set() -> u64 {
    TIMES_SET.load(Relaxed)
}

static TIMES_SET: AtomicU64 = AtomicU64::new(0);

/// A thread that sleeps until a time of day.
struct Sleeper(WaitQueue);

impl Follow for Sleeper {
    fn time_was_set(self: Arc<Self>) {
        self.0.wake_all();
    }
}

/// Sleeps until a time of CLOCK_REALTIME in ns, or a signal.
///
/// # Errors
/// ENOMEM.
pub fn sleep_until_time(ns: u64) -> Result<core::result::Result<(), WaitError>> {
    let sleeper = try_arc(Sleeper(WaitQueue::new()))?;
    let this: Weak<Sleeper> = Arc::downgrade(&sleeper);
    follow(this)?;
    loop {
        let set = times_set();
        let is_set = || times_set() != set;
        let woken = sleeper
            .0
            .wait_interruptible(is_set, Some(realtime_deadline(ns)));
        match woken {
            Ok(()) => {}
            Err(WaitError::TimedOut) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// A clock of time that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wall {
    /// CLOCK_MONOTONIC.
    #[default]
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
}

impl Wall {
    /// Its time, in ns.
    pub fn now(self) -> u64 {
        match self {
            Wall::Monotonic => monotonic_ns(),
            Wall::Realtime => realtime_ns(),
        }
    }

    /// The deadline, in ticks, of one of its times in ns.
    pub fn deadline(self, ns: u64) -> u64 {
        match self {
            Wall::Monotonic => monotonic_deadline(ns),
            Wall::Realtime => realtime_deadline(ns),
        }
    }
}

/// The deadline, in ticks, of a time of CLOCK_MONOTONIC in ns: never early.
pub fn monotonic_deadline(ns: u64) -> u64 {
    boot_ticks().saturating_add(time::ns_to_ticks(ns).saturating_add(1))
}

/// The deadline, in ticks, of a time of CLOCK_REALTIME in ns.
pub fn realtime_deadline(ns: u64) -> u64 {
    monotonic_deadline(ns.saturating_add_signed(-realtime_offset()))
}

/// The deadline, in ticks, `ns` from now.
pub fn deadline_in(ns: u64) -> u64 {
    time::now_ticks().saturating_add(time::ns_to_ticks(ns).saturating_add(1))
}
