//! The host's terminal and standard input.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Sender, SyncSender, channel};

use anyhow::Result;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::session::Event;

/// A terminal that passes every key to the guest, until this is dropped.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Makes the terminal on standard input raw.
    pub fn enter() -> Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Rows and columns of the terminal on standard output; 24 and 80 if it does not know.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}

/// Whether each of standard input, output and error is a terminal.
pub fn terminals() -> [bool; 3] {
    [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    ]
}

/// Reads standard input as events, one piece for each `()` that is sent to the returned sender.
pub fn read_input(events: SyncSender<Event>) -> Sender<()> {
    let (demand, demands) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; wire::INPUT_WINDOW];
        for () in demands {
            let length = std::io::stdin().read(&mut buffer).unwrap_or(0);
            if events
                .send(Event::Input(buffer[..length].to_vec()))
                .is_err()
                || length == 0
            {
                return;
            }
        }
    });
    demand
}

/// Turns the signals that ask a command to end, and those of a resized terminal, into events.
pub fn read_signals(events: SyncSender<Event>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}
