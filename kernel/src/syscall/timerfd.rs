//! Timers as files.

use super::layout::{Layout, given};
use super::path::{check_flags, opened};
use super::time::{Pair, nanoseconds, timespec};
use crate::errno::{Errno, Result};
use crate::fs::timerfd::{self, Setting, TimerFd};
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

/// Converts to a `struct itimerspec`.
fn encode(setting: Setting) -> [Pair; 2] {
    [setting.interval, setting.first].map(timespec)
}

/// timerfd_settime(2)
pub fn timerfd_settime<L: Layout>(fd: i32, flags: u32, new: usize, old: usize) -> Result<usize> {
    check_flags(flags, abi::options::TIMERFD.mask() as u32)?;
    let [interval, first] = L::times(new)?;
    let setting = Setting {
        first: nanoseconds(first)?,
        interval: nanoseconds(interval)?,
    };
    let before = timer(fd)?.set(setting, flags)?;
    given(old, |old| L::put_times(old, &encode(before)))?;
    Ok(0)
}

/// timerfd_gettime(2)
pub fn timerfd_gettime<L: Layout>(fd: i32, to: usize) -> Result<usize> {
    L::put_times(to, &encode(timer(fd)?.get()))?;
    Ok(0)
}
