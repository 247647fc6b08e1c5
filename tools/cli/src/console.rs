//! Attends to a running machine: passes input and output, and turns the program's end into an exit
//! status.

use std::io::{self, Write};
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGWINCH};
use wire::{Channel, Control, INPUT_WINDOW};

use crate::bench::counted;
use crate::counts;
use crate::options::CountFormat;
use crate::session::{Event, Session};
use crate::terminal::{self, Raw};

/// The exit status of a failure of Stile itself.
const FAILURE: u8 = 125;
/// The exit status when the time ran out.
const TIMED_OUT: u8 = 124;
/// The key that starts a command to the console instead of going to the program: Ctrl-A.
const ESCAPE: u8 = 1;

/// The settings for attending to a machine.
pub struct Console {
    /// Whether both the program and the user have a terminal.
    pub interactive: bool,
    /// The format in which to print the program's crossings.
    pub count: Option<CountFormat>,
    /// The time at which the machine is ended.
    pub deadline: Option<Instant>,
    /// The signal that the program gets in place of the first SIGTERM, which otherwise ends the
    /// machine.
    pub stop: Option<u8>,
    /// Whether to wait for the machine's end, when the plugin writes its counts.
    pub awaits_end: bool,
}

/// The state while the machine runs.
struct State {
    session: Session,
    raw: Option<Raw>,
    demand: Option<Sender<()>>,
    credit: usize,
    pending: Vec<u8>,
    input_ended: bool,
    escaped: bool,
    started: bool,
    interrupted: bool,
    stop: Option<u8>,
    status: Option<u8>,
}

impl Console {
    /// Attends to the machine until the program `name` has ended and the machine is off; returns
    /// the exit status. If `reads`, the program gets the host's standard input.
    pub fn drive(&self, session: Session, name: &str, reads: bool) -> Result<u8> {
        terminal::read_signals(session.sender())?;
        let demand = reads.then(|| terminal::read_input(session.sender()));
        let mut state = State {
            session,
            raw: None,
            demand,
            credit: INPUT_WINDOW,
            pending: Vec::new(),
            input_ended: false,
            escaped: false,
            started: false,
            interrupted: false,
            stop: self.stop,
            status: None,
        };
        loop {
            let ended = match state.session.next(self.deadline) {
                Event::Frame(Channel::Control, payload) => {
                    self.control(&mut state, &payload, name)?
                }
                Event::Frame(channel, payload) => self.show(channel, &payload),
                Event::Input(bytes) => state.input(&bytes, self.interactive),
                Event::Signal(signal) => state.signal(signal),
                Event::Closed => Some(state.broken()),
                Event::TimedOut => {
                    state.raw = None;
                    tell!("stile: the time ran out");
                    tell!("{}", state.session.log_end());
                    Some(TIMED_OUT)
                }
            };
            if let Some(status) = ended {
                if self.awaits_end {
                    counted::await_end(&mut state.session)?;
                }
                return Ok(status);
            }
        }
    }

    /// Handles a control message; returns the exit status if it was the program's last.
    fn control(&self, state: &mut State, payload: &[u8], name: &str) -> Result<Option<u8>> {
        let status = match Control::decode(payload) {
            Some(Control::Started(_)) => {
                state.started = true;
                if self.interactive && terminal::terminals()[0] {
                    state.raw = Some(Raw::enter()?);
                }
                state.request_input();
                return Ok(None);
            }
            Some(Control::Credit(bytes)) => {
                state.credit += usize::from(bytes);
                state.feed();
                return Ok(None);
            }
            Some(Control::Exited(status)) => status,
            Some(Control::Killed(signal)) => 128 + signal,
            Some(Control::Failed(errno)) => {
                let error = io::Error::from_raw_os_error(errno.into());
                tell!("stile: {name}: {}", describe(&error));
                if error.kind() == io::ErrorKind::NotFound {
                    127
                } else {
                    126
                }
            }
            _ => return Ok(None),
        };
        state.raw = None;
        state.status = Some(status);
        state.session.finish()?;
        Ok(Some(status))
    }

    /// Passes output on; returns the exit status if nobody reads it any more.
    fn show(&self, channel: Channel, payload: &[u8]) -> Option<u8> {
        let shown = match channel {
            Channel::Stdout => write(io::stdout().lock(), payload),
            Channel::Stderr | Channel::Trace => write(io::stderr().lock(), payload),
            Channel::Counts => match self.count {
                Some(format) => {
                    let text = counts::render(&String::from_utf8_lossy(payload), format);
                    write(io::stderr().lock(), text.as_bytes())
                }
                None => Ok(()),
            },
            Channel::Stdin | Channel::Control => Ok(()),
        };
        shown.is_err().then_some(128 + SIGPIPE as u8)
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// The file is not a program.
const ENOEXEC: i32 = 8;

/// Why a program cannot run, in a few words.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not found in the guest, or its interpreter is not".into(),
        io::ErrorKind::PermissionDenied => "not executable".into(),
        _ if error.raw_os_error() == Some(ENOEXEC) => {
            "no program that this CPU executes: some, such as a64fx, have no 32-bit Arm".into()
        }
        _ => error.to_string(),
    }
}

impl State {
    /// Requests more input after the guest has taken all.
    fn request_input(&self) {
        if let Some(demand) = self
            .demand
            .as_ref()
            .filter(|_| self.started && !self.input_ended && self.pending.is_empty())
        {
            let _ = demand.send(());
        }
    }

    /// Handles a piece of input; returns the exit status if the user ended the machine.
    fn input(&mut self, bytes: &[u8], interactive: bool) -> Option<u8> {
        self.input_ended = bytes.is_empty();
        for &byte in bytes {
            match (interactive && self.escaped, byte) {
                (true, b'x') => return self.quit(SIGINT),
                (true, _) => {
                    self.escaped = false;
                    if byte != ESCAPE {
                        self.pending.push(ESCAPE);
                    }
                    self.pending.push(byte);
                }
                (false, ESCAPE) if interactive => self.escaped = true,
                (false, _) => self.pending.push(byte),
            }
        }
        if self.input_ended && self.pending.is_empty() {
            self.session.send(Channel::Stdin, &[]);
        }
        self.feed();
        None
    }

    /// Sends input as far as the guest has given credit.
    fn feed(&mut self) {
        let length = self.pending.len().min(self.credit);
        if length > 0 {
            let now: Vec<u8> = self.pending.drain(..length).collect();
            self.credit -= length;
            self.session.send(Channel::Stdin, &now);
        }
        self.request_input();
    }

    /// Passes a signal on; returns the exit status if it ends the machine.
    fn signal(&mut self, signal: i32) -> Option<u8> {
        match signal {
            SIGWINCH => {
                let (rows, columns) = terminal::size();
                self.session.control(Control::Resize(rows, columns));
                None
            }
            SIGINT if self.started && !self.interrupted => {
                self.interrupted = true;
                self.session.control(Control::Signal(signal as u8));
                None
            }
            SIGTERM if self.started && self.stop.is_some() => {
                let stop = self.stop.take().unwrap_or_default();
                self.session.control(Control::Stop(stop));
                None
            }
            SIGINT | SIGTERM | SIGHUP => self.quit(signal),
            _ => None,
        }
    }

    fn quit(&mut self, signal: i32) -> Option<u8> {
        self.raw = None;
        tell!("stile: the machine was ended");
        Some(128 + signal as u8)
    }

    /// Handles that the channel was closed before the program's end was known.
    fn broken(&mut self) -> u8 {
        self.raw = None;
        let how = match self.session.finish() {
            Ok(Some(status)) => format!("QEMU ended with {status}"),
            _ => "QEMU still runs".into(),
        };
        tell!("stile: the machine stopped before the program ended ({how}); the end of its log:");
        tell!("{}", self.session.log_end());
        FAILURE
    }
}
