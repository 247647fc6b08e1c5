//! Starts a job's program with its standard descriptors.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use wire::{Channel, Input, Job};

use crate::{mark, sys};

/// A running program and our ends of what it reads and writes.
pub struct Program {
    /// Its process, which leads a session and a process group.
    pub pid: i32,
    /// Where its standard input is written.
    pub stdin: Option<File>,
    /// What it writes: the descriptor to read, and the channel it belongs to.
    pub outputs: Vec<(Channel, File)>,
    /// The master of its terminal.
    pub terminal: Option<File>,
}

/// Starts the program; an error's number says why it could not be.
pub fn start(job: &Job) -> io::Result<Program> {
    let (name, arguments) = job
        .arguments
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(OsStr::from_bytes(name));
    command
        .args(arguments.iter().map(|argument| OsStr::from_bytes(argument)))
        .env_clear();
    for variable in &job.environment {
        let equals = variable
            .iter()
            .position(|&byte| byte == b'=')
            .unwrap_or(variable.len());
        let value = variable.get(equals + 1..).unwrap_or_default();
        command.env(
            OsStr::from_bytes(&variable[..equals]),
            OsStr::from_bytes(value),
        );
    }
    command.current_dir(if job.directory.is_empty() {
        "/"
    } else {
        &job.directory
    });

    let mut program = Program {
        pid: 0,
        stdin: None,
        outputs: Vec::new(),
        terminal: None,
    };
    let mut slave = None;
    let stdin: Stdio = match &job.input {
        Input::Empty => Stdio::null(),
        Input::File(path) => File::open(path)?.into(),
        Input::Channel => {
            let (read, write) = sys::pipe(libc::O_CLOEXEC)?;
            sys::set_nonblocking(write.as_fd())?;
            program.stdin = Some(write.into());
            read.into()
        }
        Input::Terminal { rows, columns, .. } => {
            let (master, terminal) = open_terminal(*rows, *columns)?;
            sys::set_nonblocking(master.as_fd())?;
            program.stdin = Some(master.try_clone()?);
            program.outputs.push((Channel::Stdout, master.try_clone()?));
            program.terminal = Some(master);
            slave.insert(terminal).try_clone()?.into()
        }
    };
    let stdout: Stdio = match &slave {
        Some(terminal) => terminal.try_clone()?.into(),
        None => output(&mut program, Channel::Stdout)?.into(),
    };
    let stderr: Stdio = match (&slave, &job.input) {
        (Some(terminal), Input::Terminal { stderr: true, .. }) => terminal.try_clone()?.into(),
        _ => output(&mut program, Channel::Stderr)?.into(),
    };
    command.stdin(stdin).stdout(stdout).stderr(stderr);

    let terminal = slave.as_ref().map(|terminal| terminal.as_raw_fd());
    let (count, trace) = (job.count, job.trace);
    // SAFETY: this process has one thread, so the child may do after the fork what the parent may.
    unsafe {
        command.pre_exec(move || {
            sys::start_session(terminal)?;
            if trace {
                std::fs::write("/proc/self/trace", "1")?;
            }
            if count {
                std::fs::write("/proc/crossings", "new")?;
            }
            mark::start();
            Ok(())
        });
    }
    program.pid = command.spawn()?.id() as i32;
    Ok(program)
}

/// A new pipe of the program to us: its end.
fn output(program: &mut Program, channel: Channel) -> io::Result<OwnedFd> {
    let (read, write) = sys::pipe(libc::O_CLOEXEC)?;
    sys::set_nonblocking(read.as_fd())?;
    program.outputs.push((channel, read.into()));
    Ok(write)
}

/// A new pseudo-terminal: its master and its slave.
fn open_terminal(rows: u16, columns: u16) -> io::Result<(File, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    let master = options.open("/dev/ptmx")?;
    let number = sys::unlock_terminal(master.as_fd())?;
    sys::set_size(master.as_fd(), rows, columns);
    let slave = options.open(format!("/dev/pts/{number}"))?;
    Ok((master, slave))
}
