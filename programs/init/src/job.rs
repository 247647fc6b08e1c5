//! Runs one job: passes bytes between the program and the channel until the program has ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use wire::{Control, Job};

use crate::channel::Channel;
use crate::mark;
use crate::program::{self, Program};
use crate::sys;

/// The exit status of a program that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// The size of a read, in bytes.
const CHUNK: usize = 16 * 1024;

/// How often a full backlog is sent after the program has ended. Together they hold more than a
/// pipe or a trace buffer, and this ends even if a process left behind keeps writing.
const FINAL_ROUNDS: usize = 8;

/// An entry for poll(2).
pub fn poll_entry(fd: BorrowedFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    }
}

/// The time for a kernel to finish its own work after the boot: a stock Linux tests its ciphers and
/// starts its drivers then.
const SETTLE: Duration = Duration::from_secs(3);

/// Starts the job's program, carries its input and output, and reports how it ended. Jobs are
/// numbered from 1.
///
/// `children` becomes readable when a child ends.
pub fn run(job: &Job, number: usize, channel: &mut Channel, children: &File) -> io::Result<()> {
    if job.settle {
        std::thread::sleep(SETTLE);
    }
    // The kernel keeps lines of the trace only while somebody has it open.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let trace = if job.trace {
        options.open("/dev/trace").ok()
    } else {
        None
    };
    let mut pump = match program::start(job, number) {
        Ok(program) => Pump {
            program,
            channel,
            trace,
            pending: Vec::new(),
            input_ended: false,
        },
        Err(error) => {
            match error.raw_os_error() {
                Some(number) => channel.control(Control::Failed(number as u16)),
                None => {
                    let text = format!("stile: {error}\n");
                    channel.send(wire::Channel::Stderr, text.as_bytes());
                    channel.control(Control::Exited(NOT_EXECUTABLE));
                }
            }
            return channel.flush();
        }
    };
    pump.until_exit(children)?;
    mark::end();
    for _ in 0..FINAL_ROUNDS {
        pump.take_outputs();
        pump.take_trace();
        pump.channel.flush()?;
    }
    let pid = pump.program.pid;
    if job.count {
        let counts = fs::read(format!("/proc/{pid}/crossings")).unwrap_or_default();
        channel.send(wire::Channel::Counts, &counts);
    }
    let status = ExitStatus::from_raw(sys::reap(pid)?);
    channel.control(match status.signal() {
        Some(signal) => Control::Killed(signal as u8),
        None => Control::Exited(status.code().unwrap_or_default() as u8),
    });
    channel.flush()
}

/// Passes bytes between a program and the channel.
struct Pump<'a> {
    program: Program,
    channel: &'a mut Channel,
    trace: Option<File>,
    /// Standard input that the program has not read yet.
    pending: Vec<u8>,
    /// The host sends no more standard input.
    input_ended: bool,
}

impl Pump<'_> {
    fn until_exit(&mut self, children: &File) -> io::Result<()> {
        loop {
            let mut entries = vec![
                self.channel.poll_entry(),
                poll_entry(children.as_fd(), libc::POLLIN),
            ];
            if !self.channel.is_full() {
                let outputs = self.program.outputs.iter().map(|(_, fd)| fd.as_fd());
                let trace = self.trace.iter().map(|file| file.as_fd());
                entries.extend(outputs.chain(trace).map(|fd| poll_entry(fd, libc::POLLIN)));
            }
            if let Some(stdin) = self
                .program
                .stdin
                .as_ref()
                .filter(|_| !self.pending.is_empty())
            {
                entries.push(poll_entry(stdin.as_fd(), libc::POLLOUT));
            }
            sys::poll(&mut entries)?;

            if entries[0].revents & !libc::POLLOUT != 0 {
                for (channel, payload) in self.channel.read()? {
                    self.accept(channel, &payload);
                }
            }
            self.channel.write()?;
            self.feed();
            self.take_outputs();
            self.take_trace();
            if entries[1].revents != 0 && self.reap_others(children) {
                return Ok(());
            }
        }
    }

    /// Handles a frame from the host.
    fn accept(&mut self, channel: wire::Channel, payload: &[u8]) {
        match (channel, Control::decode(payload)) {
            (wire::Channel::Stdin, _) => {
                self.pending.extend_from_slice(payload);
                self.input_ended |= payload.is_empty();
            }
            (wire::Channel::Control, Some(Control::Signal(signal))) => {
                sys::signal_group(self.program.pid, signal)
            }
            (wire::Channel::Control, Some(Control::Stop(signal))) => {
                sys::signal(self.program.pid, signal)
            }
            (wire::Channel::Control, Some(Control::Resize(rows, columns))) => {
                if let Some(terminal) = &self.program.terminal {
                    sys::set_size(terminal.as_fd(), rows, columns);
                }
            }
            _ => {}
        }
    }

    /// Writes standard input as far as the program accepts it, and returns credit for it.
    fn feed(&mut self) {
        let mut taken = 0;
        if let Some(mut stdin) = self.program.stdin.take() {
            let mut open = true;
            while open && taken < self.pending.len() {
                match stdin.write(&self.pending[taken..]) {
                    Ok(written) => taken += written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => open = false,
                }
            }
            if open && !(self.input_ended && taken == self.pending.len()) {
                self.program.stdin = Some(stdin);
            }
        }
        if self.program.stdin.is_none() {
            taken = self.pending.len();
        }
        if taken > 0 {
            self.pending.drain(..taken);
            self.channel.control(Control::Credit(taken as u16));
        }
    }

    /// Passes on the program's output.
    fn take_outputs(&mut self) {
        let channel = &mut self.channel;
        self.program
            .outputs
            .retain_mut(|(kind, file)| pass_on(file, *kind, channel));
    }

    /// Passes on lines of the trace.
    fn take_trace(&mut self) {
        if let Some(trace) = &mut self.trace {
            pass_on(trace, wire::Channel::Trace, self.channel);
        }
    }

    /// Reaps all ended children but the program itself; returns true if that has ended.
    fn reap_others(&mut self, mut children: &File) -> bool {
        let _ = children.read(&mut [0; 64]);
        while let Some(pid) = sys::ended_child() {
            if pid == self.program.pid {
                return true;
            }
            let _ = sys::reap(pid);
        }
        false
    }
}

/// Sends the bytes that can be read now, until the channel is full; returns false at end-of-file.
fn pass_on(file: &mut File, kind: wire::Channel, channel: &mut Channel) -> bool {
    let mut buffer = vec![0; CHUNK];
    while !channel.is_full() {
        match file.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => channel.send(kind, &buffer[..length]),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}
