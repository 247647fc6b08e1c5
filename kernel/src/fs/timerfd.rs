//! timerfd: a timer whose expirations are read.

use super::file::{File, FileOps, OpenFlags};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::timer::{Expire, Timer};
use alloc::sync::Arc;
use linux_raw_sys::general::{CLOCK_BOOTTIME, CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC};
use linux_raw_sys::general::{CLOCK_REALTIME, CLOCK_REALTIME_ALARM, O_RDWR, TFD_NONBLOCK};

/// A setting: ns to the first expiration (0: never), and between those after it (0: none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// To the first.
    pub first: u64,
    /// Between the others.
    pub interval: u64,
}

#[derive(Default)]
struct State {
    armed: Option<Timer>,
    /// When it expires next, in ticks.
    deadline: u64,
    /// In ns.
    interval: u64,
    expirations: u64,
}

struct Shared {
    realtime: bool,
    state: Mutex<State>,
    changed: Arc<WaitSource>,
}

impl Expire for Shared {
    fn expire(self: Arc<Self>) {
        let spent = {
            let mut state = self.state.lock();
            let now = time::now_ticks();
            if state.armed.is_none() || now < state.deadline {
                return;
            }
            let mut next = None;
            state.expirations += 1;
            if state.interval > 0 {
                let late = time::ticks_to_ns(now - state.deadline) / state.interval;
                state.expirations += late;
                state.deadline += time::ns_to_ticks(state.interval.saturating_mul(late + 1));
                next = Timer::call(state.deadline, self.clone()).ok();
            }
            core::mem::replace(&mut state.armed, next)
        };
        drop(spent);
        self.changed.notify();
    }
}

/// The timer of an open file: disarmed when that is closed.
pub struct TimerFd(Arc<Shared>);

/// A new timer on one of Linux's clocks, with the flags of timerfd_create.
pub fn new(clock: u32, flags: u32) -> Result<Arc<File>> {
    let realtime = match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => true,
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => false,
        _ => return Err(Errno::EINVAL),
    };
    let state = Mutex::new(State::default());
    let shared = try_arc(Shared {
        realtime,
        state,
        changed: WaitSource::new()?,
    })?;
    super::anonymous::file(
        "[timerfd]",
        try_arc(TimerFd(shared))?,
        OpenFlags(O_RDWR | flags & TFD_NONBLOCK),
    )
}

impl TimerFd {
    /// Sets the timer and returns what it was set to; `absolute`: the first expiration is a time of its clock.
    pub fn set(&self, setting: Setting, absolute: bool) -> Result<Setting> {
        let deadline = match (absolute, self.0.realtime) {
            (false, _) => clock::deadline_in(setting.first),
            (true, true) => clock::realtime_deadline(setting.first),
            (true, false) => clock::monotonic_deadline(setting.first),
        };
        let timer = match setting.first {
            0 => None,
            _ => Some(Timer::call(deadline, self.0.clone())?),
        };
        let old = self.get();
        let mut state = self.0.state.lock();
        let fresh = State {
            armed: timer,
            deadline,
            interval: setting.interval,
            expirations: 0,
        };
        let spent = core::mem::replace(&mut *state, fresh);
        drop(state);
        drop(spent);
        Ok(old)
    }

    /// What is left to the next expiration, and the interval.
    pub fn get(&self) -> Setting {
        let state = self.0.state.lock();
        let left = state.deadline.saturating_sub(time::now_ticks());
        let first = if state.armed.is_some() {
            time::ticks_to_ns(left).max(1)
        } else {
            0
        };
        Setting {
            first,
            interval: state.interval,
        }
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        let armed = self.0.state.lock().armed.take();
        drop(armed);
    }
}

impl FileOps for TimerFd {
    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        if to.left() < 8 {
            return Err(Errno::EINVAL);
        }
        loop {
            let expirations = core::mem::take(&mut self.0.state.lock().expirations);
            if expirations > 0 {
                return to.put(&expirations.to_ne_bytes());
            }
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.0
                .changed
                .wait(|| self.0.state.lock().expirations > 0)?;
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.0.state.lock().expirations > 0);
        events
    }
}
