//! Time, which advances when the kernel reads it, and jumps when it waits: the same in every run.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) use crate::arch::ticks::set_frequency as init;
pub use crate::arch::ticks::{ns_by_tick, ns_to_ticks, ticks_to_ns};

static NOW: AtomicU64 = AtomicU64::new(0);
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// The current counter value: no two reads return the same.
pub fn now_ticks() -> u64 {
    NOW.fetch_add(1, Relaxed)
}

/// The counter value for a time stamp.
pub fn stamp() -> u64 {
    now_ticks()
}

/// Requests the timer interrupt at `deadline`; `None` cancels it.
pub fn set_deadline(deadline: Option<u64>) {
    DEADLINE.store(deadline.unwrap_or(u64::MAX), Relaxed);
}

/// Advances time by some ticks.
pub fn pass(ticks: u64) {
    NOW.fetch_add(ticks, Relaxed);
}

/// Whether the timer interrupt is pending.
pub(super) fn is_due() -> bool {
    NOW.load(Relaxed) >= DEADLINE.load(Relaxed)
}

/// Advances time to the timer's deadline.
pub(super) fn jump() {
    let deadline = DEADLINE.load(Relaxed);
    assert_ne!(deadline, u64::MAX, "all threads sleep for ever");
    NOW.fetch_max(deadline, Relaxed);
}
