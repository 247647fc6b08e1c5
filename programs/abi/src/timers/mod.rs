//! Timers and clocks: the thread that is notified, overruns, clocks of processes and threads,
//! timerfd(2).

mod clock_set;
pub mod queued;
mod timerfd;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{hint, mem, ptr, thread};

use libc::{
    CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID,
    TIMER_ABSTIME, c_int, c_long,
};

use crate::{in_child, tell, tell_end, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("events", in_child(|| events()));
        tell_end("listed", in_child(|| listed()));
        tell_end("by processor time", in_child(|| processor()));
        tell_end("interval timers", in_child(|| intervals()));
        tell_end("clocks", in_child(|| clocks()));
        tell_end("descriptors", in_child(|| timerfd::descriptors()));
        tell_end("cancelled", in_child(|| timerfd::cancelled()));
        tell_end("the time of day", in_child(|| clock_set::follows()));
        tell_end("overruns", in_child(|| overruns()));
        tell_end("forged", in_child(|| forged()));
        tell_end("numbers", in_child(|| numbers()));
        tell_end("alarms", in_child(|| alarms()));
        tell_end("stopped elsewhere", in_child(|| stopped()));
        tell_end("spread", in_child(|| spread()));
    }
}

/// Signals of a process's CPU timers reach each running thread.
unsafe fn spread() {
    const THREADS: usize = 3;
    static HITS: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];
    std::thread_local! {
        static WHICH: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    extern "C" fn hit(_: c_int) {
        HITS[WHICH.get()].fetch_add(1, SeqCst);
    }
    unsafe {
        // Threads share one CPU, or also use CPUs other than that of the thread that sets the
        // timer.
        let all_cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
        stay_on(0);
        for (name, kind, signal, cpus) in [
            ("virtual", libc::ITIMER_VIRTUAL, libc::SIGVTALRM, 1),
            ("prof", libc::ITIMER_PROF, libc::SIGPROF, 1),
            (
                "virtual on all",
                libc::ITIMER_VIRTUAL,
                libc::SIGVTALRM,
                all_cpus,
            ),
            ("prof on all", libc::ITIMER_PROF, libc::SIGPROF, all_cpus),
        ] {
            HITS.iter().for_each(|hits| hits.store(0, SeqCst));
            libc::signal(signal, hit as *const () as usize);
            let short = libc::timeval {
                tv_sec: 0,
                tv_usec: 5000,
            };
            let often = libc::itimerval {
                it_interval: short,
                it_value: short,
            };
            libc::setitimer(kind, &often, ptr::null_mut());
            let all = || HITS.iter().all(|hits| hits.load(SeqCst) > 2);
            let workers: Vec<_> = (0..THREADS)
                .map(|which| {
                    thread::spawn(move || {
                        stay_on(which % cpus);
                        WHICH.set(which);
                        while !all() {
                            hint::spin_loop();
                        }
                    })
                })
                .collect();
            // The first thread sleeps, and gets no signal.
            workers.into_iter().for_each(|worker| _ = worker.join());
            libc::setitimer(kind, &mem::zeroed(), ptr::null_mut());
            println!("{name}: all");
        }
    }
}

/// No signal comes after a thread on another CPU has stopped the timer.
unsafe fn stopped() {
    static TURN: AtomicU32 = AtomicU32::new(0);
    const SOON: u64 = 100_000;
    unsafe {
        let waits = blocked(&[libc::SIGUSR1]);
        let (kind, signal) = (libc::SIGEV_SIGNAL, libc::SIGUSR1);
        let timer = create("timer", CLOCK_MONOTONIC, kind, signal, 0);
        let soon = libc::itimerspec {
            it_interval: NEVER.it_interval,
            it_value: libc::timespec {
                tv_sec: 0,
                tv_nsec: SOON as i64,
            },
        };
        thread::spawn(move || {
            stay_on(1);
            loop {
                while TURN.load(SeqCst) != 1 {
                    hint::spin_loop();
                }
                set(timer, 0, &soon);
                TURN.store(2, SeqCst);
            }
        });
        stay_on(0);
        let spin = |nanoseconds: u64| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_nanos(nanoseconds) {}
        };
        let comes = || {
            let (none, now) = (ptr::null_mut(), NEVER.it_value);
            libc::sigtimedwait(&waits, none, &now) > 0
        };
        let late = |round: &u64| {
            TURN.store(1, SeqCst);
            while TURN.load(SeqCst) != 2 {
                hint::spin_loop();
            }
            // Waits until about the expiry.
            spin(SOON / 2 + round % 100 * SOON / 100);
            set(timer, 0, &NEVER);
            comes();
            spin(SOON);
            comes()
        };
        // With one CPU the threads take turns.
        let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let rounds = if cpus > 1 { 3000 } else { 10 };
        println!("late: {}", (0..rounds).filter(late).count());
    }
}

/// Pins the thread to a CPU, if that exists.
unsafe fn stay_on(cpu: usize) {
    unsafe {
        let mut cpus: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        libc::sched_setaffinity(0, size_of_val(&cpus), &cpus);
    }
}

/// /proc/PID/timers: the parameters of timers, whether they are armed or not.
unsafe fn listed() {
    unsafe {
        let own = libc::syscall(libc::SYS_gettid) as c_int;
        create("a signal", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
        create("a thread", CLOCK_REALTIME, 4, libc::SIGUSR1, own);
        create(
            "a function",
            CLOCK_PROCESS_CPUTIME_ID,
            libc::SIGEV_THREAD,
            10,
            0,
        );
        create("nobody", CLOCK_THREAD_CPUTIME_ID, libc::SIGEV_NONE, 5, 0);
        let none = ptr::null::<u8>();
        let mut id: c_int = -1;
        let made = libc::syscall(libc::SYS_timer_create, libc::CLOCK_BOOTTIME, none, &mut id);
        tell("as usual", made);
        let text = std::fs::read_to_string("/proc/self/timers").unwrap_or_default();
        print!("{}", text.replace(&format!(".{own}\n"), ".own\n"));
    }
}

/// A real-time signal that no C library reserves.
const QUEUED: c_int = 40;

const EVERY: libc::itimerspec = libc::itimerspec {
    it_interval: libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    },
    it_value: libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    },
};
const ONCE: libc::itimerspec = libc::itimerspec {
    it_interval: libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
    it_value: libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    },
};
const NEVER: libc::itimerspec = libc::itimerspec {
    it_interval: libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
    it_value: libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
};

unsafe fn create(what: &str, clock: c_int, notify: c_int, signal: c_int, thread: c_int) -> c_int {
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_value.sival_ptr = ptr::without_provenance_mut(0x1234);
        event.sigev_notify = notify;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = thread;
        let mut id = -1;
        let result = libc::syscall(libc::SYS_timer_create, clock, &event, &mut id);
        tell(what, result);
        id
    }
}

unsafe fn set(timer: c_int, flags: c_int, to: &libc::itimerspec) -> i64 {
    let none = ptr::null::<u8>();
    unsafe { libc::syscall(libc::SYS_timer_settime, timer, flags, to, none) }
}

unsafe fn blocked(signals: &[c_int]) -> libc::sigset_t {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        set
    }
}

unsafe fn events() {
    unsafe {
        let waits = blocked(&[libc::SIGALRM, libc::SIGUSR1, QUEUED]);
        let own = libc::syscall(libc::SYS_gettid) as c_int;
        let take = |what: &str, timer: c_int| {
            let mut info: libc::siginfo_t = mem::zeroed();
            let signal = libc::sigwaitinfo(&waits, &mut info);
            let words: [u64; 4] = *(&raw const info).cast();
            let value = info.si_value().sival_ptr.addr();
            println!(
                "{what}: {signal} code {} of it {} value {value:#x}",
                info.si_code,
                words[2] as c_int == timer
            );
        };
        for (name, notify, signal, thread) in [
            ("a signal", libc::SIGEV_SIGNAL, QUEUED, 0),
            ("a thread", 4, libc::SIGUSR1, own),
            ("a thread's function", libc::SIGEV_THREAD, libc::SIGUSR1, 0),
        ] {
            let timer = create(name, CLOCK_MONOTONIC, notify, signal, thread);
            tell("set", set(timer, 0, &ONCE));
            take(name, timer);
            tell("overrun", libc::syscall(libc::SYS_timer_getoverrun, timer));
            let mut left: libc::itimerspec = mem::zeroed();
            tell(
                "left",
                libc::syscall(libc::SYS_timer_gettime, timer, &mut left),
            );
            println!("{} {}", left.it_value.tv_sec, left.it_value.tv_nsec);
            tell("delete", libc::syscall(libc::SYS_timer_delete, timer));
        }
        let timer = create("nobody", CLOCK_MONOTONIC, libc::SIGEV_NONE, 0, 0);
        tell("set", set(timer, 0, &EVERY));
        let mut left = NEVER;
        libc::syscall(libc::SYS_timer_gettime, timer, &mut left);
        println!(
            "every {} left {}",
            left.it_interval.tv_nsec,
            left.it_value.tv_nsec > 0
        );
        tell("delete", libc::syscall(libc::SYS_timer_delete, timer));
        create("no such thread", CLOCK_MONOTONIC, 4, libc::SIGUSR1, 1);
        create("no such signal", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, 65, 0);
        create("signal 0", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, 0, 0);
        create("no such way", CLOCK_MONOTONIC, 9, libc::SIGUSR1, 0);
        create("no such clock", 99, libc::SIGEV_NONE, 0, 0);
        create(
            "a coarse clock",
            libc::CLOCK_MONOTONIC_COARSE,
            libc::SIGEV_NONE,
            0,
            0,
        );
        create(
            "the raw clock",
            libc::CLOCK_MONOTONIC_RAW,
            libc::SIGEV_NONE,
            0,
            0,
        );
        for clock in [
            CLOCK_REALTIME,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_TAI,
            CLOCK_PROCESS_CPUTIME_ID,
            CLOCK_THREAD_CPUTIME_ID,
        ] {
            let timer = create(
                &format!("clock {clock}"),
                clock,
                libc::SIGEV_SIGNAL,
                libc::SIGUSR1,
                0,
            );
            tell("in the past", set(timer, TIMER_ABSTIME, &ONCE));
            take("told", timer);
            tell("again", libc::syscall(libc::SYS_timer_delete, timer));
        }
        let mut id = 0;
        let none = ptr::null::<u8>();
        tell(
            "by default",
            libc::syscall(libc::SYS_timer_create, CLOCK_MONOTONIC, none, &mut id),
        );
        set(id, 0, &ONCE);
        let mut info: libc::siginfo_t = mem::zeroed();
        println!("{}", libc::sigwaitinfo(&waits, &mut info));
        println!(
            "its value is its number: {}",
            info.si_value().sival_ptr.addr() as c_int == id
        );
        let odd = libc::itimerspec {
            it_value: libc::timespec {
                tv_sec: 0,
                tv_nsec: -1,
            },
            ..NEVER
        };
        tell("an odd time", set(id, 0, &odd));
        tell("odd flags", set(id, 2, &ONCE));
        tell("of none", set(77, 0, &ONCE));
        tell(
            "overrun of none",
            libc::syscall(libc::SYS_timer_getoverrun, 77),
        );
        tell("delete none", libc::syscall(libc::SYS_timer_delete, 77));
        // A child inherits none of them.
        tell_end(
            "a child",
            in_child(|| tell("of the parent", set(id, 0, &ONCE))),
        );
        // Timers that are reset or deleted while their signal is pending.
        set(id, 0, &ONCE);
        while !pending(libc::SIGALRM) {}
        tell("stop", set(id, 0, &NEVER));
        println!("still pending {}", pending(libc::SIGALRM));
    }
}

unsafe fn pending(signal: c_int) -> bool {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigpending(&mut set);
        libc::sigismember(&set, signal) == 1
    }
}

unsafe fn processor() {
    unsafe {
        let waits = blocked(&[libc::SIGUSR1, libc::SIGUSR2]);
        let timer = create(
            "the process",
            CLOCK_PROCESS_CPUTIME_ID,
            libc::SIGEV_SIGNAL,
            libc::SIGUSR1,
            0,
        );
        set(timer, 0, &EVERY);
        while !pending(libc::SIGUSR1) {}
        let mut info: libc::siginfo_t = mem::zeroed();
        println!(
            "{} code {}",
            libc::sigwaitinfo(&waits, &mut info),
            info.si_code
        );
        tell("stop", set(timer, 0, &NEVER));
        let mut clock = 0;
        tell(
            "its clock",
            libc::clock_getcpuclockid(libc::getpid(), &mut clock),
        );
        let timer = create("by number", clock, libc::SIGEV_SIGNAL, libc::SIGUSR2, 0);
        set(timer, 0, &ONCE);
        while !pending(libc::SIGUSR2) {}
        println!("told");
        let nobody = !77777 << 3 | 2;
        create("of nobody", nobody, libc::SIGEV_NONE, 0, 0);
        let mut now: libc::timespec = mem::zeroed();
        tell("time of nobody", libc::clock_gettime(nobody, &mut now));
        let parent = !libc::getppid() << 3 | 2;
        tell("the parent's", libc::clock_gettime(parent, &mut now));
        tell(
            "a timer of it",
            libc::c_int::from(create("the parent's timer", parent, libc::SIGEV_NONE, 0, 0) < 0),
        );
        let thread = !(libc::syscall(libc::SYS_gettid) as c_int) << 3 | 6;
        tell("a thread's", libc::clock_gettime(thread, &mut now));
        tell("its precision", libc::clock_getres(thread, &mut now));
        println!("{} {}", now.tv_sec, now.tv_nsec);
        tell(
            "another process's thread",
            libc::clock_gettime(!libc::getppid() << 3 | 6, &mut now),
        );
        tell("set", libc::clock_settime(thread, &now));
        tell(
            "sleep by a thread's",
            libc::clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &now, ptr::null_mut()),
        );
        let past: libc::timespec = mem::zeroed();
        tell(
            "sleep by the process's",
            libc::clock_nanosleep(
                CLOCK_PROCESS_CPUTIME_ID,
                TIMER_ABSTIME,
                &past,
                ptr::null_mut(),
            ),
        );
        // Another thread uses CPU time while this one sleeps.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
            let short = libc::timespec {
                tv_sec: 0,
                tv_nsec: 5_000_000,
            };
            tell(
                "while another runs",
                libc::clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &short, ptr::null_mut()),
            );
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

unsafe fn intervals() {
    unsafe {
        let waits = blocked(&[libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF]);
        let short = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: libc::timeval {
                tv_sec: 0,
                tv_usec: 1000,
            },
        };
        for (kind, signal) in [
            (libc::ITIMER_REAL, libc::SIGALRM),
            (libc::ITIMER_VIRTUAL, libc::SIGVTALRM),
            (libc::ITIMER_PROF, libc::SIGPROF),
        ] {
            tell("set", libc::setitimer(kind, &short, ptr::null_mut()));
            while !pending(signal) {}
            let mut info: libc::siginfo_t = mem::zeroed();
            println!(
                "{} code {:#x}",
                libc::sigwaitinfo(&waits, &mut info),
                info.si_code
            );
            let mut left: libc::itimerval = mem::zeroed();
            tell("left", libc::getitimer(kind, &mut left));
            println!("{} {}", left.it_value.tv_sec, left.it_value.tv_usec);
        }
        tell(
            "no setting",
            libc::setitimer(libc::ITIMER_REAL, ptr::null(), ptr::null_mut()),
        );
        tell("nowhere", libc::syscall(libc::SYS_getitimer, 0, 1));
        libc::alarm(100);
        tell_end("a child", in_child(|| println!("alarm {}", libc::alarm(0))));
        println!("the parent's is there {}", libc::alarm(0) > 90);
    }
}

unsafe fn clocks() {
    unsafe {
        for clock in 0..13 {
            let mut precision: libc::timespec = mem::zeroed();
            tell(
                &format!("clock {clock}"),
                libc::clock_getres(clock, &mut precision),
            );
            println!(
                "  {} {}",
                precision.tv_sec,
                if precision.tv_nsec > 1 {
                    "coarse"
                } else {
                    "fine"
                }
            );
            let past: libc::timespec = mem::zeroed();
            tell(
                "  sleep",
                libc::syscall(libc::SYS_clock_nanosleep, clock, TIMER_ABSTIME, &past, 0),
            );
            tell(
                "  set",
                libc::clock_settime(
                    clock,
                    &libc::timespec {
                        tv_sec: -1,
                        tv_nsec: 0,
                    },
                ),
            );
        }
        tell(
            "odd nanoseconds",
            libc::clock_settime(
                CLOCK_REALTIME,
                &libc::timespec {
                    tv_sec: 1,
                    tv_nsec: 1 << 40,
                },
            ),
        );
        let mut before: libc::timespec = mem::zeroed();
        libc::clock_gettime(CLOCK_REALTIME, &mut before);
        tell("set", libc::clock_settime(CLOCK_REALTIME, &before));
        libc::setuid(1000);
        tell("by a user", libc::clock_settime(CLOCK_REALTIME, &before));
        let day = libc::timeval {
            tv_sec: 1,
            tv_usec: 1,
        };
        tell("settimeofday", libc::settimeofday(&day, ptr::null()));
        let mut zone = [1i32; 2];
        tell("zone", libc::syscall(libc::SYS_gettimeofday, 0, &mut zone));
        println!("{} {}", zone[0], zone[1]);
    }
}

fn after(time: libc::timespec, seconds: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: time.tv_sec + seconds,
        ..time
    }
}

unsafe fn time_of_day() -> libc::timespec {
    unsafe {
        let mut now = mem::zeroed();
        libc::clock_gettime(CLOCK_REALTIME, &mut now);
        now
    }
}

/// Waits long for a blocked signal; returns its number.
unsafe fn wait_for(set: &libc::sigset_t) -> c_int {
    unsafe {
        let long = libc::timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        libc::sigtimedwait(set, ptr::null_mut(), &long)
    }
}

unsafe fn set_timer(timer: c_int, flags: c_int, to: &libc::itimerspec) {
    // SAFETY: as for all functions that this calls.
    unsafe {
        if set(timer, flags, to) != 0 {
            println!("not set");
        }
    }
}

/// Expiries while the signal is pending are counted.
unsafe fn overruns() {
    unsafe {
        let overrun = |timer: c_int| libc::syscall(libc::SYS_timer_getoverrun, timer);
        let held = blocked(&[libc::SIGURG]);
        let timer = create(
            "held back",
            CLOCK_MONOTONIC,
            libc::SIGEV_SIGNAL,
            libc::SIGURG,
            0,
        );
        set_timer(timer, 0, &EVERY);
        libc::usleep(50_000);
        println!("{} {}", wait_for(&held), overrun(timer) > 10);
        set_timer(timer, 0, &NEVER);
        libc::signal(QUEUED, libc::SIG_IGN);
        let timer = create("ignored", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
        set_timer(timer, 0, &EVERY);
        libc::usleep(50_000);
        let held = blocked(&[QUEUED]);
        libc::signal(QUEUED, libc::SIG_DFL);
        println!("{} {}", wait_for(&held), overrun(timer) > 10);
        set_timer(timer, 0, &NEVER);
        // The machine's clock may start in 1970.
        libc::clock_settime(CLOCK_REALTIME, &after(time_of_day(), 1000));
        let held = blocked(&[QUEUED + 1]);
        let long_ago = libc::itimerspec {
            it_interval: ONCE.it_value,
            it_value: ONCE.it_value,
        };
        let timer = create(
            "since 1970",
            CLOCK_REALTIME,
            libc::SIGEV_SIGNAL,
            QUEUED + 1,
            0,
        );
        set_timer(timer, TIMER_ABSTIME, &long_ago);
        println!("{} {}", wait_for(&held), overrun(timer) == i32::MAX.into());
        set_timer(timer, 0, &NEVER);
        libc::clock_settime(CLOCK_REALTIME, &after(time_of_day(), -1000));
        let held = blocked(&[libc::SIGUSR1]);
        for what in ["one", "another of the same signal"] {
            let timer = create(what, CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, libc::SIGUSR1, 0);
            set_timer(timer, 0, &ONCE);
        }
        libc::usleep(50_000);
        println!("{} {}", wait_for(&held), wait_for(&held));
    }
}

/// A forged signal of a timer carries what the program wrote, and does not restart the timer.
unsafe fn forged() {
    unsafe {
        let own = blocked(&[QUEUED]);
        let held = blocked(&[QUEUED, libc::SIGUSR2]);
        let mut other: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut other, libc::SIGUSR2);
        let timer = create("forged", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
        libc::sigprocmask(libc::SIG_BLOCK, &held, std::ptr::null_mut());
        set_timer(timer, 0, &EVERY);
        libc::usleep(50_000);
        // Number, error, code (SI_TIMER), padding, timer, overruns.
        let mut forged = [0i32; 32];
        [forged[2], forged[4], forged[5]] = [-2, timer, -7];
        let pid = libc::getpid();
        let sent = libc::syscall(libc::SYS_rt_sigqueueinfo, pid, libc::SIGUSR2, &forged);
        let mut told = [0i32; 32];
        let info = told.as_mut_ptr().cast();
        println!("{sent} {}", libc::sigwaitinfo(&other, info));
        println!("{} {} {}", told[2], told[4] == timer, told[5]);
        println!("{} {}", libc::sigwaitinfo(&own, info), told[2]);
    }
}

/// Timer IDs are not reused at once, and each timer counts as a pending signal of its user.
unsafe fn numbers() {
    unsafe {
        let make = |what: &str| create(what, CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
        let delete = |timer: c_int| libc::syscall(libc::SYS_timer_delete, timer);
        let timers = [make("one"), make("another")];
        println!("{timers:?}");
        tell("deleted", delete(timers[0]));
        println!("{}", make("a third"));
        let few = libc::rlimit {
            rlim_cur: 3,
            rlim_max: 3,
        };
        libc::setrlimit(libc::RLIMIT_SIGPENDING, &few);
        libc::setuid(12345);
        let three = [(); 3].map(|()| make("of a user"));
        make("too many");
        blocked(&[QUEUED]);
        let value = mem::zeroed();
        let send = || libc::sigqueue(libc::getpid(), QUEUED, value);
        tell("nor a signal", send());
        tell("deleted", delete(three[1]));
        tell("a signal", send());
        make("nor a timer");
    }
}

/// An ordinary user may not use clocks whose timers wake the machine.
unsafe fn alarms() {
    unsafe {
        let file = libc::timerfd_create(libc::CLOCK_REALTIME_ALARM, 0);
        tell_ok("root's", file >= 0);
        libc::setresuid(1000, 1000, 1000);
        tell(
            "settime",
            libc::timerfd_settime(file, 0, &EVERY, ptr::null_mut()),
        );
        for clock in [libc::CLOCK_REALTIME_ALARM, libc::CLOCK_BOOTTIME_ALARM] {
            tell("descriptor", libc::timerfd_create(clock, 0));
            create("timer", clock, libc::SIGEV_NONE, 0, 0);
            let span = EVERY.it_value;
            tell(
                "sleep",
                libc::clock_nanosleep(clock, 0, &span, ptr::null_mut()),
            );
        }
    }
}
