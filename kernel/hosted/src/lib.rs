//! The kernel on the host (`machine::arch::host`): a test is one of its processes, which makes
//! system calls through the real table by [`sys!`].
//!
//! There is one machine per host process, and its process 1 runs one test after another.
#![forbid(unsafe_code)]

extern crate kernel as _;

mod argument;
pub mod fuzz;
mod image;
mod processes;

pub use argument::{Argument, put, reserve};
pub use machine::arch::program::call;
pub use machine::errno::Errno;
pub use processes::{clone, fork, handler};

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;

use linux_raw_sys::general::*;
use machine::arch::boot::{self, Machine};
use machine::arch::program;

/// Makes a system call, by its name: `sys!(openat, AT_FDCWD, "/tmp", O_RDONLY)`.
#[macro_export]
macro_rules! sys {
    ($name:ident $(, $argument:expr)* $(,)?) => {{
        const NUMBER: usize = $crate::number(stringify!($name));
        $crate::raw(NUMBER, &[$($crate::Argument::register($argument)),*])
    }};
}

/// The number of a system call.
pub const fn number(name: &str) -> usize {
    abi::number(name)
}

/// Makes a system call.
///
/// # Errors
/// The errors of the call.
pub fn raw(number: usize, arguments: &[usize]) -> Result<usize, Errno> {
    let mut registers = [0; 6];
    registers[..arguments.len()].copy_from_slice(arguments);
    let result = call(number, registers);
    match program::errno(result) {
        Some(error) => Err(error),
        None => Ok(result as usize),
    }
}

/// Reads the program's memory.
///
/// # Panics
/// If it cannot be read.
pub fn peek(address: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    program::read(address, &mut bytes).expect("memory of the program");
    bytes
}

/// Writes the program's memory.
///
/// # Errors
/// EFAULT.
pub fn poke(address: usize, bytes: &[u8]) -> Result<(), Errno> {
    program::write(address, bytes)
}

type Job = Box<dyn FnOnce() + Send>;

/// The jobs of process 1, and the channel by which it reports the end of each.
struct Jobs {
    jobs: Mutex<Receiver<Job>>,
    done: Mutex<Sender<()>>,
}

static JOBS: OnceLock<Jobs> = OnceLock::new();
static HOST: OnceLock<Mutex<(Sender<Job>, Receiver<()>)>> = OnceLock::new();

/// Starts the machine.
fn start() -> Mutex<(Sender<Job>, Receiver<()>)> {
    let ((give, jobs), (done, hear)) = (channel(), channel());
    let (jobs, done) = (Mutex::new(jobs), Mutex::new(done));
    assert!(JOBS.set(Jobs { jobs, done }).is_ok(), "started twice");
    boot::start(Machine {
        memory: if cfg!(miri) { 16 << 20 } else { 256 << 20 },
        #[expect(
            clippy::disallowed_methods,
            reason = "bytes, which the process has for ever"
        )]
        archive: image::archive().leak(),
        // The machine's time jumps to the next deadline, and the watchdog must set none.
        command_line: "nowatchdog",
        program: processes::program,
    });
    Mutex::new((give, hear))
}

/// Runs `test` as a process of the kernel, a child of process 1 that starts with descriptors 0 to 2
/// and may do anything, and returns its result.
///
/// # Panics
/// If `test` panics, ends its process, or sleeps forever.
pub fn run<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    match try_run(test) {
        Some(Ok(value)) => value,
        Some(Err(why)) => panic::resume_unwind(why),
        None => panic!("the process ended, or slept for ever"),
    }
}

/// As [`run`], but `None` if the process exits or sleeps forever.
pub fn try_run<T: Send + 'static>(
    test: impl FnOnce() -> T + Send + 'static,
) -> Option<thread::Result<T>> {
    let (give, take) = channel();
    let job = Box::new(move || {
        let result = panic::catch_unwind(AssertUnwindSafe(test));
        give.send(result).expect("the host waits");
    });
    {
        let host = HOST.get_or_init(start).lock();
        let host = host.unwrap_or_else(|poisoned| poisoned.into_inner());
        host.0.send(job).expect("process 1 lives");
        host.1.recv().expect("process 1 lives");
    }
    take.try_recv().ok()
}

/// How long a test may sleep, in seconds of the machine's time.
const PATIENCE: u64 = 100_000;

/// Process 1: each job runs in a child, and leaves nothing behind.
fn init() {
    let jobs = JOBS.get().expect("before the machine was started");
    let woken = handler(|| {});
    let action = put(&[woken, 0, 0, 0].map(usize::to_ne_bytes).concat());
    sys!(rt_sigaction, SIGALRM, action, 0, 8).expect("a handler");
    for (path, kind) in [("/proc", "proc"), ("/sys", "sysfs"), ("/tmp", "tmpfs")] {
        _ = sys!(mkdirat, AT_FDCWD, path, 0o755);
        sys!(mount, kind, path, kind, 0, 0).expect("a file system");
    }
    loop {
        let job = jobs.jobs.lock().expect("one process 1").recv();
        let Ok(job) = job else { return };
        alarm(PATIENCE);
        let child = fork(job).expect("a child");
        if sys!(wait4, child, 0, 0, 0) != Ok(child) {
            // The child did not end in time, so it is killed.
            _ = sys!(kill, child, SIGKILL);
        }
        alarm(0);
        _ = sys!(kill, -1, SIGKILL);
        while sys!(wait4, -1, 0, __WALL, 0).is_ok() {}
        jobs.done
            .lock()
            .expect("one process 1")
            .send(())
            .expect("the host waits");
    }
}

fn alarm(seconds: u64) {
    let value = put(&[0, 0, seconds, 0].map(u64::to_ne_bytes).concat());
    sys!(setitimer, ITIMER_REAL, value, 0).expect("a timer");
}
