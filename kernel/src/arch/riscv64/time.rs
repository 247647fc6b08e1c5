//! The time counter and this hart's timer.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{features, sbi};

/// Ticks a second; from the device tree.
static FREQUENCY: AtomicU64 = AtomicU64::new(1);

/// Nanoseconds in a tick, in units of 2^-32.
static NS_BY_TICK: AtomicU64 = AtomicU64::new(0);

const NS_PER_S: u64 = 1_000_000_000;

/// Sets the counter's frequency, in hertz.
pub(super) fn init(frequency: u64) {
    assert!(frequency > 0, "the time counter has a frequency");
    FREQUENCY.store(frequency, Relaxed);
    NS_BY_TICK.store(
        (u128::from(NS_PER_S) << 32).div_ceil(u128::from(frequency)) as u64,
        Relaxed,
    );
}

/// Ticks of the counter since the machine started.
#[inline]
pub fn now_ticks() -> u64 {
    let ticks;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Nanoseconds in a tick, in units of 2^-32: what `ticks_to_ns` multiplies by.
pub fn ns_by_tick() -> u64 {
    NS_BY_TICK.load(Relaxed)
}

/// Ticks a second.
#[inline]
pub fn frequency() -> u64 {
    FREQUENCY.load(Relaxed)
}

/// A duration in nanoseconds.
#[inline]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    (u128::from(ticks) * u128::from(NS_BY_TICK.load(Relaxed)) >> 32) as u64
}

/// A duration in ticks, rounded up.
#[inline]
pub fn ns_to_ticks(ns: u64) -> u64 {
    let exact = u128::from(ns) * u128::from(frequency());
    exact
        .div_ceil(u128::from(NS_PER_S))
        .min(u128::from(u64::MAX)) as u64
}

/// Asks for this hart's timer interrupt at `deadline`, or for none.
pub fn set_deadline(deadline: Option<u64>) {
    let deadline = deadline.unwrap_or(u64::MAX);
    if features::sstc() {
        // SAFETY: the hart has the register (Sstc, section 21.1).
        unsafe { asm!("csrw stimecmp, {}", in(reg) deadline, options(nostack, preserves_flags)) };
    } else {
        sbi::set_timer(deadline);
    }
}
