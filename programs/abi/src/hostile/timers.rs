//! Thousands of timers that expire again at once, and another user's program beside them on the
//! same CPU.

use std::time::{Duration, Instant};
use std::{mem, ptr};

use libc::c_int;

use super::become_user;
use super::hang::{EACH, create};

/// The number of the hostile user's timers of each kind.
const MANY: usize = 4_000;
/// A real-time signal that no C library reserves.
const IGNORED: c_int = 40;
/// The work of the other program: some 10 ms of CPU time.
const ROUNDS: u64 = 1_000_000;
/// The time that it may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        // All programs share one CPU; the hostile program's share of it is not tested.
        let mut first: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut first);
        libc::sched_setaffinity(0, mem::size_of_val(&first), &first);
        for what in [libc::RLIMIT_NOFILE, libc::RLIMIT_SIGPENDING] {
            let limit = libc::rlimit {
                rlim_cur: 2 * MANY as u64,
                rlim_max: 2 * MANY as u64,
            };
            libc::setrlimit(what, &limit);
        }
        beside("descriptors", descriptors);
        beside("signals that are ignored", signals);
        beside("alarms that are ignored", alarms);
    }
}

/// The hostile user runs `hostile`, which returns the number of timers, and waits.
unsafe fn beside(what: &str, hostile: unsafe fn() -> usize) {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            become_user();
            let count = hostile();
            libc::write(ends[1], (&raw const count).cast(), 8);
            loop {
                libc::pause();
            }
        }
        let mut count = 0usize;
        libc::read(ends[0], (&raw mut count).cast(), 8);
        println!("{what}: {count}");
        let start = Instant::now();
        let sum = (0..ROUNDS).fold(0, |sum, n| sum ^ std::hint::black_box(n * n));
        let in_time = start.elapsed() < PATIENCE;
        println!("another works in time: {}", in_time && sum != 1);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
}

unsafe fn descriptors() -> usize {
    unsafe {
        let armed = |_: &usize| {
            let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
            libc::timerfd_settime(timer, 0, &EACH, ptr::null_mut()) == 0
        };
        (0..MANY).filter(armed).count()
    }
}

unsafe fn signals() -> usize {
    unsafe {
        libc::signal(IGNORED, libc::SIG_IGN);
        let armed = |_: &usize| {
            let id = create(libc::SIGEV_SIGNAL, IGNORED);
            let none = ptr::null_mut::<libc::itimerspec>();
            libc::syscall(libc::SYS_timer_settime, id, 0, &EACH, none) == 0
        };
        (0..MANY).filter(armed).count()
    }
}

/// Starts processes with interval timers.
unsafe fn alarms() -> usize {
    unsafe {
        let mut armed = 0;
        for _ in 0..MANY / 20 {
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                for (which, signal) in
                    [(0, libc::SIGALRM), (1, libc::SIGVTALRM), (2, libc::SIGPROF)]
                {
                    libc::signal(signal, libc::SIG_IGN);
                    let microsecond = [0i64, 1, 0, 1];
                    libc::syscall(libc::SYS_setitimer, which, &microsecond, 0);
                }
                loop {
                    libc::pause();
                }
            }
            armed += usize::from(child > 0);
        }
        armed
    }
}
