//! Lines on standard output, each written with one system call.

use crate::sys;
use core::fmt::{self, Write};

/// The maximum length of a line; longer ones are cut off.
const LONGEST: usize = 512;

struct Line {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..][..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Prints one line.
pub fn line(arguments: fmt::Arguments) {
    let mut line = Line {
        bytes: [0; LONGEST],
        length: 0,
    };
    // Writing to a `Line` does not fail.
    let _ = line.write_fmt(arguments);
    line.bytes[line.length] = b'\n';
    let mut rest = &line.bytes[..=line.length];
    while let Ok(written @ 1..) = sys::write(sys::STDOUT, rest) {
        rest = &rest[written..];
    }
}
