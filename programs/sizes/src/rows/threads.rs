//! Threads among many, and futexes with many waiters.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, exit, fork, settle, wait};

/// The maximum number of threads.
const MOST: usize = 1_000;

pub const ROWS: &[Row] = &[
    among(
        "thread_create_join",
        MOST,
        create,
        "a thread made and joined among N that sleep",
    ),
    among(
        "exit_threads",
        MOST,
        exits,
        "a process makes N threads and exits, by thread",
    ),
    among(
        "futex_wake_one",
        MOST,
        wake_one,
        "FUTEX_WAKE of 1 of N at an address, until it waits again",
    ),
    among(
        "futex_wake_other",
        MOST,
        wake_other,
        "the same with an address for each of N",
    ),
    among(
        "futex_requeue",
        MOST,
        requeue,
        "FUTEX_REQUEUE of N to another address and back, by waiter",
    ),
    among(
        "kill_thread",
        MOST,
        kill,
        "tgkill of one of N threads with an ignored signal",
    ),
];

/// Starts a thread with a small stack.
fn start(body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().stack_size(16 << 10).spawn(body)
}

fn futex(word: &AtomicU32, operation: i32, value: usize) -> io::Result<usize> {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    call!(SYS_futex, word.as_ptr(), operation, value, 0, 0, 0)
}

/// The number of wake-ups so far.
static WOKEN: AtomicUsize = AtomicUsize::new(0);

/// Starts `number` threads that wait at `words` futexes as long as the process lives.
fn waiters(number: usize, words: usize) -> io::Result<&'static [AtomicU32]> {
    let words: Vec<_> = (0..words).map(|_| AtomicU32::new(0)).collect();
    let words: &'static [AtomicU32] = words.leak();
    for index in 0..number {
        let word = &words[index % words.len()];
        start(move || {
            loop {
                let _ = futex(word, libc::FUTEX_WAIT, 0);
                WOKEN.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    settle();
    Ok(words)
}

fn create(meter: &mut Meter) -> Done {
    waiters(meter.size(), 1)?;
    meter.repeat(4, |_| {
        let joined = start(|| ())?.join();
        joined.map_err(|_| io::ErrorKind::Other.into())
    })
}

fn exits(meter: &mut Meter) -> Done {
    let size = meter.size();
    let child = || exit(waiters_at_once(size).is_err().into());
    meter.batches(size, || Ok(()), || wait(fork(child)? as isize))
}

/// Starts threads that wait, without waiting until they sleep.
fn waiters_at_once(number: usize) -> io::Result<()> {
    static WORD: AtomicU32 = AtomicU32::new(0);
    for _ in 0..number {
        start(|| futex(&WORD, libc::FUTEX_WAIT, 0).map_or((), drop))?;
    }
    Ok(())
}

/// Wakes one waiter of the word and lets it run until it waits again.
fn wake(word: &AtomicU32) -> Done {
    let before = WOKEN.load(Ordering::Relaxed);
    futex(word, libc::FUTEX_WAKE, 1)?;
    while WOKEN.load(Ordering::Relaxed) == before {
        call!(SYS_sched_yield)?;
    }
    Ok(())
}

fn wake_one(meter: &mut Meter) -> Done {
    let words = waiters(meter.size(), 1)?;
    meter.repeat(EACH, |_| wake(&words[0]))
}

fn wake_other(meter: &mut Meter) -> Done {
    let words = waiters(meter.size(), meter.size())?;
    meter.repeat(EACH, |index| wake(&words[index % words.len()]))
}

fn requeue(meter: &mut Meter) -> Done {
    let size = meter.size();
    let words = waiters(size, 1)?;
    static OTHER: AtomicU32 = AtomicU32::new(0);
    let operation = libc::FUTEX_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
    let move_all = |from: &AtomicU32, to: &AtomicU32| {
        call!(SYS_futex, from.as_ptr(), operation, 0, size, to.as_ptr(), 0).map(drop)
    };
    meter.batches(
        size,
        || Ok(()),
        || {
            move_all(&words[0], &OTHER)?;
            move_all(&OTHER, &words[0])
        },
    )
}

fn kill(meter: &mut Meter) -> Done {
    waiters(meter.size(), 1)?;
    let pid = std::process::id();
    // The threads' IDs follow the process ID, if nothing else starts threads.
    let one = pid as usize + 1 + meter.size() / 2;
    meter.repeat(EACH, |_| {
        call!(SYS_tgkill, pid, one, libc::SIGURG).map(drop)
    })
}
