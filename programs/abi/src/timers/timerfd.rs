//! timerfd(2).

use super::*;

pub unsafe fn descriptors() {
    unsafe {
        tell(
            "no such clock",
            libc::timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0),
        );
        tell("odd flags", libc::timerfd_create(CLOCK_MONOTONIC, 1));
        let file = libc::timerfd_create(CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        let mut count = 0u64;
        let at = (&raw mut count).cast();
        tell("not set", libc::read(file, at, 8) as i64);
        tell("too little", libc::read(file, at, 7) as i64);
        tell("write", libc::write(file, at, 8) as i64);
        tell(
            "set",
            libc::timerfd_settime(file, 0, &ONCE, ptr::null_mut()),
        );
        let mut poll = libc::pollfd {
            fd: file,
            events: libc::POLLIN,
            revents: 0,
        };
        tell("ready", libc::poll(&mut poll, 1, -1));
        tell("read", libc::read(file, at, 8) as i64);
        println!("{count}");
        tell(
            "every",
            libc::timerfd_settime(file, 0, &EVERY, ptr::null_mut()),
        );
        let mut left = NEVER;
        tell("left", libc::timerfd_gettime(file, &mut left));
        println!(
            "{} {}",
            left.it_interval.tv_nsec,
            left.it_value.tv_nsec <= 1_000_000
        );
        tell(
            "odd flags",
            libc::timerfd_settime(file, 8, &ONCE, ptr::null_mut()),
        );
        let odd = libc::itimerspec {
            it_value: libc::timespec {
                tv_sec: 0,
                tv_nsec: 1 << 31,
            },
            ..NEVER
        };
        tell(
            "an odd time",
            libc::timerfd_settime(file, 0, &odd, ptr::null_mut()),
        );
        tell(
            "of another",
            libc::timerfd_settime(0, 0, &ONCE, ptr::null_mut()),
        );
        tell("of nothing", libc::timerfd_gettime(99, &mut left));
        tell("stop", libc::timerfd_settime(file, 0, &NEVER, &mut left));
        println!("{}", left.it_interval.tv_nsec);
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{file}")).unwrap_or_default();
        for line in info
            .lines()
            .filter(|line| !line.starts_with("ino") && !line.starts_with("mnt_id"))
        {
            println!("{line}");
        }
        tell("set ticks", libc::ioctl(file, 0x4008_5400, &7u64));
        tell("read", libc::read(file, at, 8) as i64);
        println!("{count}");
    }
}

/// A change of the time of day cancels timers with TFD_TIMER_CANCEL_ON_SET.
pub unsafe fn cancelled() {
    unsafe {
        let file = libc::timerfd_create(CLOCK_REALTIME, libc::TFD_NONBLOCK);
        let far = libc::itimerspec {
            it_value: libc::timespec {
                tv_sec: 1 << 40,
                tv_nsec: 0,
            },
            ..NEVER
        };
        let cancel = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        tell(
            "set",
            libc::timerfd_settime(file, cancel, &far, ptr::null_mut()),
        );
        let mut poll = libc::pollfd {
            fd: file,
            events: libc::POLLIN,
            revents: 0,
        };
        tell("ready", libc::poll(&mut poll, 1, 0));
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(CLOCK_REALTIME, &mut now);
        tell("the time of day", libc::clock_settime(CLOCK_REALTIME, &now));
        tell("ready", libc::poll(&mut poll, 1, 0));
        let mut count = 0u64;
        tell("read", libc::read(file, (&raw mut count).cast(), 8) as i64);
        tell("once", libc::read(file, (&raw mut count).cast(), 8) as i64);
        tell(
            "set",
            libc::timerfd_settime(file, libc::TFD_TIMER_ABSTIME, &far, ptr::null_mut()),
        );
        libc::clock_gettime(CLOCK_REALTIME, &mut now);
        libc::clock_settime(CLOCK_REALTIME, &now);
        tell(
            "not asked for",
            libc::read(file, (&raw mut count).cast(), 8) as i64,
        );
    }
}
