//! Time, which passes as the kernel looks at it, and jumps where it waits: the same in every run.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) use crate::arch::ticks::set_frequency as init;
pub use crate::arch::ticks::{ns_by_tick, ns_to_ticks, ticks_to_ns};

static NOW: AtomicU64 = AtomicU64::new(0);
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Ticks of the counter since the machine started: no look finds the same.
pub fn now_ticks() -> u64 {
    NOW.fetch_add(1, Relaxed)
}

/// The counter, for a time stamp.
pub fn stamp() -> u64 {
    now_ticks()
}

/// Asks for the timer interrupt at `deadline`, or for none.
pub fn set_deadline(deadline: Option<u64>) {
    DEADLINE.store(deadline.unwrap_or(u64::MAX), Relaxed);
}

/// Some ticks pass.
pub fn pass(ticks: u64) {
    NOW.fetch_add(ticks, Relaxed);
}

/// Whether the timer interrupts.
pub(super) fn is_due() -> bool {
    NOW.load(Relaxed) >= DEADLINE.load(Relaxed)
}

/// Goes to the timer's time.
pub(super) fn jump() {
    let deadline = DEADLINE.load(Relaxed);
    assert_ne!(deadline, u64::MAX, "all threads sleep for ever");
    NOW.fetch_max(deadline, Relaxed);
}
