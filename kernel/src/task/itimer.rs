//! Timers that send signals: interval timers (setitimer) and POSIX timers (timer_create).

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use linux_raw_sys::general::{RLIMIT_CPU, SI_TIMER, SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU};

use super::limits::INFINITY;
use super::signal::{self, Info, Set};
use super::timer::{Expire, Timer};
use super::{Process, Thread, clock, current};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, Rank};

/// The most POSIX timers of a process.
const MOST: usize = 4096;
/// What passes between ticks of Linux's clock (at 250 Hz), in ns.
const TICK: u64 = 4_000_000;
/// `delaytimer_max`: what an overrun count stops at.
const MOST_OVERRUNS: u64 = i32::MAX as u64;

/// What a timer's time is.
#[derive(Clone)]
pub enum Base {
    /// Time that passes; whether absolute times are those of CLOCK_REALTIME.
    Wall { realtime: bool },
    /// CPU time of a process.
    Process(Weak<Process>),
    /// What of that of the timer's own process is its program's.
    User,
    /// CPU time of a thread.
    Thread(Weak<Thread>),
}

impl State {
    /// Goes on to the first expiry after `now`; returns how many there were until then.
    fn advance(&mut self, now: u64) -> u64 {
        let times = 1 + time::ticks_to_ns(now.saturating_sub(self.next)) / self.interval;
        self.next += ticks(times * self.interval);
        times
    }
}

/// Whom a timer tells.
#[derive(Clone)]
pub enum Notice {
    /// Nobody.
    None,
    /// The process, as the kernel does for setitimer.
    Interval(u32),
    /// The process, which used the CPU time that it may: it is warned each second, and killed at the hard limit.
    CpuLimit,
    /// The process, or a thread of it, by a signal with the timer's id and a value.
    Signal {
        number: u32,
        value: u64,
        thread: Option<Weak<Thread>>,
    },
}

#[derive(Default)]
struct State {
    /// When it expires next, in ticks of its base; 0 for never.
    next: u64,
    /// Nanoseconds between expiries, which may be less than a tick; 0 for only one.
    interval: u64,
    /// The overruns that the last delivered signal had.
    reported: u64,
    /// Whether a signal waits for delivery. Until then the timer rests: however short its interval, there is one signal.
    queued: bool,
    armed: Option<Timer>,
}

/// A timer.
pub struct SignalTimer {
    id: i32,
    process: Weak<Process>,
    base: Base,
    notice: Notice,
    state: Mutex<State>,
}

/// What a timer is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Ticks until it expires; 0 for never.
    pub left: u64,
    /// Nanoseconds between expiries; 0 for only one.
    pub interval: u64,
}

impl SignalTimer {
    fn new(id: i32, process: &Arc<Process>, base: Base, notice: Notice) -> Result<Arc<Self>> {
        let state = Mutex::ranked(Rank::Timers, State::default());
        try_arc(SignalTimer {
            id,
            process: Arc::downgrade(process),
            base,
            notice,
            state,
        })
    }

    /// The time of the timer's base, in ticks.
    fn now(&self) -> u64 {
        match &self.base {
            Base::Wall { .. } => time::now_ticks(),
            Base::Process(process) => process.upgrade().map_or(0, |process| process.usage().ticks),
            Base::User => self
                .process
                .upgrade()
                .map_or(0, |process| process.times().user),
            Base::Thread(thread) => thread.upgrade().map_or(0, |thread| thread.cpu_time()),
        }
    }

    /// When to look next, in ticks of the counter, for the timer to be at `next` of its base: time that passes is never
    /// less than CPU time of a single thread, and an early look does no harm.
    fn look_at(&self, next: u64) -> u64 {
        match &self.base {
            Base::Wall { .. } => next,
            _ => {
                let left = next.saturating_sub(self.now());
                let process = match &self.base {
                    Base::Process(process) => process,
                    _ => &self.process,
                };
                let threads = process
                    .upgrade()
                    .map_or(1, |process| process.threads().len().max(1));
                // At least 100 us apart.
                time::now_ticks() + (left / threads as u64).max(time::ns_to_ticks(100_000))
            }
        }
    }

    fn left(&self, state: &State) -> Setting {
        let now = self.now();
        let left = match state.next {
            0 => 0,
            next if next <= now && state.interval > 0 => {
                ticks(state.interval - time::ticks_to_ns(now - next) % state.interval)
            }
            next => next.saturating_sub(now).max(1),
        };
        Setting {
            left,
            interval: state.interval,
        }
    }

    /// What the timer is set to.
    pub fn get(&self) -> Setting {
        self.left(&self.state.lock())
    }

    /// Sets the timer; returns what it was set to. `absolute`: `left` is a time of the timer's base.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set(self: &Arc<Self>, new: Setting, absolute: bool) -> Result<Setting> {
        let mut state = self.state.lock();
        let old = self.left(&state);
        let stale = state.armed.take();
        *state = State {
            interval: new.interval,
            ..State::default()
        };
        if new.left != 0 {
            state.next = if absolute {
                new.left
            } else {
                self.now() + new.left
            };
            state.armed = Some(Timer::call(self.look_at(state.next), self.clone())?);
        }
        drop(state);
        drop(stale);
        Ok(old)
    }

    /// How often the timer expired beyond what the last signal told.
    pub fn overrun(&self) -> i32 {
        self.state.lock().reported.min(MOST_OVERRUNS) as i32
    }

    /// The time `ns` of the timer's clock as [`SignalTimer::set`] wants it.
    pub fn absolute(&self, ns: u64) -> u64 {
        match self.base {
            Base::Wall { realtime: true } => clock::realtime_deadline(ns),
            Base::Wall { realtime: false } => clock::monotonic_deadline(ns),
            _ => time::ns_to_ticks(ns),
        }
    }

    /// Looks again when the timer expires, but not before `earliest`; not while a signal waits.
    fn arm(self: &Arc<Self>, state: &mut State, earliest: u64) {
        if state.next != 0 && !state.queued {
            let at = self.look_at(state.next).max(earliest);
            // Without memory the timer stops.
            state.armed = Timer::call(at, self.clone()).ok();
        }
    }

    fn is_ignored(&self, number: u32) -> bool {
        self.process.upgrade().is_none_or(|process| {
            let ignored = process.signals.with_actions(|actions| actions.ignored());
            ignored & Set::bit(number) != 0
        })
    }

    fn tell(&self) -> Result<()> {
        let Some(process) = self.process.upgrade() else {
            return Ok(());
        };
        let (info, thread) = match &self.notice {
            Notice::None => return Ok(()),
            Notice::Interval(number) => (Info::kernel(*number), None),
            Notice::CpuLimit => {
                let hard = process
                    .limits
                    .get(RLIMIT_CPU)
                    .map_or(INFINITY, |limit| limit.hard);
                let ended = time::ticks_to_ns(self.now()) / clock::SECOND >= hard as u64;
                (Info::kernel(if ended { SIGKILL } else { SIGXCPU }), None)
            }
            Notice::Signal {
                number,
                value,
                thread,
            } => (
                Info::timer(*number, SI_TIMER, self.id, *value),
                thread.as_ref().map(Weak::upgrade),
            ),
        };
        match thread {
            Some(None) => Ok(()),
            Some(Some(thread)) => signal::send_info(&process, Some(&thread), info),
            None => signal::send_info(&process, None, info),
        }
    }
}

impl Expire for SignalTimer {
    fn expire(self: Arc<Self>) {
        let mut state = self.state.lock();
        let now = self.now();
        let stale = state.armed.take();
        let due = state.next != 0 && now >= state.next;
        let mut earliest = 0;
        if due {
            match self.notice {
                _ if state.interval == 0 => state.next = 0,
                Notice::Signal { number, .. } if !self.is_ignored(number) => state.queued = true,
                Notice::Signal { .. } => {
                    // Nobody is told: no more often than Linux's clock ticks.
                    state.advance(now);
                    earliest = time::now_ticks() + time::ns_to_ticks(TICK);
                }
                _ => _ = state.advance(now),
            }
        }
        self.arm(&mut state, earliest);
        drop(state);
        drop(stale);
        if due && self.tell().is_err() {
            // There was no room for a real-time signal: the next expiry tries again.
            let mut state = self.state.lock();
            if core::mem::take(&mut state.queued) {
                state.advance(now);
                self.arm(&mut state, time::now_ticks() + time::ns_to_ticks(TICK));
            }
        }
    }
}

/// The timers of a process.
pub struct Timers {
    interval: Mutex<[Option<Arc<SignalTimer>>; 3]>,
    posix: Mutex<Vec<Option<Arc<SignalTimer>>>>,
    cpu_limit: Mutex<Option<Arc<SignalTimer>>>,
}

impl Timers {
    /// None.
    pub const fn new() -> Self {
        Timers {
            interval: Mutex::new([const { None }; 3]),
            posix: Mutex::new(Vec::new()),
            cpu_limit: Mutex::new(None),
        }
    }

    /// The interval timer `which` (ITIMER_*) of the current process.
    ///
    /// # Errors
    /// EINVAL, ENOMEM.
    pub fn interval(&self, which: u32) -> Result<Arc<SignalTimer>> {
        let mut timers = self.interval.lock();
        let timer = timers.get_mut(which as usize).ok_or(Errno::EINVAL)?;
        if let Some(timer) = timer {
            return Ok(timer.clone());
        }
        let process = current().process();
        let (base, number) = match which {
            0 => (Base::Wall { realtime: false }, SIGALRM),
            1 => (Base::User, SIGVTALRM),
            _ => (Base::Process(Arc::downgrade(process)), SIGPROF),
        };
        let new = SignalTimer::new(0, process, base, Notice::Interval(number))?;
        Ok(timer.insert(new).clone())
    }

    /// RLIMIT_CPU of `process`, whose timers these are, is now as its limits say.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn limit_cpu(&self, process: &Arc<Process>) -> Result<()> {
        let seconds = process.limits.soft(RLIMIT_CPU);
        let mut limit = self.cpu_limit.lock();
        if seconds == INFINITY && limit.is_none() {
            return Ok(());
        }
        let timer = match &*limit {
            Some(timer) => timer.clone(),
            None => {
                let base = Base::Process(Arc::downgrade(process));
                let new = SignalTimer::new(0, process, base, Notice::CpuLimit)?;
                limit.insert(new).clone()
            }
        };
        drop(limit);
        let second = time::ns_to_ticks(clock::SECOND);
        let left = match seconds {
            INFINITY => 0,
            // As on Linux, no time at all is a second.
            seconds => (seconds as u64).clamp(1, u64::MAX / second) * second,
        };
        let interval = clock::SECOND;
        timer.set(Setting { left, interval }, true).map(drop)
    }

    /// Makes a POSIX timer of the current process; returns its id. `notice` gets the id.
    ///
    /// # Errors
    /// EAGAIN, ENOMEM.
    pub fn create(&self, base: Base, notice: impl FnOnce(i32) -> Notice) -> Result<i32> {
        let mut timers = self.posix.lock();
        let id = timers
            .iter()
            .position(Option::is_none)
            .unwrap_or(timers.len());
        if id >= MOST {
            return Err(Errno::EAGAIN);
        }
        let timer = SignalTimer::new(id as i32, current().process(), base, notice(id as i32))?;
        if id == timers.len() {
            timers.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            timers.push(None);
        }
        timers[id] = Some(timer);
        Ok(id as i32)
    }

    /// The POSIX timer `id`.
    ///
    /// # Errors
    /// EINVAL.
    pub fn posix(&self, id: i32) -> Result<Arc<SignalTimer>> {
        self.posix
            .lock()
            .get(id as usize)
            .and_then(Clone::clone)
            .ok_or(Errno::EINVAL)
    }

    /// Removes the POSIX timer `id`.
    ///
    /// # Errors
    /// EINVAL.
    pub fn delete(&self, id: i32) -> Result<()> {
        let gone = self
            .posix
            .lock()
            .get_mut(id as usize)
            .and_then(Option::take)
            .ok_or(Errno::EINVAL)?;
        gone.set(Setting::default(), false).map(|_| ())
    }

    /// Exec: POSIX timers go.
    pub(super) fn exec(&self) {
        let gone = core::mem::take(&mut *self.posix.lock());
        gone.into_iter().flatten().for_each(|timer| stop(&timer));
    }

    /// The process ends: all timers go.
    pub(super) fn clear(&self) {
        self.exec();
        let gone = core::mem::take(&mut *self.interval.lock());
        gone.into_iter().flatten().for_each(|timer| stop(&timer));
        let limit = self.cpu_limit.lock().take();
        limit.iter().for_each(stop);
    }
}

fn stop(timer: &Arc<SignalTimer>) {
    // Stopping needs no memory.
    _ = timer.set(Setting::default(), false);
}

/// The signal of a POSIX timer of the current process is delivered: it learns of the overruns.
pub(super) fn delivered(info: Info) -> Info {
    let Ok(timer) = current().process().timers.posix(info.timer_id()) else {
        return info;
    };
    let mut state = timer.state.lock();
    let repeats = core::mem::take(&mut state.queued) && state.interval > 0;
    state.reported = if repeats {
        state.advance(timer.now()) - 1
    } else {
        0
    };
    if repeats {
        timer.arm(&mut state, 0);
    }
    info.with_overrun(state.reported.min(MOST_OVERRUNS) as i32)
}

/// Ticks of a time span in ns, at least one if the span is not empty.
pub fn ticks(ns: u64) -> u64 {
    time::ns_to_ticks(ns).max((ns != 0) as u64)
}
