//! System calls on timers that send signals.

use linux_raw_sys::general::*;

use super::layout::{Layout, given};
use super::time::{CpuClock, nanoseconds, timespec};
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::clock::{self, Wall};
use crate::task::itimer::{Base, Notice, Request, Setting};
use crate::task::{Thread, current, pid_table, signal};
use alloc::sync::{Arc, Weak};

type Spans = [[i64; 2]; 2];

/// Converts a `struct itimerval` or `itimerspec`, whose fractional parts are in units of `part` ns.
fn decode(spans: Spans, part: i64) -> Result<Setting> {
    let [interval, left] = spans;
    let ns = |[seconds, rest]: [i64; 2]| {
        nanoseconds([seconds, rest.checked_mul(part).ok_or(Errno::EINVAL)?])
    };
    Ok(Setting {
        left: ns(left)?,
        interval: ns(interval)?,
    })
}

fn encode(setting: Setting, part: i64) -> Spans {
    [setting.interval, setting.left].map(|span| {
        let [seconds, ns] = timespec(span);
        // A remaining time that is too short to show is shown as the shortest one.
        [seconds, (ns / part).max((span != 0 && seconds == 0) as i64)]
    })
}

/// setitimer(2)
pub fn setitimer<L: Layout>(which: u32, new: usize, old: usize) -> Result<usize> {
    let setting = match given(new, L::times)? {
        Some(spans) => decode(spans, 1000)?,
        None => Setting::default(),
    };
    let before = current()
        .process()
        .timers
        .interval(which)?
        .set(setting, false)?;
    given(old, |old| L::put_times(old, &encode(before, 1000)))?;
    Ok(0)
}

/// getitimer(2)
pub fn getitimer<L: Layout>(which: u32, to: usize) -> Result<usize> {
    let setting = current().process().timers.interval(which)?.get();
    L::put_times(to, &encode(setting, 1000))?;
    Ok(0)
}

/// `struct sigevent`, its first part: value, signal and kind, thread.
type Event = [u64; 3];

/// The CPU-time clocks of the caller's own process and thread, as clock IDs with a number
/// (MAKE_PROCESS_CPUCLOCK).
const OWN_PROCESS: i32 = -6;
const OWN_THREAD: i32 = -2;

/// timer_create(2)
pub fn timer_create<L: Layout>(clock: u32, event: usize, to: usize) -> Result<usize> {
    let base = match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => Base::Wall(Wall::Realtime),
        CLOCK_TAI => Base::Wall(Wall::Tai),
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => Base::Wall(Wall::Monotonic),
        CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_REALTIME_COARSE => {
            return Err(Errno::EOPNOTSUPP);
        }
        _ => match CpuClock::of(clock)? {
            CpuClock::Thread(thread, _) => Base::Thread(Arc::downgrade(&thread)),
            CpuClock::Process(process, _) => Base::Process(Arc::downgrade(&process)),
        },
    };
    let event = given(event, L::event)?;
    let request = |[value, rest, tid]: Event| Request {
        clock: match clock {
            CLOCK_PROCESS_CPUTIME_ID => OWN_PROCESS,
            CLOCK_THREAD_CPUTIME_ID => OWN_THREAD,
            clock => clock as i32,
        },
        kind: (rest >> 32) as u32,
        signal: rest as u32,
        value,
        tid: tid as i32,
    };
    let request = |id: i32| request(event.unwrap_or([id as u64, SIGALRM.into(), 0]));
    let thread = notified(&request(0))?;
    let notice = |request: Request| match request.kind {
        SIGEV_NONE => Notice::None,
        _ => Notice::Signal {
            number: request.signal,
            value: request.value,
            thread,
        },
    };
    let thread = current();
    let timers = &thread.process().timers;
    let id = timers.create(base, |id| (request(id), notice(request(id))))?;
    let written = UserPtr::new(to).write(&id);
    if let Err(error) = written.and_then(|()| clock::check_alarm(clock)) {
        timers.delete(id)?;
        return Err(error);
    }
    Ok(0)
}

/// The thread to notify, if it is a specific one; EINVAL if it does not exist.
fn notified(request: &Request) -> Result<Option<Weak<Thread>>> {
    let valid = (1..=signal::LAST).contains(&request.signal);
    match request.kind {
        SIGEV_NONE => Ok(None),
        SIGEV_SIGNAL | SIGEV_THREAD if valid => Ok(None),
        SIGEV_THREAD_ID if valid => {
            let own = |thread: &Arc<Thread>| thread.process_id() == current().process_id();
            let thread = pid_table::thread(request.tid).filter(own);
            Ok(Some(Arc::downgrade(&thread.ok_or(Errno::EINVAL)?)))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// timer_settime(2)
pub fn timer_settime<L: Layout>(id: i32, flags: u32, new: usize, old: usize) -> Result<usize> {
    let spans = given(new, L::times)?;
    let spans = spans.ok_or(Errno::EINVAL)?;
    let timer = current().process().timers.posix(id)?;
    let before = timer.set(decode(spans, 1)?, flags & TIMER_ABSTIME != 0)?;
    given(old, |old| L::put_times(old, &encode(before, 1)))?;
    Ok(0)
}

/// timer_gettime(2)
pub fn timer_gettime<L: Layout>(id: i32, to: usize) -> Result<usize> {
    let setting = current().process().timers.posix(id)?.get();
    L::put_times(to, &encode(setting, 1))?;
    Ok(0)
}

/// timer_getoverrun(2)
pub fn timer_getoverrun(id: i32) -> Result<usize> {
    Ok(current().process().timers.posix(id)?.overrun() as usize)
}

/// timer_delete(2)
pub fn timer_delete(id: i32) -> Result<usize> {
    current().process().timers.delete(id)?;
    Ok(0)
}
