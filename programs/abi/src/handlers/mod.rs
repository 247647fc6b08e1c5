//! Entry and return of signal handlers: the flags of sigaction(2), alternate stacks, restarts,
//! signalfd(2).

mod signalfd;
mod stacks;

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::{mem, ptr};

use libc::{
    SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIGUSR1, SIGUSR2, c_int, c_void,
};

use crate::{in_child, tell, tell_end};

/// A real-time signal that no C library reserves.
const QUEUED: c_int = 40;

static DEPTH: AtomicI32 = AtomicI32::new(0);
static DEEPEST: AtomicI32 = AtomicI32::new(0);
static PLACE: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicI32 = AtomicI32::new(0);

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type; the handlers call only
    // functions that a signal handler may call.
    unsafe {
        tell_end("flags", in_child(|| flags()));
        tell_end("masks", in_child(|| masks()));
        tell_end("stacks", in_child(|| stacks::stacks()));
        tell_end("armed stacks", in_child(|| stacks::armed()));
        tell_end("polled", in_child(|| polled()));
        tell_end("children", in_child(|| children()));
        tell_end("codes", in_child(|| codes()));
        tell_end("restarts", in_child(|| restarts()));
        tell_end("descriptor", in_child(|| signalfd::descriptor()));
        tell_end("context", in_child(|| context()));
    }
}

unsafe fn act(signal: c_int, handler: usize, flags: c_int, blocked: &[c_int]) -> c_int {
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        for &signal in blocked {
            libc::sigaddset(&mut action.sa_mask, signal);
        }
        libc::sigaction(signal, &action, ptr::null_mut())
    }
}

extern "C" fn nested(signal: c_int) {
    DEEPEST.fetch_max(DEPTH.fetch_add(1, SeqCst) + 1, SeqCst);
    if COUNT.fetch_sub(1, SeqCst) > 0 {
        // SAFETY: raise may be called in a handler.
        unsafe { libc::raise(signal) };
    }
    DEPTH.fetch_sub(1, SeqCst);
}

unsafe fn flags() {
    unsafe {
        for (name, flags) in [("deferred", 0), ("not deferred", SA_NODEFER)] {
            COUNT.store(3, SeqCst);
            DEEPEST.store(0, SeqCst);
            act(SIGUSR1, nested as *const () as usize, flags, &[]);
            libc::raise(SIGUSR1);
            println!("{name}: {} deep", DEEPEST.load(SeqCst));
        }
        tell_end(
            "once",
            in_child(|| {
                COUNT.store(0, SeqCst);
                act(SIGUSR1, nested as *const () as usize, SA_RESETHAND, &[]);
                libc::raise(SIGUSR1);
                libc::raise(SIGUSR1);
            }),
        );
        // The kernel clears unknown flags.
        let raw = [nested as *const () as usize, 0x400 | 0x8000_0000, 0, 0];
        tell(
            "unsupported",
            libc::syscall(libc::SYS_rt_sigaction, SIGUSR2, &raw, 0, 8),
        );
        let mut told = [0usize; 4];
        libc::syscall(libc::SYS_rt_sigaction, SIGUSR2, 0, &mut told, 8);
        println!("{:#x}", told[1] & 0xffff_ffff);
        tell(
            "a short set",
            libc::syscall(libc::SYS_rt_sigaction, SIGUSR2, &raw, 0, 4),
        );
        tell(
            "of the kill",
            libc::syscall(libc::SYS_rt_sigaction, libc::SIGKILL, 0, &mut told, 8),
        );
        tell("for the stop", act(libc::SIGSTOP, 1, 0, &[]));
    }
}

unsafe fn masks() {
    extern "C" fn shown(_: c_int) {
        // SAFETY: the kernel writes the set.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigprocmask(libc::SIG_BLOCK, ptr::null(), &mut set);
            let held = [SIGUSR1, SIGUSR2, libc::SIGTERM, libc::SIGKILL];
            println!(
                "held {:?}",
                held.map(|signal| libc::sigismember(&set, signal))
            );
        }
    }
    unsafe {
        act(
            SIGUSR1,
            shown as *const () as usize,
            0,
            &[SIGUSR2, libc::SIGKILL],
        );
        libc::raise(SIGUSR1);
        act(
            SIGUSR1,
            shown as *const () as usize,
            SA_NODEFER,
            &[libc::SIGTERM],
        );
        libc::raise(SIGUSR1);
        tell(
            "an odd way",
            libc::syscall(libc::SYS_rt_sigprocmask, 9, &[0u64], 0, 8),
        );
        tell(
            "an odd way without a set",
            libc::syscall(libc::SYS_rt_sigprocmask, 9, 0, 0, 8),
        );
        tell(
            "a short set",
            libc::syscall(libc::SYS_rt_sigprocmask, 0, &[0u64], 0, 7),
        );
        tell(
            "nowhere",
            libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, 1, 8),
        );
        let set = [u64::MAX];
        libc::syscall(libc::SYS_rt_sigprocmask, 2, &set, 0, 8);
        let mut now = [0u64];
        libc::syscall(libc::SYS_rt_sigprocmask, 0, 0, &mut now, 8);
        println!("all {:x}", now[0]);
    }
}

extern "C" fn place(_: c_int) {
    let local = 0u8;
    PLACE.store((&raw const local).expose_provenance(), SeqCst);
    // SAFETY: the kernel writes the structure.
    unsafe {
        let mut now: libc::stack_t = mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut now);
        println!("flags in the handler {:#x}", now.ss_flags);
        let none = libc::stack_t {
            ss_flags: libc::SS_DISABLE,
            ..now
        };
        tell(
            "taken away on it",
            libc::sigaltstack(&none, ptr::null_mut()),
        );
    }
}

/// A `struct pollfd`, as one word: other code changes it while poll(2) waits.
static ENTRY: AtomicU64 = AtomicU64::new(0);

extern "C" fn asks_more(_: c_int) {
    ENTRY.fetch_or((libc::POLLPRI as u64) << 32, SeqCst);
}

/// poll(2) writes only `revents` of each entry, even if a signal ends it.
unsafe fn polled() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let poll = |what: &str| {
            let found = libc::syscall(libc::SYS_ppoll, &raw const ENTRY, 1, 0, 0, 8);
            tell(what, found);
            let now = ENTRY.load(SeqCst);
            println!("events {:#x} found {:#x}", now >> 32 & 0xffff, now >> 48);
        };
        let fresh = ends[0] as u64 | (libc::POLLIN as u64) << 32 | 0x7777 << 48;
        act(libc::SIGALRM, asks_more as *const () as usize, 0, &[]);
        ENTRY.store(fresh, SeqCst);
        let brief = libc::timeval {
            tv_sec: 0,
            tv_usec: 50_000,
        };
        let often = libc::itimerval {
            it_interval: brief,
            it_value: brief,
        };
        libc::setitimer(libc::ITIMER_REAL, &often, ptr::null_mut());
        poll("interrupted");
        libc::setitimer(libc::ITIMER_REAL, &mem::zeroed(), ptr::null_mut());
        ENTRY.store(fresh, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                asks_more(0);
                libc::write(ends[1], c"".as_ptr().cast(), 1);
            });
            poll("found");
        });
    }
}

unsafe fn children() {
    extern "C" fn count(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        COUNT.fetch_add(1, SeqCst);
        // SAFETY: the kernel passes a siginfo.
        PLACE.store(unsafe { (*info).si_code } as usize, SeqCst);
    }
    unsafe {
        let stop_and_go = |flags: c_int| {
            COUNT.store(0, SeqCst);
            act(
                libc::SIGCHLD,
                count as *const () as usize,
                SA_SIGINFO | SA_RESTART | flags,
                &[],
            );
            let child = libc::fork();
            if child == 0 {
                loop {
                    libc::pause();
                }
            }
            libc::kill(child, libc::SIGSTOP);
            libc::waitpid(child, ptr::null_mut(), libc::WUNTRACED);
            let stopped = (COUNT.load(SeqCst), PLACE.load(SeqCst));
            libc::kill(child, libc::SIGCONT);
            libc::waitpid(child, ptr::null_mut(), libc::WCONTINUED);
            // The child itself reports that it continues, perhaps later than a wait sees that.
            while flags == 0 && COUNT.load(SeqCst) < 2 {
                libc::sched_yield();
            }
            let on = (COUNT.load(SeqCst), PLACE.load(SeqCst));
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
            [stopped, on, (COUNT.load(SeqCst), PLACE.load(SeqCst))]
        };
        let show = |[stopped, on, end]: [(i32, usize); 3]| {
            println!("stop {stopped:?} on {on:?} end {end:?}");
        };
        let told = stop_and_go(0);
        show(told);
        // When a wait reports a stop, the signal for it has been sent.
        let late = (0..300).filter(|_| stop_and_go(0) != told).count();
        println!("late: {late}");
        show(stop_and_go(libc::SA_NOCLDSTOP));
        act(libc::SIGCHLD, libc::SIG_DFL, libc::SA_NOCLDWAIT, &[]);
        in_child(|| ());
        tell("no zombies", libc::wait(ptr::null_mut()));
        act(libc::SIGCHLD, libc::SIG_IGN, 0, &[]);
        in_child(|| ());
        tell("ignored", libc::wait(ptr::null_mut()));
        act(libc::SIGCHLD, libc::SIG_DFL, 0, &[]);
        tell_end("a zombie again", in_child(|| ()));
    }
}

/// Values of `si_code` that a sender may choose.
unsafe fn codes() {
    unsafe {
        let (own, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid) as c_int);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, SIGUSR1);
        libc::sigaddset(&mut set, QUEUED);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let other = libc::getppid();
        for code in [0, -1, -2, 1, 0x80, -60] {
            let mut info: libc::siginfo_t = mem::zeroed();
            info.si_code = code;
            info.si_signo = 99;
            let to = |what: &str, pid: c_int| {
                tell(
                    &format!("code {code} {what}"),
                    libc::syscall(libc::SYS_rt_sigqueueinfo, pid, SIGUSR1, &info),
                );
            };
            to("to itself", own);
            to("to nobody", 77777);
            let mut got: libc::siginfo_t = mem::zeroed();
            let now: libc::timespec = mem::zeroed();
            tell("got", libc::sigtimedwait(&set, &mut got, &now));
            println!("code {} number {}", got.si_code, got.si_signo);
            if code >= 0 {
                to("to another", other);
            }
        }
        let mut info: libc::siginfo_t = mem::zeroed();
        info.si_code = -1;
        tell(
            "to a thread",
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, own, thread, SIGUSR1, &info),
        );
        tell(
            "of another group",
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, other, thread, SIGUSR1, &info),
        );
        tell(
            "of no group",
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, 0, thread, SIGUSR1, &info),
        );
        tell(
            "tgkill of no group",
            libc::syscall(libc::SYS_tgkill, 0, thread, 0),
        );
        tell("tgkill", libc::syscall(libc::SYS_tgkill, own, thread, 0));
        tell("tkill", libc::syscall(libc::SYS_tkill, thread, 0));
        tell("tkill of nothing", libc::syscall(libc::SYS_tkill, 0, 0));
        tell("kill with a large number", libc::kill(own, 100));
        for value in 0..3 {
            let value = libc::sigval {
                sival_ptr: ptr::without_provenance_mut(value),
            };
            libc::sigqueue(own, QUEUED, value);
        }
        let mut order = Vec::new();
        let mut got: libc::siginfo_t = mem::zeroed();
        let now: libc::timespec = mem::zeroed();
        while libc::sigtimedwait(&set, &mut got, &now) > 0 {
            order.push((got.si_signo == QUEUED, got.si_value().sival_ptr.addr()));
        }
        println!("{order:?}");
        let odd = libc::timespec {
            tv_sec: 0,
            tv_nsec: 2_000_000_000,
        };
        tell("an odd time", libc::sigtimedwait(&set, &mut got, &odd));
        tell(
            "no set",
            libc::syscall(libc::SYS_rt_sigtimedwait, 0, 0, &now, 8),
        );
        tell(
            "a short set",
            libc::syscall(libc::SYS_rt_sigtimedwait, &set, 0, &now, 4),
        );
        tell(
            "suspend, a short set",
            libc::syscall(libc::SYS_rt_sigsuspend, &set, 4),
        );
        tell(
            "pending, a long set",
            libc::syscall(libc::SYS_rt_sigpending, &mut set, 16),
        );
    }
}

/// Calls that a handled signal interrupts, and those that restart.
unsafe fn restarts() {
    extern "C" fn handled(_: c_int) {
        COUNT.fetch_add(1, SeqCst);
    }
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
        let long = libc::timespec {
            tv_sec: 1000,
            tv_nsec: 0,
        };
        let word = 7u32;
        let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
        let sets = libc::semget(libc::IPC_PRIVATE, 1, 0o600);
        let mut take = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        let mut byte = [0u64; 4];
        let at = byte.as_mut_ptr();
        let mut events: libc::epoll_event = mem::zeroed();
        let epoll = libc::epoll_create1(0);
        let event = libc::eventfd(0, 0);
        let mut poll = libc::pollfd {
            fd: ends[0],
            events: 1,
            revents: 0,
        };
        let mut child = 0;
        let mut try_all = |flags: c_int| {
            act(SIGUSR1, handled as *const () as usize, flags, &[]);
            let mut call = |what: &str, work: &mut dyn FnMut() -> i64| {
                COUNT.store(0, SeqCst);
                // The first signal ends the call or not; a restarted call is ended by the second,
                // whose action has no SA_RESTART.
                let parent = libc::getpid();
                child = libc::fork();
                if child == 0 {
                    asleep(parent);
                    libc::kill(parent, SIGUSR1);
                    while !handled_once(parent) {}
                    asleep(parent);
                    libc::kill(parent, SIGUSR2);
                    libc::_exit(0);
                }
                let result = work();
                let after = COUNT.load(SeqCst);
                tell(what, result);
                println!("  after {after}");
                while libc::waitpid(child, ptr::null_mut(), 0) < 0 {}
            };
            act(SIGUSR2, handled as *const () as usize, 0, &[]);
            call("read", &mut || libc::read(ends[0], at.cast(), 1) as i64);
            call("poll", &mut || libc::poll(&mut poll, 1, 100_000) as i64);
            call("nanosleep", &mut || {
                libc::nanosleep(&long, ptr::null_mut()) as i64
            });
            call("futex", &mut || {
                libc::syscall(libc::SYS_futex, &word, 0, 7, 0)
            });
            call("futex in time", &mut || {
                libc::syscall(libc::SYS_futex, &word, 0, 7, &long)
            });
            call("epoll", &mut || {
                libc::epoll_wait(epoll, &mut events, 1, 100_000) as i64
            });
            call("eventfd", &mut || libc::read(event, at.cast(), 8) as i64);
            call("receive", &mut || {
                libc::recv(pair[0], at.cast(), 1, 0) as i64
            });
            call("message", &mut || {
                libc::msgrcv(queue, at.cast(), 8, 0, 0) as i64
            });
            call("semaphore", &mut || libc::semop(sets, &mut take, 1) as i64);
            call("suspend", &mut || {
                libc::syscall(libc::SYS_rt_sigsuspend, &[0u64], 8)
            });
        };
        println!("ended");
        try_all(0);
        println!("restarted");
        try_all(SA_RESTART);
        libc::msgctl(queue, libc::IPC_RMID, ptr::null_mut());
        libc::semctl(sets, 0, libc::IPC_RMID);
    }
}

/// Waits until `process` sleeps.
fn asleep(process: c_int) {
    let place = format!("/proc/{process}/stat");
    while !std::fs::read_to_string(&place).is_ok_and(|stat| stat.contains(") S ")) {
        std::thread::yield_now();
    }
}

/// Whether `process` has no signal pending.
fn handled_once(process: c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.contains("ShdPnd:\t0000000000000000")
}

/// A handler changes the program counter and the mask to which it returns.
unsafe fn context() {
    extern "C" fn change(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        let context: *mut libc::ucontext_t = context.cast();
        // SAFETY: the kernel passes a context.
        unsafe {
            println!(
                "held before {}",
                libc::sigismember(&(*context).uc_sigmask, SIGUSR2)
            );
            libc::sigaddset(&mut (*context).uc_sigmask, SIGUSR2);
        }
    }
    unsafe {
        act(SIGUSR1, change as *const () as usize, SA_SIGINFO, &[]);
        libc::raise(SIGUSR1);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, ptr::null(), &mut set);
        println!("held after {}", libc::sigismember(&set, SIGUSR2));
    }
}
