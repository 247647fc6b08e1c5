//! The last CPU: it waits, spinning or asleep, and says when an SGI reached it.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{gic, time};

static READY: AtomicBool = AtomicBool::new(false);
static SLEEPS: AtomicBool = AtomicBool::new(false);
/// When the last SGI was taken; 0 until then.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The last CPU's work.
pub extern "C" fn receive() -> ! {
    gic::start_interface();
    READY.store(true, Ordering::Release);
    loop {
        if SLEEPS.load(Ordering::Relaxed) {
            // SAFETY: an interrupt wakes it.
            unsafe { asm!("wfi") };
        } else {
            time::relax();
        }
    }
}

/// Waits for it to be there.
pub fn wait_until_ready() {
    while !READY.load(Ordering::Acquire) {
        time::relax();
    }
}

/// How it is to wait from the next SGI on.
pub fn set_sleeps(sleeps: bool) {
    SLEEPS.store(sleeps, Ordering::Relaxed);
}

/// Nothing was received since.
pub fn expect() {
    TAKEN.store(0, Ordering::Relaxed);
}

/// An SGI was taken at this time.
pub fn received(taken: u64) {
    TAKEN.store(taken, Ordering::Release);
}

/// Waits for an SGI to be taken: when it was.
pub fn wait_until_received() -> u64 {
    loop {
        match TAKEN.load(Ordering::Acquire) {
            0 => time::relax(),
            taken => return taken,
        }
    }
}
