//! The last CPU: waits for SGIs, spinning or asleep, and reports when it took one.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{gic, time};

static READY: AtomicBool = AtomicBool::new(false);
static SLEEPS: AtomicBool = AtomicBool::new(false);
/// The time at which the last SGI was taken; 0 until then.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The loop of the last CPU.
pub extern "C" fn receive() -> ! {
    gic::start_interface();
    READY.store(true, Ordering::Release);
    loop {
        if SLEEPS.load(Ordering::Relaxed) {
            // SAFETY: an interrupt wakes the CPU.
            unsafe { asm!("wfi") };
        } else {
            time::relax();
        }
    }
}

/// Waits until the receiver is ready.
pub fn wait_until_ready() {
    while !READY.load(Ordering::Acquire) {
        time::relax();
    }
}

/// Sets whether the receiver sleeps or spins from the next SGI on.
pub fn set_sleeps(sleeps: bool) {
    SLEEPS.store(sleeps, Ordering::Relaxed);
}

/// Forgets the last SGI.
pub fn expect() {
    TAKEN.store(0, Ordering::Relaxed);
}

/// Records the time at which an SGI was taken.
pub fn received(taken: u64) {
    TAKEN.store(taken, Ordering::Release);
}

/// Waits until an SGI is taken; returns the time of that.
pub fn wait_until_received() -> u64 {
    loop {
        match TAKEN.load(Ordering::Acquire) {
            0 => time::relax(),
            taken => return taken,
        }
    }
}
