//! Attempts to hang the machine: signals to a process while the kernel works on it, and timers that
//! expire again before their interrupt ends.

use std::{mem, ptr};

use libc::c_int;

use super::USER;
use crate::{in_child, tell, tell_end};

/// A real-time signal that no C library reserves.
const QUEUED: c_int = 40;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT, libc::SIGTERM] {
            death(signal);
        }
        tell_end("descriptors", in_child(|| as_user(descriptors)));
        tell_end("signals", in_child(|| as_user(timers)));
        tell_end("alarms", in_child(|| as_user(alarms)));
        tell_end("limits", in_child(|| as_user(limits)));
        tell_end("told of itself", in_child(|| as_user(told)));
    }
}

fn as_user(f: unsafe fn()) {
    // SAFETY: the child has one thread, and the parts are safe to call from it.
    unsafe {
        libc::setgid(USER);
        libc::setuid(USER);
        f();
    }
}

/// A parent ends whose child has `signal` as parent-death signal.
unsafe fn death(signal: c_int) {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let parent = libc::fork();
        if parent == 0 {
            libc::setuid(USER);
            if libc::fork() == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, signal);
                // One for its parent, and one for the process that adopts it.
                let own = [libc::getpid(); 2];
                libc::write(ends[1], own.as_ptr().cast(), 8);
                loop {
                    libc::pause();
                }
            }
            libc::read(ends[0], [0u8; 4].as_mut_ptr().cast(), 4);
            libc::_exit(0);
        }
        libc::waitpid(parent, ptr::null_mut(), 0);
        let (mut child, mut status) = (0, 0);
        libc::read(ends[0], (&raw mut child).cast(), 4);
        if signal != libc::SIGCONT {
            libc::waitpid(child, &mut status, libc::WUNTRACED);
        }
        println!("death signal {signal}: {status:#x}");
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
}

const NANOSECOND: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 1,
};
/// A timer setting that expires every nanosecond.
pub(super) const EACH: libc::itimerspec = libc::itimerspec {
    it_interval: NANOSECOND,
    it_value: NANOSECOND,
};

unsafe fn descriptors() {
    unsafe {
        let none = ptr::null_mut();
        for (clock, flags) in [
            (libc::CLOCK_MONOTONIC, 0),
            (libc::CLOCK_MONOTONIC, libc::TFD_TIMER_ABSTIME),
            (libc::CLOCK_REALTIME, libc::TFD_TIMER_ABSTIME),
        ] {
            let timer = libc::timerfd_create(clock, 0);
            tell("set", libc::timerfd_settime(timer, flags, &EACH, none));
            let mut count = 0u64;
            let read = libc::read(timer, (&raw mut count).cast(), 8);
            println!("read {read} some {}", count > 0);
            libc::usleep(10_000);
            libc::read(timer, (&raw mut count).cast(), 8);
            println!("each is counted {}", count > 1_000_000);
            libc::close(timer);
        }
    }
}

/// Creates a POSIX timer, which sends `signal` if `notify` is SIGEV_SIGNAL.
pub(super) unsafe fn create(notify: c_int, signal: c_int) -> c_int {
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = notify;
        event.sigev_signo = signal;
        let (mut id, clock) = (-1, libc::CLOCK_MONOTONIC);
        libc::syscall(libc::SYS_timer_create, clock, &event, &mut id);
        id
    }
}

unsafe fn timers() {
    unsafe {
        libc::signal(QUEUED + 1, libc::SIG_IGN);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, QUEUED);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let none = ptr::null_mut::<libc::itimerspec>();
        for (what, notify, signal) in [
            ("nobody", libc::SIGEV_NONE, 0),
            ("blocked", libc::SIGEV_SIGNAL, QUEUED),
            ("ignored", libc::SIGEV_SIGNAL, QUEUED + 1),
        ] {
            let timer = create(notify, signal);
            tell(
                what,
                libc::syscall(libc::SYS_timer_settime, timer, 0, &EACH, none),
            );
            libc::usleep(10_000);
            let mut left: libc::itimerspec = mem::zeroed();
            libc::syscall(libc::SYS_timer_gettime, timer, &mut left);
            println!("every {} ns", left.it_interval.tv_nsec);
            libc::syscall(libc::SYS_timer_delete, timer);
        }
    }
}

unsafe fn alarms() {
    unsafe {
        let microsecond = libc::timeval {
            tv_sec: 0,
            tv_usec: 1,
        };
        let each = libc::itimerval {
            it_interval: microsecond,
            it_value: microsecond,
        };
        for which in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
            let signal = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF][which as usize];
            libc::signal(signal, libc::SIG_IGN);
            let set = libc::syscall(libc::SYS_setitimer, which, &each, 0);
            tell("interval", set);
            libc::usleep(10_000);
        }
        println!("it goes on");
    }
}

/// Limits that no clock reaches. (Larger ones overflow Linux's 64-bit nanoseconds to 0.)
unsafe fn limits() {
    unsafe {
        for bits in 30..55 {
            let limit = libc::rlimit {
                rlim_cur: 1 << bits,
                rlim_max: u64::MAX,
            };
            if libc::setrlimit(libc::RLIMIT_CPU, &limit) != 0 {
                println!("2^{bits} refused");
            }
        }
        println!("{}", (0..3_000_000u64).fold(0, |sum, n| sum ^ (n * n)) > 0);
    }
}

/// O_ASYNC on a signalfd, which would signal signals, and on an epoll and others.
unsafe fn told() {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigaddset(&mut set, libc::SIGIO);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        for (what, fd) in [
            ("signalfd", libc::signalfd(-1, &set, 0)),
            ("epoll", libc::epoll_create1(0)),
            ("eventfd", libc::eventfd(0, 0)),
            ("timerfd", libc::timerfd_create(libc::CLOCK_MONOTONIC, 0)),
            (
                "pidfd",
                libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int,
            ),
        ] {
            libc::fcntl(fd, libc::F_SETOWN, libc::getpid());
            tell(what, libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC));
            let flags = libc::fcntl(fd, libc::F_GETFL) & libc::O_ASYNC;
            let on: c_int = 1;
            tell("by ioctl", libc::ioctl(fd, libc::FIOASYNC as _, &on));
            println!("flag {}", flags != 0);
        }
        tell("signal", libc::kill(libc::getpid(), libc::SIGUSR1));
        let mut pending: libc::sigset_t = mem::zeroed();
        libc::sigpending(&mut pending);
        println!("told: {}", libc::sigismember(&pending, libc::SIGIO));
    }
}
