//! System calls on time.

use linux_raw_sys::general::*;

use super::futex;
use super::layout::{Layout, given};
use super::path::check_flags;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::clock::{self, Deadline, SECOND, Wall};
use crate::task::futex::Wanted;
use crate::task::thread::{PutTime, Restart};
use crate::task::wait_queue::{sleep_until, sleep_with_slack};
use crate::task::{Process, Thread, current, pid_table, require};
use alloc::sync::Arc;

/// Seconds and a fraction, as in `struct timespec` and `struct timeval`.
pub type Pair = [i64; 2];

/// Converts a `struct timespec` to nanoseconds.
///
/// # Errors
/// EINVAL.
pub fn nanoseconds([seconds, part]: Pair) -> Result<u64> {
    if seconds < 0 || !(0..SECOND as i64).contains(&part) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(SECOND)
        .saturating_add(part as u64))
}

/// Converts nanoseconds to a `struct timespec`.
pub fn timespec(ns: u64) -> Pair {
    [(ns / SECOND) as i64, (ns % SECOND) as i64]
}

/// Reads a `struct timespec`, if the address is not null, in ns.
///
/// # Errors
/// EFAULT, EINVAL.
pub fn read_time<L: Layout>(address: usize) -> Result<Option<u64>> {
    given(address, L::time)?.map(nanoseconds).transpose()
}

/// The deadline of a time in ns on CLOCK_REALTIME or CLOCK_MONOTONIC.
pub fn deadline_on(realtime: bool, ns: u64) -> Deadline {
    if realtime {
        Deadline::TimeOfDay(ns)
    } else {
        Deadline::Ticks(clock::monotonic_deadline(ns))
    }
}

/// nanosleep(2)
pub fn nanosleep<L: Layout>(span: usize, remaining: usize) -> Result<usize> {
    let ns = read_time::<L>(span)?.ok_or(Errno::EFAULT)?;
    sleep(clock::deadline_in(ns), remaining, L::put_time)
}

/// Sleeps; if a signal interrupts the sleep, it is restarted for the remaining time.
fn sleep(deadline: u64, remaining: usize, put_time: PutTime) -> Result<usize> {
    if sleep_with_slack(deadline, current().slack_ticks()).is_ok() {
        return Ok(0);
    }
    let left = time::ticks_to_ns(deadline.saturating_sub(time::now_ticks()));
    given(remaining, |remaining| put_time(remaining, timespec(left)))?;
    current().own.with(|own| {
        own.restart = Restart::Sleep {
            deadline,
            remaining,
            put_time,
        }
    });
    Err(Errno::ERESTART_RESTARTBLOCK)
}

/// clock_nanosleep(2)
pub fn clock_nanosleep<L: Layout>(
    clock: u32,
    flags: u32,
    span: usize,
    remaining: usize,
) -> Result<usize> {
    let wall = match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => Wall::Realtime,
        CLOCK_TAI => Wall::Tai,
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => Wall::Monotonic,
        CLOCK_THREAD_CPUTIME_ID
        | CLOCK_MONOTONIC_RAW
        | CLOCK_MONOTONIC_COARSE
        | CLOCK_REALTIME_COARSE => return Err(Errno::EOPNOTSUPP),
        _ => {
            if clock as i32 >= 0 {
                CpuClock::of(clock)?;
            }
            let ns = read_time::<L>(span)?.ok_or(Errno::EFAULT)?;
            let clock = CpuClock::of(clock)?;
            return sleep_by(&clock, flags, ns, remaining, L::put_time);
        }
    };
    let ns = read_time::<L>(span)?.ok_or(Errno::EFAULT)?;
    if clock::is_alarm(clock) {
        check_flags(flags, TIMER_ABSTIME)?;
        clock::check_alarm(clock)?;
    }
    if flags & TIMER_ABSTIME == 0 {
        return sleep(clock::deadline_in(ns), remaining, L::put_time);
    }
    let slept = match wall {
        Wall::Monotonic => sleep_with_slack(clock::monotonic_deadline(ns), current().slack_ticks()),
        Wall::Realtime => clock::sleep_until_time(Deadline::TimeOfDay(ns))?,
        Wall::Tai => clock::sleep_until_time(Deadline::Tai(ns))?,
    };
    slept.map(|()| 0).map_err(|_| Errno::ERESTARTNOHAND)
}

/// Sleeps for `ns` of a CPU clock, or until it shows that time.
fn sleep_by(
    clock: &CpuClock,
    flags: u32,
    ns: u64,
    remaining: usize,
    put_time: PutTime,
) -> Result<usize> {
    let absolute = flags & TIMER_ABSTIME != 0;
    let start = if absolute { 0 } else { clock.ticks() };
    match clock.wait(start.saturating_add(time::ns_to_ticks(ns)))? {
        None => return Ok(0),
        Some(_) if absolute => {}
        Some(left) => {
            let left = timespec(time::ticks_to_ns(left));
            given(remaining, |remaining| put_time(remaining, left))?;
        }
    }
    Err(Errno::ERESTARTNOHAND)
}

/// restart_syscall(2)
pub fn restart_syscall() -> Result<usize> {
    match current()
        .own
        .with(|own| core::mem::replace(&mut own.restart, Restart::None))
    {
        Restart::None => Err(Errno::EINTR),
        Restart::Sleep {
            deadline,
            remaining,
            put_time,
        } => sleep(deadline, remaining, put_time),
        Restart::Futex {
            address,
            value,
            bits,
            shared,
            deadline,
        } => futex::restart_wait(
            Wanted {
                address,
                value,
                bits,
                shared,
            },
            deadline,
        ),
    }
}

/// The time of a clock, in ns.
fn read_clock(clock: u32) -> Result<u64> {
    Ok(match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_REALTIME_ALARM => clock::realtime_ns(),
        CLOCK_TAI => clock::tai_ns(),
        CLOCK_MONOTONIC
        | CLOCK_MONOTONIC_RAW
        | CLOCK_MONOTONIC_COARSE
        | CLOCK_BOOTTIME
        | CLOCK_BOOTTIME_ALARM => clock::monotonic_ns(),
        _ => time::ticks_to_ns(CpuClock::of(clock)?.ticks()),
    })
}

/// The clock of user CPU time.
const CPUCLOCK_VIRT: i32 = 1;

/// A CPU-time clock, and whether it only counts user time.
pub enum CpuClock {
    /// A thread's clock.
    Thread(Arc<Thread>, bool),
    /// A process's clock.
    Process(Arc<Process>, bool),
}

impl CpuClock {
    /// The clock of a number: the caller's, or one with an inverted and shifted process or thread
    /// number, and CPUCLOCK_* in the low bits.
    ///
    /// # Errors
    /// EINVAL.
    pub fn of(clock: u32) -> Result<CpuClock> {
        let clock = match clock {
            CLOCK_PROCESS_CPUTIME_ID => !0 << 3 | 2,
            CLOCK_THREAD_CPUTIME_ID => !0 << 3 | 6,
            _ => clock as i32,
        };
        let (id, kind) = (!(clock >> 3), clock & 7);
        if clock >= 0 || kind & 3 == 3 || id < 0 {
            return Err(Errno::EINVAL);
        }
        let own = current();
        let user = kind & 3 == CPUCLOCK_VIRT;
        if kind & 4 != 0 {
            let thread = pid_table::thread(if id == 0 { own.tid() } else { id });
            let thread = thread.filter(|thread| thread.process_id() == own.process_id());
            Ok(CpuClock::Thread(thread.ok_or(Errno::EINVAL)?, user))
        } else {
            let process = pid_table::process(if id == 0 { own.process_id() } else { id });
            Ok(CpuClock::Process(process.ok_or(Errno::EINVAL)?, user))
        }
    }

    /// Its time, in ticks.
    fn ticks(&self) -> u64 {
        match self {
            CpuClock::Thread(thread, true) => thread.times().user,
            CpuClock::Thread(thread, false) => thread.cpu_time(),
            CpuClock::Process(process, true) => process.times().user,
            CpuClock::Process(process, false) => process.usage().ticks,
        }
    }

    /// Sleeps until the clock shows `end` ticks; returns the remaining ticks if a signal
    /// interrupted it.
    ///
    /// # Errors
    /// EINVAL (a thread cannot wait for its own CPU time).
    fn wait(&self, end: u64) -> Result<Option<u64>> {
        let CpuClock::Process(process, _) = self else {
            return Err(Errno::EINVAL);
        };
        loop {
            let left = end.saturating_sub(self.ticks());
            if left == 0 {
                return Ok(None);
            }
            // Elapsed time is never less than CPU time of a single thread. The checks are at least
            // 100 us apart.
            let threads = process.threads().len().max(1) as u64;
            let span = (left / threads).max(time::ns_to_ticks(100_000));
            if sleep_until(time::now_ticks().saturating_add(span)).is_err() {
                return Ok(Some(end.saturating_sub(self.ticks())));
            }
        }
    }
}

/// clock_gettime(2)
pub fn clock_gettime<L: Layout>(clock: u32, to: usize) -> Result<usize> {
    L::put_time(to, timespec(read_clock(clock)?))?;
    Ok(0)
}

/// clock_getres(2)
pub fn clock_getres<L: Layout>(clock: u32, to: usize) -> Result<usize> {
    read_clock(clock)?;
    let coarse = matches!(clock, CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE);
    given(to, |to| {
        L::put_time(to, [0, if coarse { COARSE } else { 1 }])
    })?;
    Ok(0)
}

/// The coarse clocks' resolution on Linux with 250 ticks a second, in ns.
const COARSE: i64 = 4_000_000;

/// clock_settime(2)
pub fn clock_settime<L: Layout>(clock: u32, from: usize) -> Result<usize> {
    if clock != CLOCK_REALTIME {
        let counts = (clock as i32) < 0 && CpuClock::of(clock).is_ok();
        return Err(if counts { Errno::EPERM } else { Errno::EINVAL });
    }
    let ns = read_time::<L>(from)?.ok_or(Errno::EFAULT)?;
    if ns >= clock::LATEST {
        return Err(Errno::EINVAL);
    }
    require(CAP_SYS_TIME)?;
    clock::set_realtime(ns)?;
    Ok(0)
}

/// gettimeofday(2)
pub fn gettimeofday<L: Layout>(to: usize, zone: usize) -> Result<usize> {
    let [seconds, ns] = timespec(clock::realtime_ns());
    given(to, |to| L::put_time(to, [seconds, ns / 1000]))?;
    let current = *ZONE.lock();
    UserPtr::new(zone).write_opt(&current.unwrap_or_default())?;
    Ok(0)
}

/// The farthest time zones from Greenwich, in minutes.
const MOST_WEST: i32 = 15 * 60;

/// The time zone, once it was set: minutes west of Greenwich, and a kind of daylight saving time.
static ZONE: Mutex<Option<[i32; 2]>> = Mutex::new(None);

/// settimeofday(2). As on Linux, the first time zone without a time moves the clock by it.
pub fn settimeofday<L: Layout>(from: usize, zone: usize) -> Result<usize> {
    let time = given(from, L::time)?;
    if time.is_some_and(|[_, us]| !(0..1_000_000).contains(&us)) {
        return Err(Errno::EINVAL);
    }
    let zone = UserPtr::<[i32; 2]>::new(zone).read_opt()?;
    let ns = time.map(|[seconds, us]| nanoseconds([seconds, us * 1000]));
    let ns = ns.transpose()?;
    if ns.is_some_and(|ns| ns >= clock::LATEST) {
        return Err(Errno::EINVAL);
    }
    require(CAP_SYS_TIME)?;
    if zone.is_some_and(|[west, _]| !(-MOST_WEST..=MOST_WEST).contains(&west)) {
        return Err(Errno::EINVAL);
    }
    let first = zone.is_some_and(|zone| ZONE.lock().replace(zone).is_none());
    match (ns, zone) {
        (Some(ns), _) => clock::set_realtime(ns)?,
        // The hardware's clock was in local time.
        (None, Some([west, _])) if first && west != 0 => {
            let ahead = i64::from(west) * 60 * SECOND as i64;
            _ = clock::set_realtime(clock::realtime_ns().saturating_add_signed(ahead));
        }
        _ => {}
    }
    Ok(0)
}
