//! The time counter and this hart's timer.

use super::features;
pub(super) use crate::arch::ticks::set_frequency as init;
pub use crate::arch::ticks::{ns_by_tick, ns_to_ticks, ticks_to_ns};
use core::arch::asm;

/// The current counter value.
#[inline]
pub fn now_ticks() -> u64 {
    let ticks;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// The counter value for a time stamp.
#[inline]
pub fn stamp() -> u64 {
    now_ticks()
}

/// Requests this hart's timer interrupt at `deadline`; `None` cancels it.
pub fn set_deadline(deadline: Option<u64>) {
    let deadline = deadline.unwrap_or(u64::MAX);
    if features::sstc() {
        // SAFETY: the hart has the register (Sstc, section 21.1).
        unsafe { asm!("csrw stimecmp, {}", in(reg) deadline, options(nostack, preserves_flags)) };
    } else {
        sbi_rt::set_timer(deadline);
    }
}
