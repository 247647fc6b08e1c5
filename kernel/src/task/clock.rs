//! Clocks: the counter in ns since the machine started, and the offset to the time of day.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::arch::{self, time};

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
    monotonic_ns().saturating_add_signed(OFFSET.load(Relaxed))
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
    crate::fs::timerfd::time_was_set();
}

/// How often the time of day was set.
pub fn times_set() -> u64 {
    TIMES_SET.load(Relaxed)
}

static TIMES_SET: AtomicU64 = AtomicU64::new(0);

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
