//! Power off and reset.

use core::arch::asm;

use super::psci;

/// Turns the machine off.
pub fn off() -> ! {
    psci::system_off();
    crate::log!("this machine cannot be turned off");
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    psci::system_reset();
    halt()
}

/// Writes to the firmware's console, which arm64 machines do not have.
pub fn last_words(_text: &[u8]) {}

fn halt() -> ! {
    loop {
        // SAFETY: waiting has no side effects.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
