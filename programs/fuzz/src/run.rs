//! Runs a random program in a process of its own, and waits for its results.

use std::fs;
use std::time::{Duration, Instant};

use random::Random;

use crate::program::{self, Step};
use crate::{arena, child};

/// Where results are, out of reach of random addresses, and shared with the child.
const RESULTS: usize = 0x1000_0000;
const PAGE: usize = 4096;
/// The calls of a program.
const STEPS: usize = 16;
/// How long a program may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a program's process leaves, in memory that it shares with its parent.
#[repr(C)]
struct Results {
    /// Calls that have returned.
    done: u64,
    values: [i64; STEPS],
}

/// How a program ended.
pub enum End {
    /// It made all its calls.
    Complete,
    /// A call blocked, until a signal ended it.
    Blocked,
    /// A signal killed it, in or after the last call.
    Killed(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// It neither ended nor blocked where a signal ends it.
    Hung,
}

/// A program with the results of its calls.
pub struct Outcome {
    pub steps: Vec<Step>,
    pub values: Vec<i64>,
    pub end: End,
}

/// Maps the memory of results; called once.
pub fn prepare() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    arena::map_at(RESULTS, PAGE, access, flags, -1);
}

fn results() -> *mut Results {
    RESULTS as *mut Results
}

/// Runs the program with this number of a seed.
pub fn run(seed: u64, number: u64) -> Outcome {
    let mut random = Random::new(seed ^ number << 20);
    // Of no other program: no sockets, keys and limits of theirs are in the way.
    let (user, port) = (
        10_000 + number as u32 % 10_000,
        2000 + (number % 10_000) as u16 * 4,
    );
    let folder = format!("/tmp/fuzz/{number}");
    fs::create_dir_all(&folder).expect("a folder");
    std::env::set_current_dir(&folder).expect("its own folder");
    arena::map(&mut random, port);
    let steps = program::generate(&mut random, STEPS);
    // SAFETY: the memory of `prepare`; the child of the last program has ended.
    unsafe {
        results().write(Results {
            done: 0,
            values: [0; STEPS],
        })
    };
    // SAFETY: this program has one thread.
    let child = match unsafe { libc::fork() } {
        0 => execute(&steps, user, port),
        child => child,
    };
    assert!(child > 0, "fork");
    let end = wait(child);
    // SAFETY: the memory of `prepare`; the child has ended.
    let results = unsafe { results().read() };
    let values = results.values[..results.done as usize].to_vec();
    let end = match (end, values.last()) {
        (End::Complete, Some(&last)) if last == -libc::EINTR as i64 => End::Blocked,
        (end, _) => end,
    };
    std::env::set_current_dir("/").expect("the root");
    remove(&folder);
    Outcome { steps, values, end }
}

/// Makes the calls, in the child.
fn execute(steps: &[Step], user: u32, port: u16) -> ! {
    child::prepare(user, port);
    child::end_blocked_calls();
    let results = results();
    for (index, step) in steps.iter().enumerate() {
        let value = step.execute();
        // SAFETY: the memory of `prepare`, at which no call is aimed.
        unsafe {
            (*results).values[index] = value;
            (&raw mut (*results).done).write_volatile(index as u64 + 1);
        }
        if value == -libc::EINTR as i64 {
            break;
        }
    }
    // SAFETY: ends this process without running what the parent registered.
    unsafe { libc::_exit(0) }
}

/// Waits for a child, and kills it if it stops or hangs.
fn wait(child: i32) -> End {
    let began = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the call writes the status.
        let waited = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED | libc::WNOHANG) };
        let end = match waited {
            0 if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            0 => End::Hung,
            _ if libc::WIFSTOPPED(status) => End::Stopped(libc::WSTOPSIG(status)),
            _ if libc::WIFSIGNALED(status) => return End::Killed(libc::WTERMSIG(status)),
            _ => {
                assert_eq!(
                    libc::WEXITSTATUS(status),
                    0,
                    "the process could not be prepared"
                );
                return End::Complete;
            }
        };
        // SAFETY: the arguments are numbers, and the status is written.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, &mut status, 0);
        }
        return end;
    }
}

/// Removes all that the program left: its folder, and objects with names of their own.
fn remove(folder: &str) {
    fs::remove_dir_all(folder).expect("the folder is removed");
    for (table, remove) in [
        ("shm", libc::SYS_shmctl),
        ("msg", libc::SYS_msgctl),
        ("sem", libc::SYS_semctl),
    ] {
        let text = fs::read_to_string(format!("/proc/sysvipc/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let id = line
                .split_whitespace()
                .nth(1)
                .and_then(|id| id.parse::<i32>().ok());
            let id = id.expect("an identifier");
            // SAFETY: IPC_RMID reads no memory.
            match table {
                "sem" => unsafe { libc::syscall(remove, id, 0, libc::IPC_RMID) },
                _ => unsafe { libc::syscall(remove, id, libc::IPC_RMID, 0) },
            };
        }
    }
    for name in [c"q0", c"q1", c"f0", c"f1", c"new"] {
        // SAFETY: the call reads the name.
        unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    }
}
