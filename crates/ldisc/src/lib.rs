//! The line discipline of a terminal: what stands between the bytes of a keyboard and those that a
//! program reads (line editing, echo, signal characters, flow control), and between what a
//! program writes and what the screen gets (output processing). It follows Linux's N_TTY.
//!
//! It decides only: the caller moves the bytes, sends the signals and wakes the waiters.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod output;
mod termios;

pub use output::Output;
pub use termios::{NCCS, Termios};

use alloc::collections::{TryReserveError, VecDeque};
use linux_raw_sys::general::*;

/// Bytes of input that wait for a reader, as on Linux.
pub const CAPACITY: usize = 4096;

/// A signal that a character asks for, to be sent to the foreground process group.
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
    /// Ends a line.
    const END: u16 = 1 << 8;
    /// Is not delivered: it stood for end-of-file.
    const EOF: u16 = 1 << 9;

    fn byte(self) -> u8 {
        self.0 as u8
    }

    fn has(self, mark: u16) -> bool {
        self.0 & mark != 0
    }
}

/// One terminal's discipline.
pub struct Discipline {
    termios: Termios,
    input: VecDeque<Cell>,
    /// Ends of lines among `input`.
    lines: usize,
    /// Cells at the tail of `input` that form the line being edited.
    editing: usize,
    /// The next byte is taken literally (`VLNEXT` came before it).
    literal: bool,
    stopped: bool,
    output: Output,
}

impl Discipline {
    /// A discipline with the default settings. Fails for lack of memory.
    pub fn new() -> Result<Self, TryReserveError> {
        let mut input = VecDeque::new();
        input.try_reserve_exact(CAPACITY)?;
        Ok(Discipline {
            termios: Termios::default(),
            input,
            lines: 0,
            editing: 0,
            literal: false,
            stopped: false,
            output: Output::default(),
        })
    }

    /// The settings.
    pub fn termios(&self) -> &Termios {
        &self.termios
    }

    /// Changes the settings. Typed text stays readable: on a change from or to lines the text
    /// so far counts as one.
    pub fn set_termios(&mut self, termios: Termios) {
        if (self.termios.lflag ^ termios.lflag) & ICANON != 0 {
            if let Some(cell) = self.input.back_mut()
                && termios.lflag & ICANON != 0
                && !cell.has(Cell::END)
            {
                cell.0 |= Cell::END;
                self.lines += 1;
            }
            self.editing = 0;
            self.literal = false;
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

    /// How many more bytes of input can be taken in. In canonical mode never none, as long as no
    /// whole line waits: the line could not be ended otherwise.
    pub fn room(&self) -> usize {
        let room = (CAPACITY - 1).saturating_sub(self.input.len());
        if room == 0 && self.canonical() && self.lines == 0 {
            1
        } else {
            room
        }
    }

    fn canonical(&self) -> bool {
        self.termios.local(ICANON)
    }

    /// Takes in one byte from the line; `echo` gets what the screen shall show.
    pub fn receive(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) -> Effect {
        let mut byte = self.stripped(byte);
        if self.termios.input(IUCLC) && self.termios.local(IEXTEN) {
            byte = byte.to_ascii_lowercase();
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
            self.echo(byte, echo);
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
        match byte {
            b'\r' if self.termios.input(IGNCR) => return effect,
            b'\r' if self.termios.input(ICRNL) => byte = b'\n',
            b'\n' if self.termios.input(INLCR) => byte = b'\r',
            _ => {}
        }
        if !self.canonical() {
            self.take(byte, 0, echo);
        } else {
            self.receive_in_line(byte, echo);
        }
        effect
    }

    /// Whether `byte`, as the next from the line, throws away input and output: it asks for a
    /// signal.
    pub fn flushes(&self, byte: u8) -> bool {
        let flow = self.termios.input(IXON)
            && (self.termios.is(VSTART, byte) || self.termios.is(VSTOP, byte));
        let plain = self.literal || flow || self.termios.local(NOFLSH);
        !plain && self.signal(self.stripped(byte)).is_some()
    }

    fn stripped(&self, byte: u8) -> u8 {
        if self.termios.input(ISTRIP) {
            byte & 0x7f
        } else {
            byte
        }
    }

    /// A byte in canonical mode: an editing character, the end of a line, or text.
    fn receive_in_line(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        let termios = self.termios;
        let extended = termios.local(IEXTEN);
        if termios.is(VERASE, byte) {
            self.erase_character(echo);
        } else if termios.is(VKILL, byte) {
            self.kill_line(byte, echo);
        } else if extended && termios.is(VWERASE, byte) {
            self.erase_word(echo);
        } else if extended && termios.is(VLNEXT, byte) {
            self.literal = true;
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

    /// Stores `byte` as text and echoes it; where there is no room, rings the bell instead.
    fn take(&mut self, byte: u8, marks: u16, echo: &mut dyn FnMut(&[u8])) {
        if self.input.len() >= CAPACITY - 1 {
            if self.termios.input(IMAXBEL) {
                echo(b"\x07");
            }
            return;
        }
        self.echo(byte, echo);
        self.push(byte, marks);
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
        if self.termios.local(ECHO) {
            let (text, len) = self.shown(byte);
            self.output.process(&self.termios, &text[..len], echo);
        }
    }

    /// How `byte` is echoed: control characters as `^X` where `ECHOCTL` asks for it.
    fn shown(&self, byte: u8) -> ([u8; 2], usize) {
        let control = byte < b' ' && !matches!(byte, b'\n' | b'\t') || byte == 0x7f;
        if control && self.termios.local(ECHOCTL) {
            ([b'^', byte ^ 0x40], 2)
        } else {
            ([byte, 0], 1)
        }
    }

    /// Takes the last character (all its bytes, in UTF-8) off the line being edited.
    fn pop_character(&mut self) -> Option<u8> {
        let utf8 = self.termios.input(IUTF8);
        loop {
            if self.editing == 0 {
                return None;
            }
            self.editing -= 1;
            let byte = self.input.pop_back()?.byte();
            if !(utf8 && byte & 0xc0 == 0x80) {
                return Some(byte);
            }
        }
    }

    fn erase_character(&mut self, echo: &mut dyn FnMut(&[u8])) {
        if let Some(byte) = self.pop_character() {
            self.rub_out(byte, echo);
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
            self.erase_character(echo);
        }
    }

    fn kill_line(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        if self.termios.local(ECHO | ECHOE | ECHOK | ECHOKE) {
            while self.editing > 0 {
                self.erase_character(echo);
            }
            return;
        }
        while self.pop_character().is_some() {}
        self.echo(byte, echo);
        if self.termios.local(ECHO | ECHOK) {
            self.output.process(&self.termios, b"\n", echo);
        }
    }

    /// Removes the echo of `byte`, the last character, from the screen.
    fn rub_out(&mut self, byte: u8, echo: &mut dyn FnMut(&[u8])) {
        if !self.termios.local(ECHO) {
            return;
        }
        if !self.termios.local(ECHOE) {
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

    /// The width of a tab after what is left of the line being edited.
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

    /// Bytes that a read would get now (FIONREAD); in canonical mode those of whole lines.
    pub fn available(&self) -> usize {
        if self.canonical() {
            let whole = self.input.range(..self.input.len() - self.editing);
            whole.filter(|cell| !cell.has(Cell::EOF)).count()
        } else {
            self.input.len()
        }
    }

    /// True when a read would not wait: a whole line in canonical mode, `at_least` bytes otherwise.
    pub fn readable(&self, at_least: usize) -> bool {
        if self.canonical() {
            self.lines > 0
        } else {
            self.input.len() >= at_least.max(1)
        }
    }

    /// Moves input to `buffer` and returns how much: up to the end of a line in canonical mode. 0
    /// when [`Self::readable`] is end-of-file.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let canonical = self.canonical();
        if canonical && self.lines == 0 {
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
            // A full buffer takes the end-of-file mark along, or the next read would see it alone.
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

    /// Throws away what was typed and not yet read.
    pub fn flush_input(&mut self) {
        self.input.clear();
        self.lines = 0;
        self.editing = 0;
        self.literal = false;
    }

    /// Passes what a program writes to the screen; `sink` gets the processed bytes.
    pub fn write(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        self.output.process(&self.termios, bytes, sink);
    }
}

#[cfg(test)]
mod tests;
