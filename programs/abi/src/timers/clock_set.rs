//! Waits until a time of day while the clock is set.

use super::*;

unsafe fn sleeps(until: &libc::timespec) -> c_int {
    unsafe { libc::clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, until, ptr::null_mut()) }
}

/// Whether a call ended otherwise than by a timeout.
fn is_other(result: c_long) -> c_int {
    let timed_out = result == -1 && crate::error() == "ETIMEDOUT";
    (!timed_out).into()
}

unsafe fn waits(until: &libc::timespec) -> c_int {
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
    let (word, nowhere, all) = (0u32, ptr::null::<u32>(), u32::MAX);
    is_other(unsafe { libc::syscall(libc::SYS_futex, &word, operation, 0, until, nowhere, all) })
}

unsafe fn receives(until: &libc::timespec) -> c_int {
    unsafe {
        let (name, flags) = (c"follows".as_ptr(), libc::O_CREAT | libc::O_RDWR);
        let attributes = ptr::null::<u8>();
        let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, attributes);
        libc::syscall(libc::SYS_mq_unlink, name);
        let (mut message, none) = ([0u8; 8192], ptr::null_mut::<u32>());
        let (at, len) = (message.as_mut_ptr(), message.len());
        let call = libc::SYS_mq_timedreceive;
        is_other(libc::syscall(call, queue, at, len, none, until))
    }
}

/// Waits until a time of day end when the clock is set beyond that time.
pub unsafe fn follows() {
    unsafe {
        let set = blocked(&[QUEUED]);
        let then = libc::itimerspec {
            it_value: after(time_of_day(), 100),
            ..NEVER
        };
        let none = ptr::null_mut();
        let file = libc::timerfd_create(CLOCK_REALTIME, 0);
        libc::timerfd_settime(file, libc::TFD_TIMER_ABSTIME, &then, none);
        let relative = libc::timerfd_create(CLOCK_REALTIME, 0);
        let later = libc::itimerspec {
            it_value: after(ONCE.it_value, 100),
            ..NEVER
        };
        libc::timerfd_settime(relative, 0, &later, none);
        let timer = create("timer", CLOCK_REALTIME, libc::SIGEV_SIGNAL, QUEUED, 0);
        set_timer(timer, TIMER_ABSTIME, &then);
        let sleepers = [sleeps, waits, receives].map(|sleeper| {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(sleeper(&then.it_value));
            }
            child
        });
        libc::usleep(100_000);
        libc::clock_settime(CLOCK_REALTIME, &after(time_of_day(), 200));
        let mut poll = [file, relative].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        tell("descriptor", libc::poll(&mut poll[0], 1, 20_000));
        tell("signal", wait_for(&set));
        for (what, child) in ["sleeper", "futex", "queue"].into_iter().zip(sleepers) {
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            println!("{what}: {}", libc::WEXITSTATUS(status) == 0);
        }
        tell("a span", libc::poll(&mut poll[1], 1, 0));
        libc::clock_settime(CLOCK_REALTIME, &after(time_of_day(), -200));
    }
}
