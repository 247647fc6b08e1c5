//! Signals: handlers, masks, pending, queued, restarted and interrupted calls, stacks.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use libc::{
    SA_NODEFER, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIGALRM, SIGCHLD, SIGKILL, SIGRTMIN, SIGUSR1,
    SIGUSR2,
};
use libc::{c_int, c_void, sigaction, siginfo_t, sigset_t};

use crate::{in_child, tell, tell_end};

static COUNT: AtomicI32 = AtomicI32::new(0);
static VALUE: AtomicI32 = AtomicI32::new(0);
static STACK: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let here = 0u8;
    STACK.store(&raw const here as usize, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel passes a complete siginfo.
    let value = unsafe { (*info).si_value().sival_ptr } as i32;
    VALUE.store(
        if signal >= SIGRTMIN() { value } else { signal },
        Ordering::Relaxed,
    );
}

fn handle(signal: c_int, flags: c_int) {
    // SAFETY: the handler has the signature that SA_SIGINFO requires.
    unsafe {
        let mut action: sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = flags | SA_SIGINFO;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

fn set(signals: &[c_int]) -> sigset_t {
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|&signal| {
            libc::sigaddset(&mut set, signal);
        });
        set
    }
}

fn mask(how: c_int, signals: &[c_int]) {
    // SAFETY: the set outlives the call.
    unsafe { libc::sigprocmask(how, &set(signals), ptr::null_mut()) };
}

fn count() -> i32 {
    COUNT.swap(0, Ordering::Relaxed)
}

/// Runs this part.
pub fn run() {
    // SAFETY: signals are sent only to this process and its children, and every structure passed is
    // complete.
    unsafe {
        let own = libc::getpid();
        handle(SIGUSR1, 0);
        libc::raise(SIGUSR1);
        println!("caught {}", count());

        mask(libc::SIG_BLOCK, &[SIGUSR1]);
        (0..3).for_each(|_| {
            libc::kill(own, SIGUSR1);
        });
        let mut pending = set(&[]);
        libc::sigpending(&mut pending);
        println!(
            "blocked {} pending {}",
            count(),
            libc::sigismember(&pending, SIGUSR1)
        );
        mask(libc::SIG_UNBLOCK, &[SIGUSR1]);
        println!("three become {}", count());

        handle(SIGRTMIN(), 0);
        mask(libc::SIG_BLOCK, &[SIGRTMIN()]);
        for value in 1..=3 {
            libc::sigqueue(
                own,
                SIGRTMIN(),
                libc::sigval {
                    sival_ptr: value as *mut c_void,
                },
            );
        }
        mask(libc::SIG_UNBLOCK, &[SIGRTMIN()]);
        println!("queued {} last {}", count(), VALUE.load(Ordering::Relaxed));

        mask(libc::SIG_BLOCK, &[SIGUSR2]);
        libc::kill(own, SIGUSR2);
        let mut info: siginfo_t = mem::zeroed();
        tell(
            "sigwaitinfo",
            libc::sigwaitinfo(&set(&[SIGUSR2]), &mut info),
        );
        println!("from itself {} code {}", info.si_pid() == own, info.si_code);
        let soon = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        tell(
            "sigtimedwait",
            libc::sigtimedwait(&set(&[SIGUSR2]), ptr::null_mut(), &soon),
        );

        handle(SIGUSR1, SA_RESETHAND);
        libc::raise(SIGUSR1);
        let mut old: sigaction = mem::zeroed();
        libc::sigaction(SIGUSR1, ptr::null(), &mut old);
        println!(
            "reset after {}: {}",
            count(),
            old.sa_sigaction == libc::SIG_DFL
        );
        handle(SIGKILL, 0);
        tell(
            "a handler for SIGKILL",
            libc::sigaction(SIGKILL, &old, ptr::null_mut()),
        );
        tell("signal 65", libc::kill(own, 65));
        tell("signal 0", libc::kill(own, 0));
        tell("to nobody", libc::kill(0x3f_ffff, 0));
        in_child(|| {
            libc::setuid(12345);
            tell("to all, who are others'", libc::kill(-1, SIGUSR1));
            tell("whether that may be", libc::kill(-1, 0));
            tell("to one of them", libc::kill(libc::getppid(), SIGUSR1));
            tell(
                "to its group",
                libc::kill(-libc::getpgid(libc::getppid()), 0),
            );
        });
        handle(SIGUSR1, SA_NODEFER);

        interrupted();
        stacks();
        children();
        awaited();
    }
}

/// Sends SIGALRM to this process each 20 ms, until `off`: on a slow machine one may come before the
/// call that it is to interrupt.
fn alarms(on: bool) {
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: if on { 20_000 } else { 0 },
    };
    // SAFETY: the structure outlives the call.
    unsafe {
        libc::setitimer(
            libc::ITIMER_REAL,
            &libc::itimerval {
                it_interval: time,
                it_value: time,
            },
            ptr::null_mut(),
        )
    };
}

unsafe fn interrupted() {
    unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        let mut byte = 0u8;
        handle(SIGALRM, 0);
        alarms(true);
        tell(
            "read, interrupted",
            libc::read(pipe[0], (&raw mut byte).cast(), 1) as i64,
        );
        alarms(false);
        handle(SIGALRM, SA_RESTART);
        let status = in_child(|| {
            count();
            alarms(true);
            let writer = libc::fork();
            if writer == 0 {
                libc::usleep(100_000);
                libc::write(pipe[1], b"r".as_ptr().cast(), 1);
                libc::_exit(0);
            }
            tell(
                "read, restarted",
                libc::read(pipe[0], (&raw mut byte).cast(), 1) as i64,
            );
            println!("handled meanwhile: {}", count() > 0);
        });
        tell_end("the reader", status);
        alarms(true);
        let mut entry = libc::pollfd {
            fd: pipe[0],
            events: libc::POLLIN,
            revents: 0,
        };
        tell("poll is never restarted", libc::poll(&mut entry, 1, -1));
        let (long, mut left) = (
            libc::timespec {
                tv_sec: 500,
                tv_nsec: 0,
            },
            libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
        );
        tell("nanosleep", libc::nanosleep(&long, &mut left));
        println!("most of it is left: {}", (400..500).contains(&left.tv_sec));
        tell("pause", libc::pause());
        mask(libc::SIG_BLOCK, &[SIGALRM]);
        tell("sigsuspend", libc::sigsuspend(&set(&[])));
        alarms(false);
        mask(libc::SIG_UNBLOCK, &[SIGALRM]);
        println!("handled: {}", count() >= 4);
    }
}

unsafe fn stacks() {
    unsafe {
        let room = vec![0u8; 65536].leak();
        let stack = libc::stack_t {
            ss_sp: room.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: room.len(),
        };
        tell("sigaltstack", libc::sigaltstack(&stack, ptr::null_mut()));
        handle(SIGUSR1, libc::SA_ONSTACK);
        libc::raise(SIGUSR1);
        let start = room.as_ptr() as usize;
        println!(
            "on it: {}",
            (start..start + room.len()).contains(&STACK.load(Ordering::Relaxed))
        );
        let small = libc::stack_t {
            ss_size: 100,
            ..stack
        };
        tell(
            "too small a stack",
            libc::sigaltstack(&small, ptr::null_mut()),
        );
    }
}

unsafe fn children() {
    unsafe {
        handle(SIGCHLD, 0);
        count();
        tell_end("a child", in_child(|| libc::_exit(3)));
        println!("SIGCHLD came: {}", count());
        let mut info: siginfo_t = mem::zeroed();
        let mut leave = [0; 2];
        libc::pipe(leave.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            libc::raise(libc::SIGSTOP);
            // It ends only after its parent has seen it continue.
            libc::read(leave[0], (&raw mut info).cast(), 1);
            libc::_exit(4);
        }
        let any = libc::WSTOPPED | libc::WEXITED | libc::WCONTINUED;
        for step in ["stopped", "continued", "ended"] {
            while libc::waitid(libc::P_PID, child as u32, &mut info, any) != 0
                && *libc::__errno_location() == libc::EINTR
            {}
            println!("{step}: code {} status {}", info.si_code, info.si_status());
            match step {
                "stopped" => _ = libc::kill(child, libc::SIGCONT),
                _ => _ = libc::write(leave[1], [0u8].as_ptr().cast(), 1),
            }
        }
    }
}

/// A signal whose default is to be ignored reaches a waiter, and stays pending for a later wait.
unsafe fn awaited() {
    unsafe {
        mask(libc::SIG_BLOCK, &[SIGCHLD]);
        let parent = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            // Waits until the parent sleeps, in the call that waits for the signal.
            let stat = format!("/proc/{parent}/stat");
            while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")) {
                libc::sched_yield();
            }
            libc::_exit(0);
        }
        let long = libc::timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut info: siginfo_t = mem::zeroed();
        let got = libc::sigtimedwait(&set(&[SIGCHLD]), &mut info, &long);
        tell("a child's end, waited for", got);
        println!("of the child: {}", info.si_pid() == child);
        libc::waitpid(child, ptr::null_mut(), 0);
        libc::kill(parent, SIGCHLD);
        tell(
            "held back, asked later",
            libc::sigtimedwait(&set(&[SIGCHLD]), ptr::null_mut(), &long),
        );
        mask(libc::SIG_UNBLOCK, &[SIGCHLD]);
    }
}
