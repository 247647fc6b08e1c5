//! Conversion of durations to and from ticks of the counter.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ticks per second.
static FREQUENCY: AtomicU64 = AtomicU64::new(1);
/// Nanoseconds per tick, in units of 2^-32.
static NS_BY_TICK: AtomicU64 = AtomicU64::new(0);

const NS_PER_S: u64 = 1_000_000_000;

/// Sets the counter's frequency, in hertz.
///
/// # Panics
/// If it is 0.
pub(super) fn set_frequency(frequency: u64) {
    assert!(frequency > 0, "the counter has a frequency");
    FREQUENCY.store(frequency, Relaxed);
    NS_BY_TICK.store(
        (u128::from(NS_PER_S) << 32).div_ceil(u128::from(frequency)) as u64,
        Relaxed,
    );
}

/// Ticks per second.
#[inline]
pub fn frequency() -> u64 {
    FREQUENCY.load(Relaxed)
}

/// Nanoseconds per tick, in units of 2^-32: the factor of [`ticks_to_ns`].
pub fn ns_by_tick() -> u64 {
    NS_BY_TICK.load(Relaxed)
}

/// Converts ticks to nanoseconds.
#[inline]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ns_by_tick())) >> 32) as u64
}

/// Converts nanoseconds to ticks, rounded up.
#[inline]
pub fn ns_to_ticks(ns: u64) -> u64 {
    let exact = u128::from(ns) * u128::from(frequency());
    exact
        .div_ceil(u128::from(NS_PER_S))
        .min(u128::from(u64::MAX)) as u64
}
