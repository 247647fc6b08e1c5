//! Timers as files.

use super::path::{check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::timerfd::{self, Setting, TimerFd};
use crate::mm::user::UserPtr;
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::{TFD_CLOEXEC, TFD_NONBLOCK};

/// timerfd_create(2)
pub fn timerfd_create(clock: u32, flags: u32) -> Result<usize> {
    check_flags(flags, TFD_CLOEXEC | TFD_NONBLOCK)?;
    Ok(current()
        .files()
        .add(timerfd::new(clock, flags)?, flags & TFD_CLOEXEC != 0)? as usize)
}

fn timer(fd: i32) -> Result<Arc<TimerFd>> {
    opened(fd)?.ops_as::<TimerFd>().ok_or(Errno::EINVAL)
}

/// Nanoseconds of a `struct timespec`.
fn nanoseconds([seconds, nanoseconds]: [i64; 2]) -> Result<u64> {
    if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds as u64))
}

/// As a `struct itimerspec`.
fn encode(setting: Setting) -> [[u64; 2]; 2] {
    [setting.interval, setting.first].map(|ns| [ns / 1_000_000_000, ns % 1_000_000_000])
}

/// timerfd_settime(2)
pub fn timerfd_settime(fd: i32, flags: u32, new: usize, old: usize) -> Result<usize> {
    check_flags(flags, abi::options::TIMERFD.mask() as u32)?;
    let [interval, first] = UserPtr::<[[i64; 2]; 2]>::new(new).read()?;
    let setting = Setting {
        first: nanoseconds(first)?,
        interval: nanoseconds(interval)?,
    };
    let before = timer(fd)?.set(setting, flags)?;
    UserPtr::new(old).write_opt(&encode(before))?;
    Ok(0)
}

/// timerfd_gettime(2)
pub fn timerfd_gettime(fd: i32, to: usize) -> Result<usize> {
    UserPtr::new(to).write(&encode(timer(fd)?.get()))?;
    Ok(0)
}
