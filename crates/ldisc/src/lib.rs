//! The line discipline of a terminal: it turns the bytes of a keyboard into those that a program
//! reads (line editing, echo, signal characters, flow control), and the bytes that a program writes
//! into those that the screen gets (output processing). It follows Linux's N_TTY.
//!
//! The discipline only decides: the caller moves the bytes, sends the signals and wakes the
//! waiters.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod output;
mod termios;

pub use output::Output;
pub use termios::{NCCS, Termios};

use alloc::collections::{TryReserveError, VecDeque};
use linux_raw_sys::general::*;

/// The capacity of the input buffer, as on Linux.
pub const CAPACITY: usize = 4096;

/// A signal to send to the foreground process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `VINTR`: SIGINT.
    Interrupt,
    /// `VQUIT`: SIGQUIT.
    Quit,
    /// `VSUSP`: SIGTSTP.
    Suspend,
}

/// The effect of an input byte besides its echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// A signal to send.
    pub signal: Option<Signal>,
    /// Output was stopped or started (`VSTOP`, `VSTART`).
    pub flow: bool,
}

/// A byte of input with its marks.
#[derive(Clone, Copy)]
struct Cell(u16);

impl Cell {
    /// This byte ends a line.
    const END: u16 = 1 << 8;
    /// This byte marks end-of-file, and is not delivered.
    const EOF: u16 = 1 << 9;

    fn byte(self) -> u8 {
        self.0 as u8
    }

    fn has(self, mark: u16) -> bool {
        self.0 & mark != 0
    }
}

/// The line discipline of one terminal.
pub struct Discipline {
    termios: Termios,
    input: VecDeque<Cell>,
    /// The number of line ends in `input`.
    lines: usize,
    /// The number of cells at the tail of `input` that form the line being edited.
    editing: usize,
    /// The next byte is taken literally (`VLNEXT` preceded it).
    literal: bool,
    /// Erased characters are being shown after a backslash (`ECHOPRT`).
    erasing: bool,
    stopped: bool,
    output: Output,
}

impl Discipline {
    /// A discipline with the default settings. Fails if there is no memory.
    pub fn new() -> Result<Self, TryReserveError> {
        let mut input = VecDeque::new();
        input.try_reserve_exact(CAPACITY)?;
        Ok(Discipline {
            termios: Termios::default(),
            input,
            lines: 0,
            editing: 0,
            literal: false,
            erasing: false,
            stopped: false,
            output: Output::default(),
        })
    }

    /// The settings.
    pub fn termios(&self) -> &Termios {
        &self.termios
    }

    /// Changes the settings. Typed text stays readable: if canonical mode changes, the text so far
    /// becomes a line.
    pub fn set_termios(&mut self, termios: Termios) {
        if (self.termios.lflag ^ termios.lflag) & (ICANON | EXTPROC) != 0 {
            if let Some(cell) = self.input.back_mut()
                && termios.lflag & ICANON != 0
                && !cell.has(Cell::END)
            {
                cell.0 |= Cell::END;
                self.lines += 1;
            }
            self.editing = 0;
            self.literal = false;
            self.erasing = false;
        }
        self.stopped &= termios.input(IXON);
        self.termios = termios;
    }

    /// True while `VSTOP` holds the output back.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Stops or starts the output, as tcflow(3) asks.
    pub fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }

    /// How many more bytes of input fit. In canonical mode at least one until a whole line waits:
    /// otherwise the line could not be ended.
    pub fn room(&self) -> usize {
        let room = CAPACITY.saturating_sub(self.input.len());
        // PARMRK may turn each byte into three, which is how Linux counts.
        let marks = self.termios.input(PARMRK);
        let room = room.div_ceil(if marks { 3 } else { 1 }).saturating_sub(1);
        if room == 0 && self.canonical() && self.lines == 0 {
            1
        } else {
            room
        }
    }

    /// True if input is edited and read by lines: not if the other end does that (EXTPROC).
    pub fn canonical(&self) -> bool {
        self.termios.local(ICANON) && !self.termios.local(EXTPROC)
    }

    /// Processes one byte of input; `echo` gets the bytes for the screen.
    pub fn receive(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) -> Effect {
        let mut byte = self.stripped(byte);
        if self.termios.input(IUCLC) && self.termios.local(IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if self.termios.local(EXTPROC) {
            self.push(byte, 0);
            return Effect::default();
        }
        if self.literal {
            self.literal = false;
            self.take(byte, 0, echo);
            return Effect::default();
        }
        if self.termios.input(IXON) {
            if self.termios.is(VSTART, byte) {
                return self.flow(false);
            }
            if self.termios.is(VSTOP, byte) {
                return self.flow(true);
            }
        }
        if let Some(signal) = self.signal(byte) {
            if !self.termios.local(NOFLSH) {
                self.flush_input();
            }
            self.show(byte, echo);
            return Effect {
                signal: Some(signal),
                flow: core::mem::take(&mut self.stopped),
            };
        }
        let restarted =
            self.stopped && self.termios.input(IXON | IXANY) && core::mem::take(&mut self.stopped);
        let effect = Effect {
            signal: None,
            flow: restarted,
        };
        let mut was_return = false;
        match byte {
            b'\r' if self.termios.input(IGNCR) => return effect,
            b'\r' if self.termios.input(ICRNL) => (byte, was_return) = (b'\n', true),
            b'\n' if self.termios.input(INLCR) => byte = b'\r',
            _ => {}
        }
        if self.canonical() {
            self.receive_in_line(byte, echo);
        } else if was_return {
            // A return that became a newline is echoed as a newline, a typed newline as a
            // character.
            self.take_newline(echo);
        } else {
            self.take(byte, 0, echo);
        }
        effect
    }

    /// True if `byte`, as the next byte of input, discards input and output, because it causes a
    /// signal.
    pub fn flushes(&self, byte: u8) -> bool {
        let flow = self.termios.input(IXON)
            && (self.termios.is(VSTART, byte) || self.termios.is(VSTOP, byte));
        let plain = self.literal || flow || self.termios.local(NOFLSH);
        let plain = plain || self.termios.local(EXTPROC);
        !plain && self.signal(self.stripped(byte)).is_some()
    }

    fn stripped(&self, byte: u8) -> u8 {
        if self.termios.input(ISTRIP) {
            byte & 0x7f
        } else {
            byte
        }
    }

    /// Processes a byte in canonical mode: an editing character, the end of a line, or text.
    fn receive_in_line(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        let termios = self.termios;
        let extended = termios.local(IEXTEN);
        if termios.is(VERASE, byte) {
            self.erase_character(true, echo);
            self.finish_empty(echo);
        } else if termios.is(VKILL, byte) {
            self.kill_line(byte, echo);
        } else if extended && termios.is(VWERASE, byte) {
            self.erase_word(echo);
        } else if extended && termios.is(VLNEXT, byte) {
            self.literal = true;
            self.finish_erasing(echo);
            if termios.local(ECHO | ECHOCTL) {
                self.output.process(&termios, b"^\x08", echo);
            }
        } else if extended && termios.local(ECHO) && termios.is(VREPRINT, byte) {
            self.echo_line(byte, echo);
        } else if byte == b'\n' {
            if termios.local(ECHO) || termios.local(ECHONL) {
                self.output.process(&termios, b"\n", echo);
            }
            self.push(byte, Cell::END);
        } else if termios.is(VEOF, byte) {
            self.push(0, Cell::END | Cell::EOF);
        } else if termios.is(VEOL, byte) || extended && termios.is(VEOL2, byte) {
            self.take(byte, Cell::END, echo);
        } else {
            self.take(byte, 0, echo);
        }
    }

    fn flow(&mut self, stop: bool) -> Effect {
        let changed = self.stopped != stop;
        self.stopped = stop;
        Effect {
            signal: None,
            flow: changed,
        }
    }

    fn signal(&self, byte: u8) -> Option<Signal> {
        if !self.termios.local(ISIG) {
            return None;
        }
        [
            (VINTR, Signal::Interrupt),
            (VQUIT, Signal::Quit),
            (VSUSP, Signal::Suspend),
        ]
        .into_iter()
        .find_map(|(index, signal)| self.termios.is(index, byte).then_some(signal))
    }

    /// True if there is room for text; otherwise rings the bell.
    fn has_room(&self, echo: &mut dyn FnMut(&[u8])) -> bool {
        let has = self.input.len() < CAPACITY - 1;
        if !has && self.termios.input(IMAXBEL) {
            echo(b"\x07");
        }
        has
    }

    /// Stores `byte` as text and echoes it.
    fn take(&mut self, byte: u8, marks: u16, echo: &mut dyn FnMut(&[u8])) {
        if !self.has_room(echo) {
            return;
        }
        self.echo(byte, echo);
        if byte == 0xff && self.termios.input(PARMRK) {
            // A single 0xff would begin the mark of an error.
            self.push(byte, 0);
        }
        self.push(byte, marks);
    }

    /// Stores a newline in non-canonical mode, and echoes it.
    fn take_newline(&mut self, echo: &mut dyn FnMut(&[u8])) {
        if !self.has_room(echo) {
            return;
        }
        if self.termios.local(ECHO) {
            self.finish_erasing(echo);
            self.output.process(&self.termios, b"\n", echo);
        }
        self.push(b'\n', 0);
    }

    fn push(&mut self, byte: u8, marks: u16) {
        if self.input.len() >= CAPACITY {
            return;
        }
        self.input.push_back(Cell(u16::from(byte) | marks));
        if marks & Cell::END != 0 {
            self.lines += 1;
            self.editing = 0;
        } else if self.canonical() {
            self.editing += 1;
        }
    }

    fn echo(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        self.finish_erasing(echo);
        self.show(byte, echo);
    }

    /// Echoes a byte without ending the display of erased characters.
    fn show(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        if self.termios.local(ECHO) {
            let (text, len) = self.shown(byte);
            self.output.process(&self.termios, &text[..len], echo);
        }
    }

    /// Ends the display of erased characters.
    fn finish_erasing(&mut self, echo: &mut dyn FnMut(&[u8])) {
        if self.termios.local(ECHO) && core::mem::take(&mut self.erasing) {
            self.output.process(&self.termios, b"/", echo);
        }
    }

    /// Ends the display of erased characters if nothing is left to erase.
    fn finish_empty(&mut self, echo: &mut dyn FnMut(&[u8])) {
        if self.editing == 0 {
            self.finish_erasing(echo);
        }
    }

    /// The echo of `byte`: `^X` for control characters if `ECHOCTL` is set.
    fn shown(&self, byte: u8) -> ([u8; 2], usize) {
        let control = byte < b' ' && byte != b'\t' || byte == 0x7f;
        if control && self.termios.local(ECHOCTL) {
            ([b'^', byte ^ 0x40], 2)
        } else {
            ([byte, 0], 1)
        }
    }

    /// The index at which the last character of the edited line begins; in UTF-8 it has several
    /// bytes.
    fn last_character(&self) -> Option<usize> {
        let utf8 = self.termios.input(IUTF8);
        let mut line = self.input.len() - self.editing..self.input.len();
        line.rfind(|&at| !(utf8 && self.input[at].byte() & 0xc0 == 0x80))
    }

    /// Erases the last character; false if there is none. `one`: no other character is to be
    /// erased.
    fn erase_character(&mut self, one: bool, echo: &mut dyn FnMut(&[u8])) -> bool {
        let Some(start) = self.last_character() else {
            return false;
        };
        let shown = self.termios.local(ECHO | ECHOPRT);
        if shown {
            self.show_erased(start, echo);
        }
        let byte = self.input[start].byte();
        self.editing -= self.input.len() - start;
        self.input.truncate(start);
        if !shown {
            self.rub_out(byte, one, echo);
        }
        true
    }

    /// Shows the character at `start`, which is about to be erased.
    fn show_erased(&mut self, start: usize, echo: &mut dyn FnMut(&[u8])) {
        if !core::mem::replace(&mut self.erasing, true) {
            self.output.process(&self.termios, b"\\", echo);
        }
        self.show(self.input[start].byte(), echo);
        for at in start + 1..self.input.len() {
            let byte = self.input[at].byte();
            self.output.process(&self.termios, &[byte], echo);
        }
    }

    fn erase_word(&mut self, echo: &mut dyn FnMut(&[u8])) {
        let mut in_word = false;
        while self.editing > 0
            && let Some(last) = self.input.back()
        {
            let word =
                last.byte().is_ascii_alphanumeric() || last.byte() == b'_' || last.byte() >= 0x80;
            if in_word && !word {
                break;
            }
            in_word |= word;
            if !self.erase_character(false, echo) {
                break;
            }
        }
        self.finish_empty(echo);
    }

    fn kill_line(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        if self.termios.local(ECHO | ECHOE | ECHOK | ECHOKE) {
            while self.erase_character(false, echo) {}
            return self.finish_empty(echo);
        }
        self.input.truncate(self.input.len() - self.editing);
        self.editing = 0;
        self.echo(byte, echo);
        if self.termios.local(ECHO | ECHOK) {
            self.output.process(&self.termios, b"\n", echo);
        }
    }

    /// Removes the echo of `byte`, the last character, from the screen. `one`: not as part of a
    /// word or a line.
    fn rub_out(&mut self, byte: u8, one: bool, echo: &mut dyn FnMut(&[u8])) {
        if !self.termios.local(ECHO) {
            return;
        }
        if one && !self.termios.local(ECHOE) {
            return self.echo(self.termios.cc[VERASE as usize], echo);
        }
        let columns = match byte {
            b'\t' => self.columns_of_tab(),
            _ => match self.shown(byte) {
                (_, 2) => 2,
                _ if byte < b' ' || byte == 0x7f => 0,
                _ => 1,
            },
        };
        for _ in 0..columns {
            self.output.process(&self.termios, b"\x08 \x08", echo);
        }
    }

    /// The width of a tab at the end of the line being edited.
    fn columns_of_tab(&self) -> usize {
        let mut column = 0;
        for cell in self.input.range(self.input.len() - self.editing..) {
            column = match cell.byte() {
                b'\t' => (column | 7) + 1,
                byte if byte & 0xc0 == 0x80 && self.termios.input(IUTF8) => column,
                byte => column + self.shown(byte).1,
            };
        }
        8 - column % 8
    }

    fn echo_line(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        self.echo(byte, echo);
        self.output.process(&self.termios, b"\n", echo);
        for index in self.input.len() - self.editing..self.input.len() {
            let byte = self.input[index].byte();
            self.echo(byte, echo);
        }
    }

    /// The number of bytes that a read would get now (FIONREAD); in canonical mode only of whole
    /// lines.
    pub fn available(&self) -> usize {
        if self.canonical() {
            let whole = self.input.range(..self.input.len() - self.editing);
            whole.filter(|cell| !cell.has(Cell::EOF)).count()
        } else {
            self.input.len()
        }
    }

    /// True if a read would not block: there is a line in canonical mode, `at_least` bytes
    /// otherwise.
    pub fn readable(&self, at_least: usize) -> bool {
        if self.canonical() {
            self.lines > 0
        } else {
            self.input.len() >= at_least.max(1)
        }
    }

    /// Moves input to `buffer` and returns its length: up to the end of a line in canonical mode.
    /// If [`Self::readable`] is true, 0 means end-of-file.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let canonical = self.canonical();
        if canonical && self.lines == 0 {
            return 0;
        }
        if self.termios.local(ICANON | EXTPROC)
            && let [Some(only), None] = [0, 1].map(|at| self.input.get(at))
            && self.termios.is(VEOF, only.byte())
        {
            self.drop_front();
            return 0;
        }
        let mut count = 0;
        while let Some(&cell) = self.input.front() {
            if cell.has(Cell::EOF) {
                self.drop_front();
                if canonical {
                    break;
                }
                continue;
            }
            let Some(place) = buffer.get_mut(count) else {
                break;
            };
            *place = cell.byte();
            count += 1;
            self.drop_front();
            // A read that fills its buffer consumes the end-of-file mark too, or the next read
            // would return 0.
            if cell.has(Cell::END) && canonical {
                break;
            }
        }
        if canonical
            && count == buffer.len()
            && count > 0
            && self.input.front().is_some_and(|cell| cell.has(Cell::EOF))
        {
            self.drop_front();
        }
        count
    }

    fn drop_front(&mut self) {
        if self
            .input
            .pop_front()
            .is_some_and(|cell| cell.has(Cell::END))
        {
            self.lines -= 1;
        }
        self.editing = self.editing.min(self.input.len());
    }

    /// Discards unread input.
    pub fn flush_input(&mut self) {
        self.input.clear();
        self.lines = 0;
        self.editing = 0;
        self.literal = false;
        self.erasing = false;
    }

    /// Passes a program's output to the screen; `sink` gets the processed bytes.
    pub fn write(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        self.output.process(&self.termios, bytes, sink);
    }
}

#[cfg(test)]
mod tests;
