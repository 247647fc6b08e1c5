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

/// A line as far as it is known: handed to the console whole, so that the lines of several CPUs do not mix.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    fn flush(&mut self) {
        uart::write(&self.bytes[..self.len]);
        self.len = 0;
    }

    fn push(&mut self, byte: u8) {
        if self.len == self.bytes.len() {
            self.flush();
        }
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.push(b'\r');
            }
            self.push(byte);
        }
        Ok(())
    }
}

/// Writes a line, with the time since the machine started.
pub fn line(text: fmt::Arguments) {
    let microseconds = time::ticks_to_ns(time::now_ticks()) / 1000;
    let (s, us) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let mut line = Line {
        bytes: [0; 256],
        len: 0,
    };
    // Writing to a buffer cannot fail.
    let _ = writeln!(line, "[{s:5}.{us:06}] {text}");
    line.flush();
}
