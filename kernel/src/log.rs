//! The kernel's log: lines on the console.

use core::fmt::{self, Write};

use crate::arch::time;
use crate::drivers::uart;

/// Writes a line to the log.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => {
        $crate::log::line(format_args!($($argument)*))
    };
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(line) => {
                    uart::write(line.as_bytes());
                    uart::write(b"\r\n");
                }
                None => uart::write(part.as_bytes()),
            }
        }
        Ok(())
    }
}

/// Writes a line, with the time since the machine started.
pub fn line(text: fmt::Arguments) {
    let microseconds = time::ticks_to_ns(time::now_ticks()) / 1000;
    let _ = writeln!(
        Console,
        "[{:5}.{:06}] {text}",
        microseconds / 1_000_000,
        microseconds % 1_000_000
    );
}
