//! timerfd: a timer whose expirations are read.

use super::file::{File, FileOps, OpenFlags};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::put;
use crate::sync::Mutex;
use crate::task::clock::{self, Follow, Following, Wall};
use crate::task::timer::{Expire, Timer};
use alloc::sync::{Arc, Weak};
use linux_raw_sys::general::{CLOCK_BOOTTIME, CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC};
use linux_raw_sys::general::{CLOCK_REALTIME, CLOCK_REALTIME_ALARM, O_RDWR, TFD_NONBLOCK};
use linux_raw_sys::general::{TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET};

/// `TFD_IOC_SET_TICKS` (include/uapi/linux/timerfd.h): _IOW('T', 0, u64).
const TFD_IOC_SET_TICKS: u32 = 0x4008_5400;

/// A setting: the ns to the first expiration (0: never), and between the later ones (0: none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The time to the first expiration.
    pub first: u64,
    /// The time between the others.
    pub interval: u64,
}

#[derive(Default)]
struct State {
    armed: Option<Timer>,
    /// The clock of `next`.
    wall: Wall,
    /// The next expiration, in ns; 0 for never.
    next: u64,
    /// In ns.
    interval: u64,
    /// Whether the timer expired since it was armed. It stays stopped until it is read: however
    /// short its interval, it costs one interrupt.
    expired: bool,
    expirations: u64,
    /// The flags with which it was set (TFD_TIMER_…).
    flags: u32,
    /// The number of times that the time of day had been set, if setting it again cancels the
    /// timer.
    valid_for: Option<u64>,
}

impl State {
    /// Whether the time of day was set after the timer.
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
    /// The registration for changes of the time of day.
    following: Following,
}

impl Shared {
    fn is_realtime(&self) -> bool {
        matches!(self.clock, CLOCK_REALTIME | CLOCK_REALTIME_ALARM)
    }

    fn arm(self: &Arc<Self>, state: &mut State) -> Result<()> {
        state.armed = match state.next {
            0 => None,
            next => Some(Timer::call(state.wall.deadline(next), self.clone())?),
        };
        Ok(())
    }

    /// Restarts a periodic timer after its past expirations; called when it is examined.
    fn rearm(self: &Arc<Self>, state: &mut State) {
        if state.expired && state.interval > 0 {
            let times = 1 + state.wall.now().saturating_sub(state.next) / state.interval;
            state.expirations = state.expirations.saturating_add(times - 1);
            state.next = state
                .next
                .saturating_add(times.saturating_mul(state.interval));
            state.expired = false;
            // Without memory the timer stops.
            _ = self.arm(state);
        }
    }
}

impl Expire for Shared {
    fn expire(self: Arc<Self>) {
        let mut state = self.state.lock();
        if state.armed.is_none() {
            return;
        }
        let spent = state.armed.take();
        if state.wall.now() < state.next {
            // The clock ran slower than it might have, or the timer was set again. Without memory
            // it stops.
            _ = self.arm(&mut state);
            drop(state);
            drop(spent);
            return;
        }
        state.expired = true;
        state.expirations = state.expirations.saturating_add(1);
        drop(state);
        drop(spent);
        self.changed.notify();
    }
}

impl Follow for Shared {
    fn time_was_set(self: Arc<Self>) {
        let mut state = self.state.lock();
        let mut stale = None;
        if state.wall == Wall::Realtime && state.armed.is_some() {
            stale = state.armed.take();
            // Without memory the timer stops.
            _ = self.arm(&mut state);
        }
        let cancelled = state.is_cancelled();
        drop(state);
        drop(stale);
        if cancelled {
            self.changed.notify();
        }
    }
}

/// The timer of an open file, which is disarmed when that is closed.
pub struct TimerFd(Arc<Shared>);

/// A new timer on one of Linux's clocks, with the flags of timerfd_create.
pub fn new(clock: u32, flags: u32) -> Result<Arc<File>> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => {}
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => {}
        _ => return Err(Errno::EINVAL),
    }
    clock::check_alarm(clock)?;
    let state = Mutex::new(State::default());
    let shared = try_arc(Shared {
        clock,
        state,
        changed: WaitSource::new()?,
        following: Following::new(),
    })?;
    super::anonymous::file(
        "[timerfd]",
        try_arc(TimerFd(shared))?,
        OpenFlags(O_RDWR | flags & TFD_NONBLOCK),
    )
}

impl TimerFd {
    /// Sets the timer and returns the old setting; with TFD_TIMER_ABSTIME the first expiration is a
    /// time of its clock.
    pub fn set(&self, setting: Setting, flags: u32) -> Result<Setting> {
        clock::check_alarm(self.0.clock)?;
        let follows = flags & TFD_TIMER_ABSTIME != 0 && self.0.is_realtime();
        if follows {
            let this: Weak<Shared> = Arc::downgrade(&self.0);
            self.0.following.begin(this)?;
        }
        let wall = if follows {
            Wall::Realtime
        } else {
            Wall::Monotonic
        };
        let start = match flags & TFD_TIMER_ABSTIME {
            0 if setting.first != 0 => wall.now(),
            _ => 0,
        };
        let cancels = follows && flags & TFD_TIMER_CANCEL_ON_SET != 0;
        let mut fresh = State {
            wall,
            next: start.saturating_add(setting.first),
            interval: setting.interval,
            flags,
            valid_for: cancels.then(clock::times_set),
            ..State::default()
        };
        let old = self.get();
        let mut state = self.0.state.lock();
        self.0.arm(&mut fresh)?;
        let spent = core::mem::replace(&mut *state, fresh);
        drop(state);
        drop(spent);
        Ok(old)
    }

    /// The time to the next expiration, and the interval.
    pub fn get(&self) -> Setting {
        let mut state = self.0.state.lock();
        self.0.rearm(&mut state);
        let first = match state.next {
            0 => 0,
            _ if state.expired => 0,
            next => next.saturating_sub(state.wall.now()).max(1),
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
    fn ignores_seeks(&self) -> bool {
        true
    }

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
            if state.expirations > 0 {
                self.0.rearm(&mut state);
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
        events.without_aliases()
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
