//! Terminals: the line discipline between a line (a serial port, or the master of a
//! pseudo-terminal) and the programs that read and write it.

mod ioctl;
mod job;
pub mod pts_options;
mod pty;
mod serial;

pub use job::{of_process, session_ended};
pub use pty::devpts;
pub use serial::init;

use super::file::{File, FileOps, OpenFlags};
use super::io::{Sink, Source};
use super::path::Path;
use super::poll::{Events, PollTable, WaitSource};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, SleepMutex};
use crate::task::require;
use crate::task::sched::{cond_resched_interruptible, cond_resched_killable};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ldisc::{Discipline, Effect, Signal, Termios};
use linux_raw_sys::general::{
    CAP_SYS_ADMIN, ICANON, O_NOCTTY, SIGINT, SIGQUIT, SIGTSTP, TIOCPKT_FLUSHREAD,
    TIOCPKT_FLUSHWRITE, VMIN, VTIME,
};

/// The size of the output buffer for a pseudo-terminal's master, in bytes.
const OUTPUT: usize = 8192;
/// The number of bytes processed at a time.
const CHUNK: usize = 256;
/// The size of a piece for a port that accepts large ones.
const PORT_CHUNK: usize = 4096;
/// The maximum size of a chunk after output processing (a tab becomes eight columns).
const EXPANDED: usize = 8 * CHUNK;

/// The size of the window, laid out as `struct winsize`.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
pub struct WindowSize {
    rows: u16,
    columns: u16,
    pixels: [u16; 2],
}

/// The destination of a terminal's output.
#[derive(Clone, Copy)]
enum Line {
    /// A port that sends at once, and the maximum number of bytes passed to it under the terminal's
    /// lock.
    Port(fn(&[u8]), usize),
    /// The master of a pseudo-terminal, which reads it from `State::output`.
    Master,
}

impl Line {
    /// Sends bytes, or keeps them for the master. Room was reserved when the terminal was made: an
    /// echo without room is lost, as on Linux.
    fn send(self, output: &mut VecDeque<u8>, bytes: &[u8]) {
        match self {
            Line::Port(send, _) => send(bytes),
            Line::Master => {
                let room = output.capacity() - output.len();
                output.extend(&bytes[..bytes.len().min(room)]);
            }
        }
    }
}

struct State {
    discipline: Discipline,
    size: WindowSize,
    /// The session whose controlling terminal it is, or 0.
    session: i32,
    /// The foreground process group, or 0.
    foreground: i32,
    /// The other end is gone.
    hung_up: bool,
    /// Only privileged programs may open it (TIOCEXCL).
    exclusive: bool,
    /// The bits set here are settings that cannot change (TIOCSLCKTRMIOS).
    locked: Termios,
    /// Processed output for the master.
    output: VecDeque<u8>,
    pty: pty::State,
}

impl State {
    /// Handles a byte of input; output after the first `before` bytes is echo that may yet be
    /// dropped.
    fn receive(&mut self, byte: u8, line: Line, before: usize) -> Effect {
        if self.discipline.flushes(byte) {
            self.flush_input();
            self.output.truncate(before);
            self.flush_output();
        }
        let (discipline, output) = (&mut self.discipline, &mut self.output);
        let effect = discipline.receive(byte, &mut |bytes| line.send(output, bytes));
        if effect.flow {
            self.report_flow();
        }
        effect
    }

    /// Discards input that was not read yet.
    fn flush_input(&mut self) {
        self.discipline.flush_input();
        self.pty.report(0, TIOCPKT_FLUSHREAD);
    }

    /// Discards pending output. Bytes that have reached the master stay: on Linux the master's
    /// buffer holds as many as a terminal accepts.
    fn flush_output(&mut self) {
        self.output.truncate(ldisc::CAPACITY - 1);
        self.pty.report(0, TIOCPKT_FLUSHWRITE);
    }
}

/// A terminal.
pub struct Tty {
    device: (u32, u32),
    line: Line,
    state: Mutex<State>,
    /// Held while a piece of a write goes to a port in several parts.
    writing: SleepMutex<()>,
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
}

impl Tty {
    fn new(device: (u32, u32), line: Line) -> Result<Arc<Self>> {
        let mut output = VecDeque::new();
        if let Line::Master = line {
            output
                .try_reserve_exact(OUTPUT + EXPANDED)
                .map_err(|_| Errno::ENOMEM)?;
        }
        let state = State {
            discipline: Discipline::new().map_err(|_| Errno::ENOMEM)?,
            size: WindowSize::default(),
            session: 0,
            foreground: 0,
            hung_up: false,
            exclusive: false,
            locked: Termios::ZERO,
            output,
            pty: pty::State::default(),
        };
        try_arc(Tty {
            device,
            line,
            state: Mutex::new(state),
            writing: SleepMutex::new(()),
            readable: WaitSource::new()?,
            writable: WaitSource::new()?,
        })
    }

    /// Calls `act` with the line discipline; its output goes to the line.
    fn with_discipline<R>(
        &self,
        act: impl FnOnce(&mut Discipline, &mut dyn FnMut(&[u8])) -> R,
    ) -> R {
        let mut state = self.state.lock();
        let State {
            discipline, output, ..
        } = &mut *state;
        act(discipline, &mut |bytes| self.line.send(output, bytes))
    }

    /// Handles input from the line: echoes, sends signals, wakes readers. Returns the number of
    /// bytes accepted.
    pub fn receive(&self, bytes: &[u8]) -> usize {
        let mut signals = [None; 8];
        let mut flow = false;
        let mut taken = 0;
        let mut state = self.state.lock();
        let before = state.output.len();
        for &byte in bytes {
            if state.discipline.room() == 0 && self.is_pty() {
                break;
            }
            let effect = state.receive(byte, self.line, before);
            flow |= effect.flow;
            if let Some(signal) = effect.signal
                && let Some(free) = signals.iter_mut().find(|slot| slot.is_none())
            {
                *free = Some(signal);
            }
            taken += 1;
        }
        drop(state);
        for signal in signals.into_iter().flatten() {
            self.signal_foreground(match signal {
                Signal::Interrupt => SIGINT,
                Signal::Quit => SIGQUIT,
                Signal::Suspend => SIGTSTP,
            });
        }
        self.readable.notify();
        if flow {
            self.writable.notify();
        }
        self.output_changed();
        taken
    }

    fn is_pty(&self) -> bool {
        matches!(self.line, Line::Master)
    }

    /// Whether a read of `wanted` bytes would not block.
    fn can_read(&self, wanted: usize) -> bool {
        let state = self.state.lock();
        state.discipline.readable(wanted) || state.hung_up
    }

    /// Waits until a read can proceed, as VMIN and VTIME say; false if the read is to return
    /// nothing.
    fn wait_readable(&self, left: usize) -> Result<bool> {
        let (canonical, min, time) = {
            let state = self.state.lock();
            let termios = state.discipline.termios();
            (
                termios.local(ICANON),
                termios.cc[VMIN as usize],
                termios.cc[VTIME as usize],
            )
        };
        let tenths = |count: u8| {
            let ns = u64::from(count) * 100_000_000;
            Some(arch::time::now_ticks() + arch::time::ns_to_ticks(ns))
        };
        match (usize::from(min), time) {
            _ if canonical => self.readable.wait(|| self.can_read(1)).map(|()| true),
            (0, 0) => Ok(self.can_read(1)),
            (0, time) => self.readable.wait_until(|| self.can_read(1), tenths(time)),
            (min, 0) => self
                .readable
                .wait(|| self.can_read(min.min(left)))
                .map(|()| true),
            (min, time) => {
                let wanted = min.min(left);
                self.readable.wait(|| self.can_read(1))?;
                let mut have = self.state.lock().discipline.available();
                while have < wanted
                    && self
                        .readable
                        .wait_until(|| self.can_read(have + 1), tenths(time))?
                {
                    let now = self.state.lock().discipline.available();
                    if now == have {
                        break;
                    }
                    have = now;
                }
                Ok(true)
            }
        }
    }

    fn read(&self, to: &mut Sink, nonblocking: bool) -> Result<usize> {
        let len = to.left().min(ldisc::CAPACITY);
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        buffer.resize(len, 0);
        loop {
            self.check_foreground_read()?;
            if len == 0 {
                return Ok(0);
            }
            let count = {
                let mut state = self.state.lock();
                if state.discipline.readable(1) {
                    Some(state.discipline.read(&mut buffer))
                } else if state.hung_up {
                    return Ok(0);
                } else {
                    None
                }
            };
            if let Some(count) = count {
                self.input_changed();
                return to.put(&buffer[..count]);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            if !self.wait_readable(len)? {
                return Ok(0);
            }
        }
    }

    fn can_write(&self) -> bool {
        let state = self.state.lock();
        !state.discipline.stopped() && state.output.len() < OUTPUT || state.hung_up
    }

    fn write(&self, from: &mut Source, nonblocking: bool) -> Result<usize> {
        self.check_foreground_write()?;
        // A port gets a large write in few pieces if memory for them is available.
        let (mut small, mut large) = ([0; CHUNK], Vec::new());
        let wanted = from.left().min(PORT_CHUNK);
        let roomy = !self.is_pty() && wanted > CHUNK && large.try_reserve_exact(wanted).is_ok();
        let buffer: &mut [u8] = if roomy {
            large.resize(wanted, 0);
            &mut large
        } else {
            &mut small
        };
        let mut total = 0;
        while from.left() > 0 {
            if self.state.lock().hung_up {
                return if total == 0 {
                    Err(Errno::EIO)
                } else {
                    Ok(total)
                };
            }
            if !self.can_write() {
                let waited = if nonblocking {
                    Err(Errno::EAGAIN)
                } else {
                    self.writable.wait(|| self.can_write())
                };
                match waited {
                    Err(error) if total == 0 => return Err(error),
                    Err(_) => return Ok(total),
                    Ok(()) => continue,
                }
            }
            match from.take(buffer) {
                Ok(count) => {
                    self.put(&buffer[..count])?;
                    total += count;
                    self.output_changed();
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
            // Bytes that produce no output fill nothing, so the loop may never wait.
            if cond_resched_interruptible().is_err() {
                break;
            }
        }
        Ok(total)
    }

    /// Sends bytes to the line.
    ///
    /// # Errors
    /// EINTR: the thread was killed.
    fn put(&self, bytes: &[u8]) -> Result<()> {
        let write = |bytes: &[u8]| {
            self.with_discipline(|discipline, screen| discipline.write(bytes, screen));
        };
        let Line::Port(_, most) = self.line else {
            write(bytes);
            return Ok(());
        };
        let _writing = self.writing.lock_killable()?;
        for part in bytes.chunks(most) {
            write(part);
            cond_resched_killable()?;
        }
        Ok(())
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
            table.add(&self.writable);
        }
        let state = self.state.lock();
        let termios = state.discipline.termios();
        let min = if termios.cc[VTIME as usize] == 0 {
            termios.cc[VMIN as usize]
        } else {
            1
        };
        let mut events = Events::empty();
        events.set(
            Events::IN,
            state.discipline.readable(min.into()) || state.hung_up,
        );
        events.set(
            Events::OUT,
            !state.discipline.stopped() && state.output.len() < OUTPUT || state.hung_up,
        );
        events.set(Events::HANG_UP, state.hung_up);
        events
    }

    /// Handles the loss of the other end: notifies the users and the session.
    fn hang_up(&self) {
        self.state.lock().hung_up = true;
        self.signal_hang_up();
        self.readable.notify();
        self.writable.notify();
    }

    /// Notifies that the amount of output changed.
    fn output_changed(&self) {
        if self.is_pty() {
            self.master_source().notify();
        }
    }

    /// Notifies that input was taken out, so the master may write more.
    fn input_changed(&self) {
        if self.is_pty() {
            self.master_source().notify();
        }
    }
}

/// An open terminal (not a master).
struct Terminal(Arc<Tty>);

impl FileOps for Terminal {
    fn has_async(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        self.0.read(to, file.flags().nonblocking())
    }

    fn write(&self, file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        self.0.write(from, file.flags().nonblocking())
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        self.0.poll(table)
    }

    fn ioctl(&self, file: &File, request: u32, argument: usize) -> Result<usize> {
        self.0.ioctl(file, request, argument)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.0.slave_closed();
    }
}

/// Opens `tty`. It becomes the controlling terminal of a session leader that has none and may read
/// it, unless `controlling` is false.
fn open_tty(tty: Arc<Tty>, flags: OpenFlags, controlling: bool) -> Result<Arc<dyn FileOps>> {
    if tty.state.lock().exclusive {
        require(CAP_SYS_ADMIN).map_err(|_| Errno::EBUSY)?;
    }
    tty.slave_opened()?;
    let terminal = try_arc(Terminal(tty))?;
    if controlling && !flags.has(O_NOCTTY) && flags.readable() {
        terminal.0.acquire();
    }
    Ok(terminal)
}

/// Opens the terminal with a device number. Slaves are only found in their own file systems.
pub fn open(here: &Path, major: u32, minor: u32, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    match (major, minor) {
        (5, 0) => open_tty(job::controlling().ok_or(Errno::ENXIO)?, flags, false),
        (5, 1) => open_tty(serial::console().ok_or(Errno::ENODEV)?, flags, false),
        (5, 2) => pty::open_master(here),
        (136, _) => Err(Errno::EIO),
        device => open_tty(serial::find(device).ok_or(Errno::ENXIO)?, flags, true),
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn exclusive_use_of_a_port_ends_with_its_last_file() {
        let tty = Tty::new((4, 65), Line::Port(|_| {}, 1)).unwrap();
        tty.slave_opened().unwrap();
        tty.slave_opened().unwrap();
        tty.state.lock().exclusive = true;
        tty.slave_closed();
        assert!(tty.state.lock().exclusive);
        tty.slave_closed();
        assert!(!tty.state.lock().exclusive);
    }
}
