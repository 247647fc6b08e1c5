//! Timers that send signals: interval timers (setitimer) and POSIX timers (timer_create).

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering::*, fence};

use linux_raw_sys::general::{
    RLIMIT_CPU, RLIMIT_SIGPENDING, SI_TIMER, SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU,
};

use super::clock::{Follow, Following, Wall};
use super::limits::INFINITY;
use super::rusage::Usage;
use super::sched::cond_resched;
use super::signal::{self, Info, Slot, Turn};
use super::timer::{Expire, Timer};
use super::user::Charge;
use super::{Process, Thread, clock, current};
use crate::arch::work::CPU_TIMERS;
use crate::arch::{smp, time};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, MutexGuard};

/// The time between ticks of Linux's clock (at 250 Hz), in ns.
const TICK: u64 = 4_000_000;
/// `delaytimer_max`: the highest overrun count.
const MOST_OVERRUNS: u64 = i32::MAX as u64;

/// The clock that a timer counts.
#[derive(Clone)]
pub enum Base {
    /// Elapsed time; absolute times are those of this clock.
    Wall(Wall),
    /// CPU time of a process.
    Process(Weak<Process>),
    /// CPU time that the timer's own process spent in its program.
    User,
    /// CPU time of a thread.
    Thread(Weak<Thread>),
}

/// The request of timer_create(2), as `/proc/PID/timers` shows it.
#[derive(Clone, Copy)]
pub struct Request {
    /// CLOCK_*, or that of a process or thread.
    pub clock: i32,
    /// SIGEV_*.
    pub kind: u32,
    /// The signal and its value, also if none is sent.
    pub signal: u32,
    pub value: u64,
    /// The thread, with SIGEV_THREAD_ID.
    pub tid: i32,
}

/// The receiver of a timer's expirations.
#[derive(Clone)]
pub enum Notice {
    /// No receiver: the program only asks for the remaining time.
    None,
    /// The process, by a signal like those of setitimer.
    Interval(u32),
    /// The process, which has used up its CPU time: it is warned each second, and killed at the
    /// hard limit.
    CpuLimit,
    /// The process, or one of its threads, by a signal with the timer's id and a value.
    Signal {
        number: u32,
        value: u64,
        thread: Option<Weak<Thread>>,
    },
}

#[derive(Default)]
struct State {
    /// The next expiry, in ns of the timer's base; 0 for never.
    next: u64,
    /// Nanoseconds between expiries; 0 for a single one.
    interval: u64,
    /// The clock of `next`, if the base is elapsed time.
    wall: Wall,
    /// Expiries since the last signal (the overrun).
    ignored: u64,
    /// The overrun of the last delivered signal.
    reported: u64,
    /// Whether a signal is pending. Until it is delivered, the timer rests: however short its
    /// interval, there is one signal.
    queued: bool,
    armed: Option<Timer>,
    /// The time of its base at the last check.
    seen: u64,
    /// Nothing ran since then: the timer is not checked before a thread returns to its program.
    rests: bool,
    /// The number of checks in progress. The timer is not set meanwhile: a check may use the time
    /// of another clock, and no signal may be sent after the timer was set.
    looks: u32,
    /// The timer was deleted, or its owner has ended: it is never set again.
    ended: bool,
}

impl State {
    /// Advances to the first expiry after `now`; returns the number of expiries until then.
    fn advance(&mut self, now: u64) -> u64 {
        let times = 1 + now.saturating_sub(self.next) / self.interval;
        self.next = self
            .next
            .saturating_add(times.saturating_mul(self.interval));
        times
    }
}

/// A signal that a timer sends, and its receiver.
type Message = (Arc<Process>, Option<Arc<Thread>>, Info);

/// A timer.
pub struct SignalTimer {
    id: i32,
    process: Weak<Process>,
    base: Base,
    notice: Notice,
    state: Mutex<State>,
    turn: Turn,
    /// Whether it is on the list of resting timers; it may have been set again since.
    is_listed: AtomicBool,
    /// The registration for changes of the time of day.
    following: Following,
    /// The request that created a POSIX timer, and the place of its signal, which is charged to its
    /// creator's user.
    made: Option<(Request, Arc<Slot>)>,
}

/// The setting of a timer, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The time until it expires; 0 for never.
    pub left: u64,
    /// The time between expiries; 0 for a single one.
    pub interval: u64,
}

impl SignalTimer {
    fn new(
        id: i32,
        process: &Arc<Process>,
        base: Base,
        notice: Notice,
        made: Option<(Request, Arc<Slot>)>,
    ) -> Result<Arc<Self>> {
        let state = Mutex::new(State::default());
        try_arc(SignalTimer {
            id,
            process: Arc::downgrade(process),
            base,
            notice,
            state,
            turn: Turn::default(),
            is_listed: AtomicBool::new(false),
            following: Following::new(),
            made,
        })
    }

    /// The request that created a POSIX timer.
    pub fn request(&self) -> Option<Request> {
        self.made.as_ref().map(|(request, _)| *request)
    }

    /// The time of the timer's base, in ns.
    fn now(&self, wall: Wall) -> u64 {
        self.now_by(wall, Process::usage)
    }

    /// The time for a check: for a process of many threads, the time as of the last tick.
    fn recent(&self, wall: Wall) -> u64 {
        self.now_by(wall, Process::recent_usage)
    }

    fn now_by(&self, wall: Wall, usage: fn(&Process) -> Usage) -> u64 {
        let ticks = match &self.base {
            Base::Wall(_) => return wall.now(),
            Base::Process(process) => process.upgrade().map_or(0, |process| usage(&process).ticks),
            Base::User => {
                let process = self.process.upgrade();
                process.map_or(0, |process| process.times_of(&usage(&process)).user)
            }
            Base::Thread(thread) => thread.upgrade().map_or(0, |thread| thread.cpu_time()),
        };
        time::ticks_to_ns(ticks)
    }

    /// When to check next whether the timer expires, in ticks of the counter; `now` is the time of
    /// its base. Elapsed time is never less than the CPU time of a single thread, and an early
    /// check does no harm. CPU time is checked no more often than Linux's clock ticks.
    fn look_at(&self, state: &State, now: u64) -> u64 {
        let process = match &self.base {
            Base::Wall(_) => return state.wall.deadline(state.next),
            Base::Process(process) => process,
            _ => &self.process,
        };
        let left = state.next.saturating_sub(now);
        let threads = process
            .upgrade()
            .map_or(1, |process| process.threads().len().max(1));
        clock::deadline_in((left / threads as u64).max(TICK))
    }

    /// If nothing ran since the last check, the timer rests until a thread continues that could
    /// make it expire; false if it must be checked.
    fn rest(self: &Arc<Self>, state: &mut State, now: u64) -> bool {
        let seen = core::mem::replace(&mut state.seen, now);
        if seen != now || matches!(self.base, Base::Wall(_)) {
            return false;
        }
        let (process, thread) = match &self.base {
            Base::Process(process) => (process.upgrade(), None),
            Base::Thread(thread) => {
                let thread = thread.upgrade();
                let process = thread.as_ref().map(|thread| thread.process().clone());
                (process, thread)
            }
            _ => (self.process.upgrade(), None),
        };
        // The CPU time of an ended process no longer changes.
        let Some(process) = process else { return true };
        if !process.timers.list_resting(self) {
            return false;
        }
        state.rests = true;
        match thread {
            Some(thread) => ask_to_resume(&thread),
            None => process.threads().iter().for_each(|one| ask_to_resume(one)),
        }
        true
    }

    fn left(&self, state: &State) -> Setting {
        let now = self.now(state.wall);
        let left = match state.next {
            0 => 0,
            // The timer rests until its signal is delivered.
            _ if state.queued && self.is_alarm() => 0,
            next if next <= now && state.interval > 0 => {
                state.interval - (now - next) % state.interval
            }
            next if next <= now && matches!(self.notice, Notice::None) => 0,
            next => next.saturating_sub(now).max(1),
        };
        Setting {
            left,
            interval: state.interval,
        }
    }

    /// The setting of the timer.
    pub fn get(&self) -> Setting {
        self.left(&self.state.lock())
    }

    /// Sets the timer; returns the old setting. If `absolute`, `left` is a time of the timer's
    /// clock.
    ///
    /// # Errors
    /// EINVAL: it was deleted meanwhile. ENOMEM: it is unchanged.
    pub fn set(self: &Arc<Self>, new: Setting, absolute: bool) -> Result<Setting> {
        let wall = match self.base {
            Base::Wall(wall) if absolute => wall,
            _ => Wall::Monotonic,
        };
        if wall != Wall::Monotonic {
            let this: Weak<SignalTimer> = Arc::downgrade(self);
            self.following.begin(this)?;
        }
        let mut next = State {
            interval: new.interval,
            wall,
            ..State::default()
        };
        let mut state = self.lock_between_looks();
        if state.ended {
            return Err(Errno::EINVAL);
        }
        let old = self.left(&state);
        if new.left != 0 {
            let now = self.now(wall);
            let start = if absolute { 0 } else { now };
            next.next = start.saturating_add(new.left);
            if !matches!(self.notice, Notice::None) {
                next.armed = Some(Timer::call(self.look_at(&next, now), self.clone())?);
            }
        }
        let stale = core::mem::replace(&mut *state, next);
        drop(state);
        drop(stale);
        Ok(old)
    }

    /// Stops the timer for good: a thread that found it before cannot set it again.
    fn end(&self) {
        let mut state = self.lock_between_looks();
        let ended = State {
            ended: true,
            ..State::default()
        };
        let stale = core::mem::replace(&mut *state, ended);
        drop(state);
        drop(stale);
    }

    /// Locks the state when no check is in progress. Each check is an interrupt on another CPU,
    /// which ends soon (Linux's `hrtimer_cancel`).
    fn lock_between_looks(&self) -> MutexGuard<'_, State> {
        loop {
            let state = self.state.lock();
            if state.looks == 0 {
                return state;
            }
            drop(state);
            spin_loop();
        }
    }

    /// The number of expirations beyond those that the last signal reported.
    pub fn overrun(&self) -> i32 {
        self.state.lock().reported.min(MOST_OVERRUNS) as i32
    }

    /// Schedules the next check: at the timer's expiry, estimated at `now`, but not before
    /// `earliest`; not while a signal is pending.
    fn arm(self: &Arc<Self>, state: &mut State, now: u64, earliest: u64) {
        if state.next != 0 && !state.queued && self.process.strong_count() > 0 {
            let at = self.look_at(state, now).max(earliest);
            // Without memory the timer stops.
            state.armed = Timer::call(at, self.clone()).ok();
        }
    }

    /// Whether this is the timer of alarm(2), which continues when its signal is taken.
    fn is_alarm(&self) -> bool {
        matches!(self.notice, Notice::Interval(SIGALRM))
    }

    /// The signal to send at `now`, by the timer's clock; `None` if there is no receiver, or the
    /// receiver would ignore it.
    fn message(&self, now: u64) -> Option<Message> {
        let process = self.process.upgrade()?;
        let (info, thread) = match &self.notice {
            Notice::None => return None,
            Notice::Interval(number) => (Info::kernel(*number), None),
            Notice::CpuLimit => {
                let hard = process.limits.get(RLIMIT_CPU);
                let hard = hard.map_or(INFINITY, |limit| limit.hard);
                let ended = now / clock::SECOND >= hard as u64;
                (Info::kernel(if ended { SIGKILL } else { SIGXCPU }), None)
            }
            Notice::Signal {
                number,
                value,
                thread,
            } => {
                let info = Info::timer(*number, SI_TIMER, self.id, *value);
                let thread = thread.as_ref().map(|thread| thread.upgrade().ok_or(()));
                (info, thread.transpose().ok()?)
            }
        };
        let wanted = !signal::is_discarded(&process, thread.as_ref(), info.number());
        wanted.then_some((process, thread, info))
    }

    /// Handles an expiry: the timer rests until its signal is delivered, or continues. Returns the
    /// time before which it need not be checked again.
    fn pass(&self, state: &mut State, now: u64, is_told: bool) -> u64 {
        match self.notice {
            _ if state.interval == 0 => state.next = 0,
            Notice::Signal { .. } if !is_told => {
                // No signal is sent: check no more often than Linux's clock ticks.
                state.ignored += state.advance(now);
                return clock::deadline_in(TICK);
            }
            Notice::Signal { .. } => state.queued = true,
            Notice::Interval(SIGALRM) => state.queued = true,
            _ => _ = state.advance(now),
        }
        0
    }

    /// Its signal is being delivered: a periodic timer continues.
    fn rearm(self: &Arc<Self>, state: &mut State) {
        state.reported = 0;
        if core::mem::take(&mut state.queued) && state.interval > 0 {
            let now = self.now(state.wall);
            let times = state.advance(now);
            state.reported = core::mem::take(&mut state.ignored) + times - 1;
            self.arm(state, now, 0);
        }
    }
}

impl Expire for SignalTimer {
    fn expire(self: Arc<Self>) {
        let wall = self.begin_look();
        self.look(wall);
        self.end_look();
    }
}

impl SignalTimer {
    /// Begins a check; returns the clock on which the timer is set.
    pub(super) fn begin_look(&self) -> Wall {
        let mut state = self.state.lock();
        state.looks += 1;
        state.wall
    }

    /// Ends a check.
    pub(super) fn end_look(&self) {
        self.state.lock().looks -= 1;
    }

    /// Checks whether the timer is due, and sends its signal.
    fn look(self: &Arc<Self>, wall: Wall) {
        // One reading of the clock decides both whether the timer is due and what is reported, so
        // that a limit that is reached in between is not reported as a mere warning.
        let now = self.recent(wall);
        let message = self.message(now);
        let mut state = self.state.lock();
        let stale = state.armed.take();
        let due = state.next != 0 && !state.queued && now >= state.next;
        if due {
            let earliest = self.pass(&mut state, now, message.is_some());
            self.arm(&mut state, now, earliest);
        } else if !self.rest(&mut state, now) {
            self.arm(&mut state, now, 0);
        }
        drop(state);
        drop(stale);
        let Some((process, thread, info)) = message.filter(|_| due) else {
            return;
        };
        let sent = match &self.made {
            Some((_, slot)) => match self.base {
                Base::Process(_) => {
                    signal::send_posix_cpu_timer(&process, thread.as_ref(), &info, slot, &self.turn)
                }
                _ => signal::send_timer(&process, thread.as_ref(), &info, slot),
            },
            None if !self.is_alarm() => signal::send_cpu_timer(&process, &info, &self.turn),
            None => signal::send_info(&process, thread.as_ref(), &info),
        };
        if sent.is_err() {
            // There was no memory for the signal: the next expiry tries again, or the same.
            let mut state = self.state.lock();
            if core::mem::take(&mut state.queued) {
                state.ignored += state.advance(now);
            } else if state.interval == 0 {
                state.next = now.max(1);
            }
            self.arm(&mut state, now, clock::deadline_in(TICK));
        }
    }
}

/// Makes a thread resume the resting timers of its process before it returns to its program.
fn ask_to_resume(thread: &Thread) {
    thread.arch.work.fetch_or(CPU_TIMERS, Relaxed);
    // The thread may have tested its work word before, and returned to its program.
    fence(SeqCst);
    if thread.arch.is_running() {
        smp::kick(thread.sched.cpu());
    }
}

/// The current thread returns to its program: resting timers of its process are checked again.
#[cold]
pub(super) fn resume() {
    let thread = current();
    thread.arch.work.fetch_and(!CPU_TIMERS, SeqCst);
    thread.process().timers.resume();
}

impl SignalTimer {
    /// Schedules a check, if the timer rests.
    fn resume(self: &Arc<Self>) {
        let now = self.recent(Wall::Monotonic);
        let mut state = self.state.lock();
        self.is_listed.store(false, Relaxed);
        if core::mem::take(&mut state.rests) {
            self.arm(&mut state, now, 0);
        }
    }
}

impl Follow for SignalTimer {
    fn time_was_set(self: Arc<Self>) {
        let mut state = self.state.lock();
        if state.wall != Wall::Monotonic && state.armed.is_some() {
            let stale = state.armed.take();
            // A timer on elapsed time does not need `now`.
            self.arm(&mut state, 0, 0);
            drop(state);
            drop(stale);
        }
    }
}

/// POSIX timers by id.
struct Posix {
    timers: HashMap<i32, Arc<SignalTimer>>,
    /// The id that the next timer gets if it is free: as on Linux, ids are reused late.
    next: i32,
}

impl Posix {
    fn add(&mut self, make: impl FnOnce(i32) -> Result<Arc<SignalTimer>>) -> Result<i32> {
        self.timers.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let following = |id: i32| id.wrapping_add(1) & i32::MAX;
        let mut id = self.next;
        while self.timers.contains_key(&id) {
            id = following(id);
        }
        self.timers.insert(id, make(id)?);
        self.next = following(id);
        Ok(id)
    }
}

/// The timers of a process.
pub struct Timers {
    interval: Mutex<[Option<Arc<SignalTimer>>; 3]>,
    posix: Mutex<Posix>,
    cpu_limit: Mutex<Option<Arc<SignalTimer>>>,
    /// Resting timers of any process that count the CPU time of this process or of its threads.
    resting: Mutex<Vec<Weak<SignalTimer>>>,
}

impl Timers {
    /// No timers.
    pub const fn new() -> Self {
        Timers {
            interval: Mutex::new([const { None }; 3]),
            posix: Mutex::new(Posix {
                timers: hash::new(),
                next: 0,
            }),
            cpu_limit: Mutex::new(None),
            resting: Mutex::new(Vec::new()),
        }
    }

    /// Adds a resting timer; false if there is no memory for it.
    fn list_resting(&self, timer: &Arc<SignalTimer>) -> bool {
        if timer.is_listed.load(Relaxed) {
            return true;
        }
        let mut resting = self.resting.lock();
        if resting.len() == resting.capacity() {
            resting.retain(|timer| timer.strong_count() > 0);
            // The capacity is doubled, so that the list is seldom scanned.
            let more = resting.len() + 1;
            if resting.try_reserve(more).is_err() {
                return false;
            }
        }
        timer.is_listed.store(true, Relaxed);
        resting.push(Arc::downgrade(timer));
        true
    }

    /// Schedules checks of all resting timers.
    fn resume(&self) {
        loop {
            let timer = self.resting.lock().pop();
            let Some(timer) = timer else { return };
            if let Some(timer) = timer.upgrade() {
                timer.resume();
            }
            cond_resched();
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
        let thread = current();
        let process = thread.process();
        let (base, number) = match which {
            0 => (Base::Wall(Wall::Monotonic), SIGALRM),
            1 => (Base::User, SIGVTALRM),
            _ => (Base::Process(Arc::downgrade(process)), SIGPROF),
        };
        let new = SignalTimer::new(0, process, base, Notice::Interval(number), None)?;
        Ok(timer.insert(new).clone())
    }

    /// Sets the RLIMIT_CPU timer of `process`, which owns these timers, according to its limits.
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
                let new = SignalTimer::new(0, process, base, Notice::CpuLimit, None)?;
                limit.insert(new).clone()
            }
        };
        drop(limit);
        let left = match seconds {
            INFINITY => 0,
            // As on Linux, a limit of zero is one second.
            seconds => (seconds.max(1) as u64).saturating_mul(clock::SECOND),
        };
        let interval = clock::SECOND;
        timer.set(Setting { left, interval }, true).map(drop)
    }

    /// Creates a POSIX timer of the current process; returns its id. `asked` gets the id.
    ///
    /// # Errors
    /// EAGAIN, ENOMEM.
    pub fn create(&self, base: Base, asked: impl FnOnce(i32) -> (Request, Notice)) -> Result<i32> {
        let most = current().process().limits.soft(RLIMIT_SIGPENDING);
        let charge = Charge::new(|user| &user.pending_signals, 1, most).ok_or(Errno::EAGAIN)?;
        let slot = try_arc(Slot::new(charge))?;
        self.posix.lock().add(|id| {
            let (request, notice) = asked(id);
            let made = Some((request, slot));
            SignalTimer::new(id, current().process(), base, notice, made)
        })
    }

    /// The POSIX timer `id`.
    ///
    /// # Errors
    /// EINVAL.
    pub fn posix(&self, id: i32) -> Result<Arc<SignalTimer>> {
        let known = self.posix.lock().timers.get(&id).cloned();
        known.ok_or(Errno::EINVAL)
    }

    /// The ids of the POSIX timers, the newest first.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn posix_ids(&self) -> Result<Vec<i32>> {
        let mut ids = Vec::new();
        let posix = self.posix.lock();
        ids.try_reserve_exact(posix.timers.len())
            .map_err(|_| Errno::ENOMEM)?;
        ids.extend(posix.timers.keys());
        drop(posix);
        heapsort::sort_by_key(&mut ids, |&id| core::cmp::Reverse(id));
        Ok(ids)
    }

    /// Removes the POSIX timer `id`.
    ///
    /// # Errors
    /// EINVAL.
    pub fn delete(&self, id: i32) -> Result<()> {
        let gone = self.posix.lock().timers.remove(&id);
        gone.ok_or(Errno::EINVAL)?.end();
        Ok(())
    }

    /// The bytes of the POSIX timers.
    pub fn held(&self) -> usize {
        self.posix.lock().timers.len() * size_of::<(SignalTimer, Slot)>()
    }

    /// Deletes the POSIX timers on exec.
    pub(super) fn exec(&self) {
        let mut posix = self.posix.lock();
        if posix.timers.is_empty() {
            return;
        }
        let gone = core::mem::replace(&mut posix.timers, hash::new());
        drop(posix);
        end_all(gone);
    }

    /// Deletes all timers at the end of the process.
    pub(super) fn clear(&self) {
        self.exec();
        let gone = core::mem::take(&mut *self.interval.lock());
        gone.into_iter().flatten().for_each(|timer| timer.end());
        let limit = self.cpu_limit.lock().take();
        limit.iter().for_each(|timer| timer.end());
    }
}

#[cold]
fn end_all(timers: HashMap<i32, Arc<SignalTimer>>) {
    for timer in timers.into_values() {
        timer.end();
        cond_resched();
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_timer_that_is_deleted_is_not_set_again() {
        let thread = current();
        let timers = &thread.process().timers;
        let request = Request { clock: 0, kind: 0, signal: SIGALRM, value: 0, tid: 0 };
        let notice = || Notice::Signal { number: SIGALRM, value: 0, thread: None };
        let id = timers.create(Base::Wall(Wall::Monotonic), |_| (request, notice())).unwrap();
        let found = timers.posix(id).unwrap();
        let setting = Setting { left: 60 * clock::SECOND, interval: 0 };
        assert!(found.set(setting, false).is_ok());
        timers.delete(id).unwrap();
        assert!(found.set(setting, false).is_err());
        assert!(found.get().left == 0 && found.state.lock().armed.is_none());
    }
}

/// The signal of a POSIX timer of the current process is being delivered: fills in the overrun.
#[cold]
pub(super) fn delivered(info: &mut Info) {
    if let Ok(timer) = current().process().timers.posix(info.timer_id()) {
        let mut state = timer.state.lock();
        timer.rearm(&mut state);
        let overrun = state.reported.saturating_add(info.overrun() as u64);
        info.set_overrun(overrun.min(MOST_OVERRUNS) as i32);
    }
}

/// The current process takes a SIGALRM: its interval timer continues, if it rests.
#[cold]
pub(super) fn alarm_taken() {
    let timer = current().process().timers.interval.lock()[0].clone();
    if let Some(timer) = timer {
        timer.rearm(&mut timer.state.lock());
    }
}
