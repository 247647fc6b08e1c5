//! The kernel's log: lines on the console, the most recent of which are kept for /dev/kmsg and
//! syslog(2).

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use records::Records;
pub use records::{Found, Head, Place};

use crate::arch::time;
use crate::sync::Mutex;
use crate::{uart, upcall};

/// Writes a line to the log.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => {
        $crate::log::line(format_args!($($argument)*))
    };
}

/// Size of the log buffer in bytes.
pub const SIZE: usize = 64 * 1024;
/// The syslog(3) level of the kernel's own lines; lines more urgent than the console's level are
/// shown there.
const INFO: u32 = 6;
/// The maximum number of bytes of a line that are kept.
pub const LONGEST: usize = 1024;

/// `/proc/sys/kernel/printk`: the console's level, the level of lines without one, and the
/// console's minimum and default levels.
pub static LEVELS: [AtomicUsize; 4] = [
    AtomicUsize::new(7),
    AtomicUsize::new(4),
    AtomicUsize::new(1),
    AtomicUsize::new(7),
];

static KEPT: Mutex<Records<SIZE>> = Mutex::new(Records::new());

/// The position of the oldest line that is kept, and of the next one to come.
pub fn bounds() -> (Place, Place) {
    let kept = KEPT.lock();
    (kept.first(), kept.end())
}

/// Returns the record at a position, and copies its text to `text`, as far as there is room.
pub fn look(place: Place, text: &mut [u8; LONGEST]) -> Found {
    let kept = KEPT.lock();
    let found = kept.look(place);
    if let Found::Record { len, .. } = found {
        kept.text(place, 0, &mut text[..len.min(LONGEST)]);
    }
    found
}

/// Stores a line, and wakes its readers. If a panicking CPU holds the lock, the line is only shown.
fn keep(priority: u32, ns: u64, text: &[u8]) {
    let Some(mut kept) = (0..PATIENCE).find_map(|_| KEPT.try_lock()) else {
        return;
    };
    let head = Head { priority, time: ns };
    kept.push(head, text);
    drop(kept);
    upcall::logged();
}

/// Number of attempts to take the lock.
const PATIENCE: usize = 1 << 20;

/// A line being formatted, which is passed to the console as a whole, so that the lines of several
/// CPUs do not mix.
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

/// The beginning of a line, to be kept.
struct Text {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = text.len().min(LONGEST - self.len);
        self.bytes[self.len..self.len + part].copy_from_slice(&text.as_bytes()[..part]);
        self.len += part;
        Ok(())
    }
}

/// Logs a line of the kernel, with the time since the machine started.
pub fn line(text: fmt::Arguments) {
    let ns = time::ticks_to_ns(time::now_ticks());
    show(ns, text);
    let mut kept = Text {
        bytes: [0; LONGEST],
        len: 0,
    };
    // Writing to a buffer cannot fail.
    let _ = kept.write_fmt(text);
    keep(INFO, ns, &kept.bytes[..kept.len]);
}

/// Logs a line that a program wrote to /dev/kmsg; its priority consists of a facility and a level.
pub fn user_line(priority: u32, text: &[u8]) {
    let ns = time::ticks_to_ns(time::now_ticks());
    if ((priority & 7) as usize) < LEVELS[0].load(Relaxed) {
        show(ns, format_args!("{}", text.escape_ascii()));
    }
    keep(priority, ns, text);
}

/// Shows a line on the console.
fn show(ns: u64, text: fmt::Arguments) {
    let microseconds = ns / 1000;
    let (s, us) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let mut line = Line {
        bytes: [0; 256],
        len: 0,
    };
    // Writing to a buffer cannot fail here either.
    let _ = writeln!(line, "[{s:5}.{us:06}] {text}");
    line.flush();
}
