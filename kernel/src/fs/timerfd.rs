//! timerfd: a timer whose expirations are read.

use super::file::{File, FileOps, OpenFlags};
use super::generated::Text;
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::put;
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::timer::{Expire, Timer};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use linux_raw_sys::general::{CLOCK_BOOTTIME, CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC};
use linux_raw_sys::general::{CLOCK_REALTIME, CLOCK_REALTIME_ALARM, O_RDWR, TFD_NONBLOCK};
use linux_raw_sys::general::{TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET};

/// `TFD_IOC_SET_TICKS` (include/uapi/linux/timerfd.h): _IOW('T', 0, u64).
const TFD_IOC_SET_TICKS: u32 = 0x4008_5400;

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
    /// How it was set (TFD_TIMER_…).
    flags: u32,
    /// How often the time of day had been set before, where the timer is void once it is set again.
    valid_for: Option<u64>,
}

impl State {
    /// Whether the time of day was set since the timer was.
    fn is_cancelled(&self) -> bool {
        self.valid_for
            .is_some_and(|count| count != clock::times_set())
    }

    fn is_ready(&self) -> bool {
        self.expirations > 0 || self.is_cancelled()
    }
}

struct Shared {
    clock: u32,
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

/// Those that are void once the time of day is set.
static CANCELLABLE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The time of day was set.
pub fn time_was_set() {
    let mut all = CANCELLABLE.lock();
    all.retain(|timer| timer.strong_count() > 0);
    all.iter()
        .filter_map(Weak::upgrade)
        .for_each(|timer| timer.changed.notify());
}

/// The timer of an open file: disarmed when that is closed.
pub struct TimerFd(Arc<Shared>);

/// A new timer on one of Linux's clocks, with the flags of timerfd_create.
pub fn new(clock: u32, flags: u32) -> Result<Arc<File>> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => {}
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => {}
        _ => return Err(Errno::EINVAL),
    }
    let state = Mutex::new(State::default());
    let shared = try_arc(Shared {
        clock,
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
    /// Sets the timer and returns what it was set to; with TFD_TIMER_ABSTIME the first expiration is a time of its clock.
    pub fn set(&self, setting: Setting, flags: u32) -> Result<Setting> {
        let realtime = matches!(self.0.clock, CLOCK_REALTIME | CLOCK_REALTIME_ALARM);
        let absolute = flags & TFD_TIMER_ABSTIME != 0;
        let cancels = absolute && realtime && flags & TFD_TIMER_CANCEL_ON_SET != 0;
        if cancels {
            let mut all = CANCELLABLE.lock();
            let this = Arc::downgrade(&self.0);
            if !all.iter().any(|other| other.ptr_eq(&this)) {
                all.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                all.push(this);
            }
        }
        let deadline = match (absolute, realtime) {
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
            flags,
            valid_for: cancels.then(clock::times_set),
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
            let mut state = self.0.state.lock();
            if state.is_cancelled() {
                state.valid_for = Some(clock::times_set());
                return Err(Errno::ECANCELED);
            }
            let expirations = core::mem::take(&mut state.expirations);
            drop(state);
            if expirations > 0 {
                return to.put(&expirations.to_ne_bytes());
            }
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.0.changed.wait(|| self.0.state.lock().is_ready())?;
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.0.state.lock().is_ready());
        events
    }

    fn describe(&self, text: &mut Text) {
        let setting = self.get();
        let state = self.0.state.lock();
        let (clock, ticks, flags) = (self.0.clock, state.expirations, state.flags);
        put!(
            text,
            "clockid: {clock}\nticks: {ticks}\nsettime flags: 0{flags:o}\n"
        );
        for (name, ns) in [("value", setting.first), ("interval", setting.interval)] {
            let (seconds, rest) = (ns / clock::SECOND, ns % clock::SECOND);
            put!(text, "it_{name}: ({seconds}, {rest})\n");
        }
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if request != TFD_IOC_SET_TICKS {
            return Err(Errno::ENOTTY);
        }
        let ticks = UserPtr::<u64>::new(argument).read()?;
        if ticks == 0 {
            return Err(Errno::EINVAL);
        }
        self.0.state.lock().expirations = ticks;
        self.0.changed.notify();
        Ok(0)
    }
}
