//! Pending real-time signals: RLIMIT_SIGPENDING counts the signals of all of a user's processes.

use std::ptr;

use super::USER;
use crate::{error, in_child, tell_end};

const TARGETS: usize = 3;
const LIMIT: u64 = 100;

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit or are killed.
    unsafe {
        tell_end("queues", in_child(|| queues()));
    }
}

unsafe fn queues() {
    unsafe {
        libc::setgid(USER);
        libc::setuid(USER);
        let limit = libc::rlimit {
            rlim_cur: LIMIT,
            rlim_max: LIMIT,
        };
        libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit);
        let signal = libc::SIGRTMIN() + 1;
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let targets = [(); TARGETS].map(|()| {
            let child = libc::fork();
            if child == 0 {
                loop {
                    libc::pause();
                }
            }
            child
        });
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        let mut queued = 0;
        for target in targets {
            let mut own = 0;
            while own < 2 * LIMIT && libc::sigqueue(target, signal, value) == 0 {
                own += 1;
            }
            queued += own;
            println!("{own} for one, then {}", error());
        }
        println!("{queued} for all");
        // One of the targets ends: there is room again for as many as it held.
        libc::kill(targets[0], libc::SIGKILL);
        libc::waitpid(targets[0], ptr::null_mut(), 0);
        let again = (0..2 * LIMIT).filter(|_| libc::sigqueue(targets[1], signal, value) == 0);
        println!("{} again", again.count());
        // A code that pretends to be a timer's gets no extra room.
        let mut forged: libc::siginfo_t = std::mem::zeroed();
        forged.si_code = libc::SI_TIMER;
        let send = || libc::syscall(libc::SYS_rt_sigqueueinfo, targets[1], signal, &forged);
        let timers = (0..2 * LIMIT).filter(|_| send() == 0);
        println!("{} as a timer, then {}", timers.count(), error());
        for target in &targets[1..] {
            libc::kill(*target, libc::SIGKILL);
            libc::waitpid(*target, ptr::null_mut(), 0);
        }
    }
}
