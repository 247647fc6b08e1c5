//! A running machine: the QEMU process and the channel to the guest's PID 1.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, test_kill_process};
use wire::frame::Item;
use wire::{Channel, Control, Decoder};

/// How long a machine may take to power itself off after its last job.
const POWER_OFF: Duration = Duration::from_secs(60);
/// The same for a machine with disks.
const POWER_OFF_DISKS: Duration = Duration::from_secs(120);

/// The maximum number of waiting events: a guest that sends more, against the protocol, has to
/// wait, too.
const EVENTS: usize = 1024;

/// The number of log lines that are shown after a failure.
const LOG_LINES: usize = 25;

/// An event of a session.
#[derive(Debug)]
pub enum Event {
    /// A frame from the guest.
    Frame(Channel, Vec<u8>),
    /// Bytes from the host's standard input; empty at its end.
    Input(Vec<u8>),
    /// A signal that the host's command received.
    Signal(i32),
    /// The machine closed the channel: it is off or broken.
    Closed,
    /// The deadline passed.
    TimedOut,
}

/// The files of one boot, which are removed with it.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates a folder below `parent` for this process. Removes those of processes that no longer
    /// exist.
    pub fn new(parent: PathBuf) -> Result<Self> {
        for old in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let name = old.file_name().to_string_lossy().into_owned();
            let process = name
                .split('-')
                .next()
                .and_then(|number| number.parse().ok());
            if process
                .and_then(Pid::from_raw)
                .is_some_and(|process| test_kill_process(process).is_err())
            {
                let _ = fs::remove_dir_all(old.path());
            }
        }
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = parent.join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Both ends of a machine's channel, before it starts.
pub struct Link {
    host: UnixStream,
    guest: OwnedFd,
}

impl Link {
    /// A pair of connected sockets; the guest's end is inherited by the next child.
    pub fn new() -> Result<Self> {
        let (host, guest) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::empty(),
            None,
        )?;
        rustix::io::fcntl_setfd(&host, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self {
            host: host.into(),
            guest,
        })
    }

    /// The guest's end, as a file descriptor.
    pub fn guest(&self) -> i32 {
        self.guest.as_raw_fd()
    }
}

/// A running machine.
pub struct Session {
    child: Child,
    host: UnixStream,
    events: Receiver<Event>,
    /// The amount of output that was taken and for which the guest got no credit yet.
    owed: usize,
    sender: SyncSender<Event>,
    folder: Folder,
    log: PathBuf,
    /// How long the machine may take to power itself off.
    patience: Duration,
}

impl Session {
    /// Starts QEMU with its command line. The kernel's log is in the file `log`; no file that QEMU
    /// writes grows beyond `most` bytes.
    pub fn start(
        command: &[OsString],
        link: Link,
        folder: Folder,
        log: PathBuf,
        most: u64,
    ) -> Result<Self> {
        let said = File::create(folder.file("qemu"))?;
        let child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be run", command[0].display()))?;
        drop(link.guest);
        #[cfg(target_os = "linux")]
        limit_files(&child, most)?;
        let (sender, events) = mpsc::sync_channel(EVENTS);
        let (stream, to) = (link.host.try_clone()?, sender.clone());
        std::thread::spawn(move || read_frames(stream, &to));
        Ok(Self {
            child,
            host: link.host,
            events,
            owed: 0,
            sender,
            folder,
            log,
            patience: POWER_OFF,
        })
    }

    /// Makes [`Self::finish`] wait longer, since the machine must write its cached data to its
    /// disks before it ends.
    pub fn await_disks(&mut self) {
        self.patience = POWER_OFF_DISKS;
    }

    /// A sender for other sources of events.
    pub fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// The next event. Calling this tells that the previous one has been handled.
    pub fn next(&mut self, deadline: Option<Instant>) -> Event {
        if self.owed >= wire::OUTPUT_WINDOW / 4 {
            self.add_credit();
        }
        let event = self.wait(deadline);
        if let Event::Frame(channel, payload) = &event
            && *channel != Channel::Control
        {
            self.owed += wire::output_cost(payload);
        }
        event
    }

    /// Gives the guest credit for the output that was taken.
    fn add_credit(&mut self) {
        while self.owed > 0 {
            let cost = u16::try_from(self.owed).unwrap_or(u16::MAX);
            self.owed -= usize::from(cost);
            self.control(Control::Credit(cost));
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Event {
        let received = match deadline {
            Some(deadline) => self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => self
                .events
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::TimedOut,
            Err(RecvTimeoutError::Disconnected) => Event::Closed,
        }
    }

    /// Sends a frame to the guest. That a machine is gone is noticed by its closed channel.
    pub fn send(&mut self, channel: Channel, payload: &[u8]) {
        let mut bytes = Vec::new();
        wire::encode(channel, payload, &mut bytes);
        let _ = self.host.write_all(&bytes);
    }

    /// Sends a control message.
    pub fn control(&mut self, control: Control) {
        self.send(Channel::Control, &control.encode());
    }

    /// Waits until the machine has powered itself off; ends it if it does not.
    pub fn finish(&mut self) -> io::Result<Option<ExitStatus>> {
        let limit = Instant::now() + self.patience;
        while Instant::now() < limit {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }

    /// The time for which QEMU has run on the host's processors so far, if the host provides it:
    /// Linux's `proc_pid_stat(5)`.
    pub fn processor_time(&self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The program's name may contain anything; field 3 follows it, and 14 and 15 are utime and
        // stime.
        let (_, fields) = text.rsplit_once(") ")?;
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: u64 = ticks.map(|ticks| ticks.parse().unwrap_or(0)).sum();
        let second = rustix::param::clock_ticks_per_second();
        Some(Duration::from_millis(ticks * 1000 / second.max(1)))
    }

    /// QEMU's messages, and the kernel's log.
    pub fn log(&self) -> String {
        let qemu = fs::read(self.folder.file("qemu")).unwrap_or_default();
        let log = fs::read(&self.log).unwrap_or_default();
        [
            String::from_utf8_lossy(&qemu),
            String::from_utf8_lossy(&log),
        ]
        .concat()
        .replace('\r', "")
    }

    /// The last lines of the log; if there was a panic, all lines from there on.
    pub fn log_end(&self) -> String {
        end_of(&self.log())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a log: all from the line that begins a panic, if there is one.
pub fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(LOG_LINES);
    let panic = lines.iter().position(|line| line.contains("PANIC"));
    lines[panic.unwrap_or(last)..].join("\n")
}

/// Ends a machine that writes more than this into a file such as its log: no kernel fills the
/// user's disk.
#[cfg(target_os = "linux")]
fn limit_files(child: &Child, most: u64) -> Result<()> {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    prlimit(Some(Pid::from_child(child)), Resource::Fsize, limit)?;
    Ok(())
}

fn read_frames(mut stream: UnixStream, to: &SyncSender<Event>) {
    let mut decoder = Decoder::awaiting_sync();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        decoder.push(&buffer[..length]);
        while let Some(item) = decoder.pop() {
            let sent = match item {
                Item::Frame(channel, payload) => to.send(Event::Frame(channel, payload)),
                Item::Noise(_) => Ok(()),
                Item::Broken(_) => {
                    let _ = to.send(Event::Closed);
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }
    let _ = to.send(Event::Closed);
}
