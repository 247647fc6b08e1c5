//! Interrupt handlers, which record the time of the interrupt.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{gic, receiver, sgi, time};

static TIMER_TAKEN: AtomicU64 = AtomicU64::new(0);

/// Handles an interrupt; `taken` is the counter as read at the vector.
pub extern "C" fn handle(taken: u64) {
    let number = gic::acknowledge();
    match number {
        gic::TIMER => {
            time::disarm();
            TIMER_TAKEN.store(taken, Ordering::Relaxed);
            gic::end(number);
        }
        sgi::LOUD => {
            gic::end(number);
            receiver::received(taken);
        }
        1020.. => {}
        _ => panic!("interrupt {number} was not asked for"),
    }
}

/// Returns the time at which the timer interrupt for `deadline` was taken. Until then this CPU
/// spins, or `sleeps`.
pub fn timer_taken(deadline: u64, sleeps: bool) -> u64 {
    TIMER_TAKEN.store(0, Ordering::Relaxed);
    time::arm(deadline);
    loop {
        if sleeps {
            // SAFETY: an interrupt that is masked ends WFI too, and is taken after it.
            unsafe { asm!("msr daifset, #2", "wfi", "msr daifclr, #2", "isb") };
        }
        match TIMER_TAKEN.load(Ordering::Relaxed) {
            0 => {}
            taken => return taken,
        }
    }
}
