//! Output processing, of a program's bytes for the screen.

use crate::Termios;
use linux_raw_sys::general::*;

/// The state of output processing: the column, for tabs and ONOCR.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    column: usize,
}

impl Output {
    /// Processes `bytes` by the settings; `sink` gets the result, in as few pieces as possible.
    pub fn process(&mut self, termios: &Termios, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        if !termios.output(OPOST) {
            return sink(bytes);
        }
        let mut plain = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= b' ' && !termios.output(OLCUC) {
                let continuation = byte & 0xc0 == 0x80 && termios.input(IUTF8);
                self.column += usize::from(byte != 0x7f && !continuation);
                continue;
            }
            if let Some(instead) = self.special(termios, byte) {
                if plain < at {
                    sink(&bytes[plain..at]);
                }
                if !instead.is_empty() {
                    sink(instead);
                }
                plain = at + 1;
            }
        }
        if plain < bytes.len() {
            sink(&bytes[plain..]);
        }
    }

    /// Moves the column by `byte` and returns its replacement, if there is one.
    fn special(&mut self, termios: &Termios, byte: u8) -> Option<&'static [u8]> {
        match byte {
            b'\n' => {
                if termios.output(ONLRET) {
                    self.column = 0;
                }
                if termios.output(ONLCR) {
                    self.column = 0;
                    return Some(b"\r\n");
                }
                None
            }
            b'\r' if termios.output(ONOCR) && self.column == 0 => Some(b""),
            b'\r' if termios.output(OCRNL) => {
                if termios.output(ONLRET) {
                    self.column = 0;
                }
                Some(b"\n")
            }
            b'\r' => {
                self.column = 0;
                None
            }
            b'\t' => {
                let width = 8 - self.column % 8;
                self.column += width;
                termios.output(XTABS).then_some(&b"        "[..width])
            }
            0x08 => {
                self.column = self.column.saturating_sub(1);
                None
            }
            b'a'..=b'z' => {
                const UPPER: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
                self.column += 1;
                let at = usize::from(byte - b'a');
                Some(&UPPER[at..=at])
            }
            _ => {
                self.column += usize::from(byte >= b' ' && byte != 0x7f);
                None
            }
        }
    }
}
