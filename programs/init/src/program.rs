//! Starts a job's program with its standard descriptors.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use wire::user::User;
use wire::{Channel, Input, Job};

use crate::{mark, sys, user};

/// A running program, and our ends of its standard descriptors.
pub struct Program {
    /// Its process, the leader of a session and a process group.
    pub pid: i32,
    /// The write end of its standard input.
    pub stdin: Option<File>,
    /// Its output: the channel, and the descriptor to read.
    pub outputs: Vec<(Channel, File)>,
    /// The master of its terminal.
    pub terminal: Option<File>,
}

/// Starts the program; the number of an error says why that failed.
pub fn start(job: &Job, number: usize) -> io::Result<Program> {
    let mut program = Program {
        pid: 0,
        stdin: None,
        outputs: Vec::new(),
        terminal: None,
    };
    let mut slave = None;
    let stdin: OwnedFd = match &job.input {
        Input::Empty => File::open("/dev/null")?.into(),
        Input::File(path) => File::open(path)?.into(),
        Input::Channel => {
            let (read, write) = sys::pipe(libc::O_CLOEXEC)?;
            sys::set_nonblocking(write.as_fd())?;
            program.stdin = Some(write.into());
            read
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
    let stdout: OwnedFd = match &slave {
        Some(terminal) => terminal.try_clone()?.into(),
        None => output(&mut program, Channel::Stdout)?,
    };
    let stderr: OwnedFd = match (&slave, &job.input) {
        (Some(terminal), Input::Terminal { stderr: true, .. }) => terminal.try_clone()?.into(),
        _ => output(&mut program, Channel::Stderr)?,
    };
    let arguments = strings(&job.arguments)?;
    let mut environment = strings(&job.environment)?;
    let user = job.user.as_deref().map(user::find).transpose()?;
    if let Some(user) = &user {
        user::make_directory(&job.directory)?;
        user::set_home(user, &mut environment)?;
    }

    let (failure, tell_failure) = sys::pipe(libc::O_CLOEXEC)?;
    program.pid = sys::fork(|| {
        let descriptors = [&stdin, &stdout, &stderr];
        let prepared = prepare(job, number, descriptors, slave.is_some(), user.as_ref());
        let error = match prepared {
            Ok(()) => execute(&arguments, &environment),
            Err(error) => error,
        };
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        let _ = File::from(tell_failure.try_clone()?).write_all(&number.to_ne_bytes());
        Ok(())
    })?;
    drop(tell_failure);
    let mut number = [0; 4];
    match File::from(failure).read_exact(&mut number) {
        Ok(()) => {
            sys::reap(program.pid)?;
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))
        }
        Err(_) => Ok(program),
    }
}

/// In the child: creates its session, its descriptors and whatever else the job asks for.
fn prepare(
    job: &Job,
    number: usize,
    descriptors: [&OwnedFd; 3],
    terminal: bool,
    user: Option<&User>,
) -> io::Result<()> {
    sys::become_program(descriptors, terminal)?;
    std::env::set_current_dir(if job.directory.is_empty() {
        "/"
    } else {
        &job.directory
    })?;
    if job.trace {
        std::fs::write("/proc/self/trace", "1")?;
    }
    if job.count {
        std::fs::write("/proc/crossings", "new")?;
    }
    if let Some(user) = user {
        sys::become_user(user)?;
    }
    mark::start(number);
    Ok(())
}

/// In the child: executes the program. Looks up a name without a slash in `PATH`. Returns only on
/// an error.
fn execute(arguments: &[CString], environment: &[CString]) -> io::Error {
    let Some(name) = arguments.first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    if name.as_bytes().contains(&b'/') {
        return sys::execute(name, arguments, environment);
    }
    let path = environment
        .iter()
        .find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in path.unwrap_or_default().split(|&byte| byte == b':') {
        let Ok(file) = CString::new([folder, b"/", name.as_bytes()].concat()) else {
            continue;
        };
        let error = sys::execute(&file, arguments, environment);
        if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
            worst = error;
        }
    }
    worst
}

fn strings(words: &[Vec<u8>]) -> io::Result<Vec<CString>> {
    words
        .iter()
        .map(|word| Ok(CString::new(word.as_slice())?))
        .collect()
}

/// Makes a pipe for output of the program; returns the write end.
fn output(program: &mut Program, channel: Channel) -> io::Result<OwnedFd> {
    let (read, write) = sys::pipe(libc::O_CLOEXEC)?;
    sys::set_nonblocking(read.as_fd())?;
    program.outputs.push((channel, read.into()));
    Ok(write)
}

/// Opens a new pseudo-terminal: its master and its slave.
fn open_terminal(rows: u16, columns: u16) -> io::Result<(File, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    let master = options.open("/dev/ptmx")?;
    let number = sys::unlock_terminal(master.as_fd())?;
    sys::set_size(master.as_fd(), rows, columns);
    let slave = options.open(format!("/dev/pts/{number}"))?;
    Ok((master, slave))
}
