//! Clocks, sleeps and timers: they advance, never go back, and refuse invalid arguments.

use std::mem;
use std::ptr;

use libc::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW,
    CLOCK_PROCESS_CPUTIME_ID,
};
use libc::{
    CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_THREAD_CPUTIME_ID, TIMER_ABSTIME, timespec,
};

use crate::{in_child, tell, tell_end, tell_ok};

fn now(clock: libc::clockid_t) -> Option<i64> {
    // SAFETY: an all-zero timespec is a valid one, and it outlives the call.
    unsafe {
        let mut time: timespec = mem::zeroed();
        (libc::clock_gettime(clock, &mut time) == 0)
            .then(|| time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let clocks = [
            ("realtime", CLOCK_REALTIME),
            ("monotonic", CLOCK_MONOTONIC),
            ("raw", CLOCK_MONOTONIC_RAW),
            ("boot", CLOCK_BOOTTIME),
            ("process", CLOCK_PROCESS_CPUTIME_ID),
            ("thread", CLOCK_THREAD_CPUTIME_ID),
        ];
        for (name, clock) in clocks {
            let start = now(clock);
            let mut turns = 0u64;
            while now(clock) == start && turns < 100_000_000 {
                turns += 1;
            }
            println!("{name} goes on: {}", now(clock) > start);
        }
        for (name, clock) in [
            ("coarse", CLOCK_MONOTONIC_COARSE),
            ("real coarse", CLOCK_REALTIME_COARSE),
        ] {
            tell_ok(name, now(clock).is_some());
        }
        let mut time: timespec = mem::zeroed();
        tell(
            "an unknown clock",
            libc::syscall(libc::SYS_clock_gettime, 99, &mut time),
        );
        tell("resolution", libc::clock_getres(CLOCK_MONOTONIC, &mut time));
        println!("fine: {}", time.tv_sec == 0 && time.tv_nsec <= 4_000_000);
        let mut last = now(CLOCK_MONOTONIC);
        let steady = (0..100_000).all(|_| {
            let next = now(CLOCK_MONOTONIC);
            let forward = next >= last;
            last = next;
            forward
        });
        println!("never back: {steady}");
        println!(
            "after 2020: {}",
            now(CLOCK_REALTIME) > Some(1_577_836_800_000_000_000)
        );
        sleeps();
        timers();
        adjustments();
    }
}

unsafe fn sleeps() {
    unsafe {
        let nap = |seconds, nanoseconds| {
            let time = timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds,
            };
            libc::nanosleep(&time, ptr::null_mut())
        };
        let start = now(CLOCK_MONOTONIC);
        tell("nanosleep", nap(0, 30_000_000));
        let end = now(CLOCK_MONOTONIC);
        println!(
            "long enough: {}",
            start
                .zip(end)
                .is_some_and(|(start, end)| end - start >= 30_000_000)
        );
        tell("too many nanoseconds", nap(0, 1_000_000_000));
        tell("a negative time", nap(-1, 0));
        let until = timespec {
            tv_sec: 0,
            tv_nsec: 1,
        };
        println!(
            "until the past: {}",
            libc::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, ptr::null_mut())
        );
        println!(
            "by the thread's clock: {}",
            libc::clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &until, ptr::null_mut())
        );
        let mut usage: libc::rusage = mem::zeroed();
        tell("rusage", libc::getrusage(libc::RUSAGE_SELF, &mut usage));
        println!("memory was used: {}", usage.ru_maxrss > 0);
        let mut times: libc::tms = mem::zeroed();
        println!("times: {}", libc::times(&mut times) != -1);
    }
}

unsafe fn timers() {
    unsafe {
        let mut timer: libc::itimerval = mem::zeroed();
        timer.it_value.tv_sec = 1000;
        tell(
            "setitimer",
            libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()),
        );
        libc::getitimer(libc::ITIMER_REAL, &mut timer);
        println!(
            "about as long is left: {}",
            (990..=1000).contains(&timer.it_value.tv_sec)
        );
        println!("alarm tells what was left: {}", libc::alarm(0) >= 990);
        timer.it_value.tv_usec = 1_000_000;
        tell(
            "too many microseconds",
            libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()),
        );
        tell(
            "an unknown timer",
            libc::syscall(libc::SYS_setitimer, 9, &timer, ptr::null::<u8>()),
        );
        repeated();
    }
}

/// A POSIX timer stops while its signal is pending, and then reports its overruns.
unsafe fn repeated() {
    unsafe {
        let mut timer: libc::timer_t = ptr::null_mut();
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_signo = libc::SIGUSR1;
        tell(
            "create",
            libc::timer_create(CLOCK_MONOTONIC, &mut event, &mut timer),
        );
        let none = ptr::null::<libc::itimerspec>();
        tell(
            "no setting",
            libc::syscall(libc::SYS_timer_settime, timer as usize, 0, none, 0),
        );
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let mut setting: libc::itimerspec = mem::zeroed();
        setting.it_value.tv_nsec = 1;
        setting.it_interval.tv_nsec = 1;
        tell(
            "every ns",
            libc::timer_settime(timer, 0, &setting, ptr::null_mut()),
        );
        let wait = libc::timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        libc::nanosleep(&wait, ptr::null_mut());
        let mut left: libc::itimerspec = mem::zeroed();
        libc::timer_gettime(timer, &mut left);
        println!("it is set: {}", left.it_value.tv_nsec > 0);
        let mut info: libc::siginfo_t = mem::zeroed();
        tell("the signal", libc::sigwaitinfo(&set, &mut info));
        let missed = libc::timer_getoverrun(timer);
        println!("many were missed: {}", missed > 1000);
        let setting: libc::itimerspec = mem::zeroed();
        tell(
            "stop",
            libc::timer_settime(timer, 0, &setting, ptr::null_mut()),
        );
        let at_once = mem::zeroed::<libc::timespec>();
        while libc::sigtimedwait(&set, &mut info, &at_once) > 0 {}
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        let mut setting: libc::itimerspec = mem::zeroed();
        setting.it_value.tv_nsec = 1_000_000;
        setting.it_interval.tv_nsec = 1_000_000;
        tell(
            "nobody is told",
            libc::timer_settime(timer, 0, &setting, ptr::null_mut()),
        );
        libc::nanosleep(&wait, ptr::null_mut());
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        libc::signal(libc::SIGUSR1, libc::SIG_DFL);
        tell("told again", libc::sigwaitinfo(&set, &mut info));
        tell("delete", libc::timer_delete(timer));
    }
}

/// How many tens of seconds CLOCK_TAI is ahead of CLOCK_REALTIME, the result of a sleep until the
/// present time of CLOCK_TAI, and whether it took long.
unsafe fn ahead() -> String {
    unsafe {
        let now = |clock| {
            let mut time: libc::timespec = mem::zeroed();
            libc::clock_gettime(clock, &mut time);
            time
        };
        let (real, atomic) = (now(libc::CLOCK_REALTIME), now(libc::CLOCK_TAI));
        let seconds = atomic.tv_sec - real.tv_sec;
        // This time is over by CLOCK_TAI; by another clock this would wait for the difference.
        let slept = libc::clock_nanosleep(
            libc::CLOCK_TAI,
            libc::TIMER_ABSTIME,
            &atomic,
            ptr::null_mut(),
        );
        let waited = now(libc::CLOCK_REALTIME).tv_sec - real.tv_sec;
        format!("{} {slept} {}", (seconds + 5) / 10, waited > 20)
    }
}

/// A timer of CLOCK_TAI follows that clock when it is set.
unsafe fn atomic_timer(set_ahead: &dyn Fn(i64)) {
    unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut signals, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        set_ahead(100);
        let mut timer = ptr::null_mut();
        tell(
            "a timer of atomic time",
            libc::timer_create(libc::CLOCK_TAI, ptr::null_mut(), &mut timer),
        );
        let mut setting: libc::itimerspec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_TAI, &mut setting.it_value);
        setting.it_value.tv_sec += 50;
        tell(
            "in 50 s",
            libc::timer_settime(timer, libc::TIMER_ABSTIME, &setting, ptr::null_mut()),
        );
        let mut left: libc::itimerspec = mem::zeroed();
        libc::timer_gettime(timer, &mut left);
        println!("left: {}", (left.it_value.tv_sec + 5) / 10);
        set_ahead(200);
        let soon = libc::timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let told = libc::sigtimedwait(&signals, ptr::null_mut(), &soon);
        tell("it is past", told);
        libc::timer_delete(timer);
        set_ahead(0);
        libc::sigprocmask(libc::SIG_UNBLOCK, &signals, ptr::null_mut());
    }
}

/// Requests of a program that disciplines the clock.
unsafe fn adjustments() {
    unsafe {
        let adjust = |what: &str, modes: u32, change: &dyn Fn(&mut libc::timex)| {
            let mut asked: libc::timex = mem::zeroed();
            asked.modes = modes as _;
            change(&mut asked);
            tell(what, libc::adjtimex(&mut asked));
            asked
        };
        adjust("nobody keeps the time", libc::ADJ_STATUS, &|asked| {
            asked.status = libc::STA_UNSYNC
        });
        adjust("somebody does", libc::ADJ_STATUS, &|asked| {
            asked.status = libc::STA_PLL
        });
        let all = libc::ADJ_STATUS | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR;
        let told = adjust("errors", all, &|asked| {
            asked.status = libc::STA_PLL;
            (asked.maxerror, asked.esterror) = (1 << 40, 5)
        });
        println!("at most {}", told.maxerror);
        // Errors grow each second, and from a limit on the clock counts as unsynchronised.
        let smaller = libc::ADJ_STATUS | libc::ADJ_MAXERROR;
        adjust("a smaller one", smaller, &|asked| {
            asked.status = libc::STA_PLL;
            asked.maxerror = 1 << 20;
        });
        adjust("a frequency", libc::ADJ_FREQUENCY, &|asked| {
            asked.freq = -100
        });
        adjust("a constant", libc::ADJ_TIMECONST, &|asked| {
            asked.constant = 3
        });
        adjust("a tick", libc::ADJ_TICK, &|asked| asked.tick = 10_001);
        adjust("a tick too long", libc::ADJ_TICK, &|asked| {
            asked.tick = 11_001
        });
        let told = adjust("now", 0, &|_| ());
        println!(
            "errors {} {} frequency {} constant {} tick {} status {:#x}",
            told.maxerror >= 1 << 20,
            told.esterror,
            told.freq,
            told.constant,
            told.tick,
            told.status
        );
        adjust("half of adjtime", 0x8000, &|_| ());
        adjust("adjtime", libc::ADJ_OFFSET_SINGLESHOT, &|asked| {
            asked.offset = 0
        });
        let mut none: libc::timex = mem::zeroed();
        tell(
            "of another clock",
            libc::clock_adjtime(CLOCK_MONOTONIC, &mut none),
        );
        tell("of no clock", libc::clock_adjtime(99, &mut none));
        tell(
            "of a clock that is gone",
            libc::clock_adjtime(10, &mut none),
        );
        for tai in [37, -1, 100_001, 0] {
            let told = adjust("atomic time", libc::ADJ_TAI, &|asked| asked.constant = tai);
            println!("ahead by {}, {}", told.tai, ahead());
        }
        atomic_timer(&|seconds| {
            adjust("atomic time", libc::ADJ_TAI, &|asked| {
                asked.constant = seconds
            });
        });
        let status = in_child(|| {
            libc::setuid(1234);
            let mut asked: libc::timex = mem::zeroed();
            asked.modes = libc::ADJ_TICK as _;
            asked.tick = 10_000;
            tell("by a user", libc::adjtimex(&mut asked));
        });
        tell_end("the user", status);
        adjust(
            "as before",
            libc::ADJ_TICK | libc::ADJ_FREQUENCY,
            &|asked| asked.tick = 10_000,
        );
    }
}
