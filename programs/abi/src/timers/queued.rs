//! The pending signal of a timer: there is one at most, which the timer's owner has paid for.

use super::*;

/// A user whose limits count nobody else's signals.
const USER: u32 = 1003;
/// The number of settings that expire before the signal is taken.
const SETTINGS: usize = 50;
const HOUR: i64 = 3600;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (what, signal) in [("real-time", QUEUED), ("ordinary", libc::SIGUSR1)] {
            println!("{what}:");
            tell_end("set again", in_child(|| set_again(signal)));
            tell_end("deleted", in_child(|| deleted(signal)));
        }
        tell_end("periodic", in_child(|| periodic()));
        tell_end("two timers", in_child(|| two()));
        tell_end("paid for", in_child(|| paid_for()));
        tell_end("another program", in_child(|| executed()));
    }
}

/// A timer for the current thread, whose signal is blocked.
unsafe fn blocked_timer(signal: c_int) -> (c_int, libc::sigset_t) {
    unsafe {
        let waits = blocked(&[signal]);
        let own = libc::syscall(libc::SYS_gettid) as c_int;
        (create("timer", CLOCK_MONOTONIC, 4, signal, own), waits)
    }
}

/// Lets a timer expire once.
unsafe fn expire(timer: c_int) {
    unsafe {
        set(timer, TIMER_ABSTIME, &ONCE);
        let mut left = ONCE;
        while left.it_value.tv_nsec != 0 {
            libc::syscall(libc::SYS_timer_gettime, timer, &mut left);
        }
    }
}

/// Takes all pending signals, and prints their overruns.
unsafe fn take(waits: &libc::sigset_t) {
    unsafe {
        let (mut info, now): (libc::siginfo_t, _) = (mem::zeroed(), NEVER.it_value);
        let mut count = 0;
        while libc::sigtimedwait(waits, &mut info, &now) > 0 {
            let words: [u32; 8] = *(&raw const info).cast();
            count += 1;
            if count < 4 {
                println!("code {} overrun {}", info.si_code, words[5]);
            }
        }
        println!("signals: {count}");
    }
}

/// The number of signals that are charged to the user.
fn charged() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:\t"));
    let (count, _) = line
        .and_then(|line| line.split_once('/'))
        .unwrap_or_default();
    count.to_string()
}

/// A timer is set again while its signal is pending.
unsafe fn set_again(signal: c_int) {
    unsafe {
        let (timer, waits) = blocked_timer(signal);
        (0..SETTINGS).for_each(|_| expire(timer));
        take(&waits);
        tell("overrun", libc::syscall(libc::SYS_timer_getoverrun, timer));
        expire(timer);
        take(&waits);
    }
}

/// The signal of a deleted timer remains.
unsafe fn deleted(signal: c_int) {
    unsafe {
        let (timer, waits) = blocked_timer(signal);
        expire(timer);
        expire(timer);
        tell("delete", libc::syscall(libc::SYS_timer_delete, timer));
        take(&waits);
    }
}

/// A periodic timer continues when the signal is taken that was pending before it was set.
unsafe fn periodic() {
    unsafe {
        let (timer, waits) = blocked_timer(QUEUED);
        expire(timer);
        let often = libc::itimerspec {
            it_interval: after(NEVER.it_value, HOUR * 1000),
            it_value: ONCE.it_value,
        };
        set(timer, 0, &often);
        libc::usleep(50_000);
        take(&waits);
        tell("overrun", libc::syscall(libc::SYS_timer_getoverrun, timer));
        let mut left = NEVER;
        libc::syscall(libc::SYS_timer_gettime, timer, &mut left);
        println!("continues: {}", left.it_value.tv_sec > HOUR / 2);
        // Set while its signal is pending, it does not continue by the old setting.
        set(timer, 0, &often);
        libc::usleep(50_000);
        set(timer, 0, &NEVER);
        take(&waits);
        libc::syscall(libc::SYS_timer_gettime, timer, &mut left);
        println!("continues: {}", left.it_value.tv_sec > 0);
    }
}

/// Two timers with the same signal have one each.
unsafe fn two() {
    unsafe {
        let (one, waits) = blocked_timer(libc::SIGUSR1);
        let (other, _) = blocked_timer(libc::SIGUSR1);
        expire(one);
        expire(other);
        expire(other);
        take(&waits);
    }
}

/// RLIMIT_SIGPENDING counts timers, and those that were deleted until their signal is taken.
unsafe fn paid_for() {
    const MOST: u64 = 8;
    unsafe {
        libc::setgid(USER);
        libc::setuid(USER);
        let few = libc::rlimit {
            rlim_cur: MOST,
            rlim_max: MOST,
        };
        libc::setrlimit(libc::RLIMIT_SIGPENDING, &few);
        let waits = blocked(&[QUEUED]);
        for _ in 0..=MOST {
            let timer = create("timer", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
            if timer >= 0 {
                expire(timer);
                libc::syscall(libc::SYS_timer_delete, timer);
            }
        }
        println!("charged: {}", charged());
        take(&waits);
        println!("charged: {}", charged());
        let timer = create("timer", CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, QUEUED, 0);
        expire(timer);
        println!("charged: {}", charged());
        libc::signal(QUEUED, libc::SIG_IGN);
        println!("charged: {}", charged());
        libc::syscall(libc::SYS_timer_delete, timer);
        println!("charged: {}", charged());
    }
}

/// Signals of timers do not survive execve(2), others do.
unsafe fn executed() {
    unsafe {
        blocked(&[QUEUED, libc::SIGUSR1, libc::SIGUSR2]);
        for signal in [QUEUED, libc::SIGUSR1] {
            let (timer, _) = blocked_timer(signal);
            expire(timer);
            expire(create(
                "timer",
                CLOCK_MONOTONIC,
                libc::SIGEV_SIGNAL,
                signal,
                0,
            ));
        }
        libc::kill(libc::getpid(), libc::SIGUSR2);
        libc::raise(QUEUED);
        let arguments = [c"grep", c"^S..Pnd", c"/proc/self/status"].map(|word| word.as_ptr());
        let arguments = [arguments[0], arguments[1], arguments[2], ptr::null()];
        libc::execvp(c"grep".as_ptr(), arguments.as_ptr());
    }
}
