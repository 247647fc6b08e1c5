//! The end of the machine.

use super::{halt, sbi};

/// Switches the machine off.
pub fn off() -> ! {
    sbi::system_reset(false);
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    sbi::system_reset(true);
    halt()
}

/// Writes to the firmware's console.
pub fn last_words(text: &[u8]) {
    text.iter().for_each(|byte| sbi::console_byte(*byte));
}
