//! Armed timers, and pending signals.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, many, owned};

pub const ROWS: &[Row] = &[
    among(
        "timerfd_arm",
        10_000,
        arm,
        "a timerfd armed, disarmed by itself, among N armed",
    ),
    among(
        "timerfd_rearm",
        10_000,
        rearm,
        "a timerfd armed again among N armed",
    ),
    among(
        "timerfd_close",
        10_000,
        close,
        "a timerfd made, armed and closed among N armed",
    ),
    among(
        "timer_rearm",
        10_000,
        posix_rearm,
        "timer_settime among N armed POSIX timers",
    ),
    among(
        "timer_create",
        10_000,
        posix_create,
        "timer_create and timer_delete among N armed",
    ),
    among(
        "signals_queued",
        10_000,
        queued,
        "N signals queued and taken, by signal",
    ),
];

/// A time in the far future; by index these are in neither ascending nor descending order.
fn far(index: usize) -> libc::itimerspec {
    let at = libc::timespec {
        tv_sec: 10_000 + (index * 7_919 % 10_007) as i64,
        tv_nsec: 0,
    };
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    libc::itimerspec {
        it_interval: none,
        it_value: at,
    }
}

fn set(timer: &OwnedFd, time: &libc::itimerspec) -> Done {
    let old = ptr::null::<u8>();
    call!(
        SYS_timerfd_settime,
        timer.as_raw_fd(),
        0,
        &raw const *time,
        old
    )
    .map(drop)
}

fn timer(index: usize) -> io::Result<OwnedFd> {
    let timer = owned(call!(SYS_timerfd_create, libc::CLOCK_MONOTONIC, 0)?);
    set(&timer, &far(index))?;
    Ok(timer)
}

fn arm(meter: &mut Meter) -> Done {
    let _armed = many(meter.size(), timer)?;
    let one = timer(0)?;
    let mut never = far(0);
    never.it_value.tv_sec = 0;
    meter.repeat(EACH, |index| {
        set(&one, &never)?;
        set(&one, &far(index))
    })
}

fn rearm(meter: &mut Meter) -> Done {
    let _armed = many(meter.size(), timer)?;
    let one = timer(0)?;
    meter.repeat(EACH, |index| set(&one, &far(index)))
}

fn close(meter: &mut Meter) -> Done {
    let _armed = many(meter.size(), timer)?;
    meter.repeat(EACH, |index| timer(index).map(drop))
}

fn posix_set(timer: i32, index: usize) -> Done {
    let time = far(index);
    call!(SYS_timer_settime, timer, 0, &raw const time, 0).map(drop)
}

/// Creates an armed POSIX timer.
fn posix(index: usize) -> io::Result<i32> {
    let mut timer = 0i32;
    let event = ptr::null::<u8>();
    call!(
        SYS_timer_create,
        libc::CLOCK_MONOTONIC,
        event,
        &raw mut timer
    )?;
    posix_set(timer, index)?;
    Ok(timer)
}

fn posix_rearm(meter: &mut Meter) -> Done {
    many(meter.size(), posix)?;
    let one = posix(0)?;
    meter.repeat(EACH, |index| posix_set(one, index))
}

fn posix_create(meter: &mut Meter) -> Done {
    many(meter.size(), posix)?;
    meter.repeat(EACH, |index| {
        call!(SYS_timer_delete, posix(index)?).map(drop)
    })
}

fn queued(meter: &mut Meter) -> Done {
    let size = meter.size();
    let set = u64::MAX;
    let none = ptr::null::<u8>();
    call!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const set, none, 8)?;
    // A siginfo with only SI_QUEUE.
    let mut told = [0i32; 32];
    told[2] = -1;
    let (pid, signal) = (std::process::id(), 40);
    let wanted = 1u64 << (signal - 1);
    let at_once = [0i64; 2];
    meter.batches(
        size,
        || Ok(()),
        || {
            for _ in 0..size {
                call!(SYS_rt_sigqueueinfo, pid, signal, told.as_ptr())?;
            }
            for _ in 0..size {
                call!(
                    SYS_rt_sigtimedwait,
                    &raw const wanted,
                    none,
                    at_once.as_ptr(),
                    8
                )?;
            }
            Ok(())
        },
    )
}
