//! The virtual counter and timer.

use core::arch::asm;

/// Reads the counter; earlier instructions have completed and later ones have not begun.
#[inline(always)]
pub fn now() -> u64 {
    let ticks;
    // SAFETY: reads the counter.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks) };
    ticks
}

/// The counter's frequency in Hz.
pub fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a constant.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(pure, nomem, nostack)) };
    frequency
}

/// Converts ticks to nanoseconds.
pub fn nanoseconds(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(frequency())) as u64
}

/// Converts microseconds to ticks.
pub fn microseconds(number: u64) -> u64 {
    number * frequency() / 1_000_000
}

/// Gives other CPUs time to run for some microseconds. An emulator that runs one CPU at a time
/// switches only here.
pub fn pause(number: u64) {
    let end = now() + microseconds(number);
    while now() < end {
        relax();
    }
}

/// One step of a loop that waits for another CPU.
#[inline(always)]
pub fn relax() {
    // SAFETY: a hint.
    unsafe { asm!("yield") };
}

/// Arms the virtual timer for `deadline`, in ticks.
pub fn arm(deadline: u64) {
    // SAFETY: the timer's interrupt is handled.
    unsafe {
        asm!("msr cntv_cval_el0, {}", "msr cntv_ctl_el0, {}", "isb", in(reg) deadline, in(reg) 1u64)
    };
}

/// Stops the virtual timer.
pub fn disarm() {
    // SAFETY: stops the timer.
    unsafe { asm!("msr cntv_ctl_el0, xzr", "isb") };
}
