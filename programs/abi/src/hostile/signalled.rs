//! An address space with many areas is copied while its process group gets signals all the time:
//! each copy completes, and no child escapes a signal.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_NONE, PROT_READ, SIGKILL, SIGTERM, SIGURG, SIGUSR1};

use super::become_user;
use crate::{in_child, tell, tell_end};

const PAGE: usize = 4096;
/// The size of the mapping in pages, each an area of its own: a copy takes longer than signals take
/// to arrive.
const PAGES: usize = 40_000;
const PAUSE: Duration = Duration::from_micros(300);
const FORKS: i32 = 5;
const ROUNDS: u64 = 20;
/// The time in seconds after which a fork has failed.
const SECONDS: u32 = 200;

/// Runs this part.
pub fn run() {
    let of_group = |work: fn()| {
        in_child(|| {
            become_user();
            // SAFETY: these calls access no memory.
            unsafe {
                libc::setpgid(0, 0);
                libc::alarm(SECONDS);
            }
            work();
        })
    };
    tell_end("beside signals", of_group(beside_signals));
    tell_end("a signal to all", of_group(each_gets_it));
}

fn make_areas() {
    // SAFETY: this function's own mapping.
    unsafe {
        let start = libc::mmap(
            ptr::null_mut(),
            PAGES * PAGE,
            PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        );
        for page in (0..PAGES).step_by(2) {
            libc::mprotect(start.add(page * PAGE), PAGE, PROT_READ);
        }
    }
}

/// Starts a child in the same group that ignores signals.
fn beside(work: impl FnOnce()) -> i32 {
    // SAFETY: the child has one thread.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            for signal in [SIGURG, SIGUSR1, SIGTERM] {
                libc::signal(signal, libc::SIG_IGN);
            }
            work();
            libc::_exit(0);
        }
        child
    }
}

fn send(signal: i32) {
    // SAFETY: the call accesses no memory.
    unsafe { libc::kill(0, signal) };
}

fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handlers are async-signal-safe.
    unsafe { libc::signal(signal, handler as *const () as usize) };
}

extern "C" fn nothing(_: i32) {}

/// Sends ignored and handled signals more often than a copy completes.
fn beside_signals() {
    handle(SIGUSR1, nothing);
    let sender = beside(|| {
        loop {
            send(SIGURG);
            send(SIGUSR1);
            std::thread::sleep(PAUSE);
        }
    });
    make_areas();
    let ended = (0..FORKS).filter(|_| in_child(|| ()) == 0);
    tell("children", ended.count() as i32);
    // SAFETY: a child of this process.
    unsafe {
        libc::kill(sender, SIGKILL);
        libc::waitpid(sender, ptr::null_mut(), 0);
    }
}

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn came(_: i32) {
    CAME.store(true, Relaxed);
}

/// Sends a signal at various times while children are created: all processes that exist by then get
/// it.
fn each_gets_it() {
    handle(SIGTERM, came);
    make_areas();
    for round in 0..ROUNDS {
        CAME.store(false, Relaxed);
        beside(|| {
            std::thread::sleep(Duration::from_millis(3) + 7 * round as u32 * PAUSE);
            send(SIGTERM);
        });
        while !CAME.load(Relaxed) {
            // SAFETY: the child has one thread, and ends.
            unsafe {
                // Not by the library's fork, which blocks signals meanwhile: one that the parent
                // gets before the fork is not the child's.
                if libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) == 0 {
                    while !CAME.load(Relaxed) {
                        libc::usleep(1000);
                    }
                    libc::_exit(0);
                }
            }
        }
        // SAFETY: no memory is passed. A process that did not get the signal never ends.
        while unsafe { libc::waitpid(-1, ptr::null_mut(), 0) } > 0 {}
    }
}
