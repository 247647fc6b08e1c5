//! Power off and reset.

use super::halt;
use sbi_rt::{ColdReboot, NoReason, Shutdown};

/// Turns the machine off.
pub fn off() -> ! {
    sbi_rt::system_reset(Shutdown, NoReason);
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    sbi_rt::system_reset(ColdReboot, NoReason);
    halt()
}

/// Writes to the firmware's console.
pub fn last_words(text: &[u8]) {
    for &byte in text {
        sbi_rt::console_write_byte(byte);
    }
}
