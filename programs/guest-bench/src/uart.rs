//! Prints on the PL011.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

static BASE: AtomicUsize = AtomicUsize::new(0);

/// The offset of the flag register (Arm DDI 0183, 3.3.3).
pub const FLAGS: usize = 0x18;

/// Sets the UART's address.
pub fn set(base: usize) {
    BASE.store(base, Ordering::Relaxed);
}

struct Uart(usize);

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the data register takes any byte.
            unsafe { (self.0 as *mut u32).write_volatile(byte.into()) };
        }
        Ok(())
    }
}

/// Prints, once the UART's address is set.
pub fn print(text: fmt::Arguments) {
    let base = BASE.load(Ordering::Relaxed);
    if base != 0 {
        let _ = Uart(base).write_fmt(text);
    }
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::uart::print(format_args!("{}\n", format_args!($($text)*))) };
}
