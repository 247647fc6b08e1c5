//! Readiness: waiting for a file to become readable or writable, and notification.

use super::sequence::Sequence;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::clock::{self, Deadline};
use crate::task::wait_queue::{WaitError, WaitQueue};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*, fence};

bitflags::bitflags! {
    /// Events of poll(2) and epoll(7), with Linux's values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u32 {
        /// Something can be read.
        const IN = 0x1;
        /// Something urgent can be read.
        const PRIORITY = 0x2;
        /// Something can be written.
        const OUT = 0x4;
        /// An error.
        const ERROR = 0x8;
        /// The other end is closed.
        const HANG_UP = 0x10;
        /// The descriptor is not open.
        const INVALID = 0x20;
        /// As `IN`, for ordinary data.
        const IN_NORMAL = 0x40;
        /// As `OUT`, for ordinary data.
        const OUT_NORMAL = 0x100;
        /// As `OUT`, for urgent data: reported by datagram and Unix sockets.
        const OUT_BAND = 0x200;
        /// The other end has stopped writing.
        const READ_HANG_UP = 0x2000;
        /// Not Linux's: the file reports `IN` and `OUT` only by these names.
        const PLAIN = 0x1_0000;
    }
}

impl Events {
    /// Events that are reported even if they were not requested.
    pub const ALWAYS: Events = Events::ERROR.union(Events::HANG_UP);
    /// Events that a socket with room reports, except TCP's.
    pub const ROOM: Events = Events::OUT.union(Events::OUT_BAND);
    /// Events that new data can cause.
    pub const READABLE: Events = Events::IN.union(Events::IN_NORMAL);
    /// Events that new room can cause.
    pub const WRITABLE: Events = Events::ROOM.union(Events::OUT_NORMAL);

    /// Without the aliases, as eventfd(2), timerfd(2) and signalfd(2) report.
    pub fn without_aliases(self) -> Self {
        if self.is_empty() {
            self
        } else {
            self | Events::PLAIN
        }
    }

    /// `IN` and `OUT` with their aliases added.
    pub fn with_normal(self) -> Self {
        let mut events = self;
        if events.contains(Events::PLAIN) {
            return events - Events::PLAIN;
        }
        if events.contains(Events::IN) {
            events |= Events::IN_NORMAL;
        }
        if events.contains(Events::OUT) {
            events |= Events::OUT_NORMAL;
        }
        events
    }
}

/// An object that is notified when a source that it watches changes.
pub trait Watcher: Send + Sync {
    /// The source may have become ready. Called with no lock that a poll takes; must not sleep.
    /// Returns true if that woke a thread that can continue.
    fn changed(&self) -> bool;

    /// Whether only one watcher of this kind is woken (EPOLLEXCLUSIVE).
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Whether room in a socket is only reported after a writer found none.
    fn is_sparing(&self) -> bool {
        false
    }
}

/// A source of readiness: threads in system calls wait for its changes, and watchers are notified
/// of them.
pub struct WaitSource {
    waiters: WaitQueue,
    watched: AtomicBool,
    /// The watchers, each with the events that it waits for.
    watchers: Mutex<Sequence<(Events, Arc<dyn Watcher>)>>,
    /// For a socket's room: whether a writer found none since a sparing watcher was notified.
    lacked: Option<AtomicBool>,
}

impl WaitSource {
    /// A source without waiters.
    pub fn new() -> Result<Arc<Self>> {
        Self::make(None)
    }

    /// A source for the send room of a socket.
    pub fn of_room() -> Result<Arc<Self>> {
        Self::make(Some(AtomicBool::new(false)))
    }

    fn make(lacked: Option<AtomicBool>) -> Result<Arc<Self>> {
        try_arc(WaitSource {
            waiters: WaitQueue::new(),
            watched: AtomicBool::new(false),
            watchers: Mutex::new(Sequence::new()),
            lacked,
        })
    }

    /// Records that a writer found no room.
    pub fn lack(&self) {
        if let Some(lacked) = &self.lacked {
            lacked.store(true, Release);
        }
    }

    /// Waits until `ready` holds; a signal ends the wait with ERESTARTSYS.
    pub fn wait(&self, ready: impl FnMut() -> bool) -> Result<()> {
        self.wait_until(ready, None).map(|_| ())
    }

    /// Waits until `ready` holds (`true`) or `deadline` (in ticks) has passed (`false`).
    pub fn wait_until(&self, ready: impl FnMut() -> bool, deadline: Option<u64>) -> Result<bool> {
        match self.waiters.wait_interruptible(ready, deadline) {
            Ok(()) => Ok(true),
            Err(WaitError::TimedOut) => Ok(false),
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTSYS),
        }
    }

    /// Like [`wait_until`](Self::wait_until), but may end up to `slack` ticks after the deadline.
    pub fn wait_with_slack(
        &self,
        ready: impl FnMut() -> bool,
        deadline: Option<u64>,
        slack: u64,
    ) -> Result<bool> {
        match self.waiters.wait_with_slack(ready, deadline, slack) {
            Ok(()) => Ok(true),
            Err(WaitError::TimedOut) => Ok(false),
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTSYS),
        }
    }

    /// Like [`wait_until`](Self::wait_until), with a deadline on any clock, and no slack.
    pub fn wait_by(&self, ready: impl FnMut() -> bool, deadline: Option<Deadline>) -> Result<bool> {
        let Some(deadline) = deadline else {
            return self.wait_until(ready, None);
        };
        match clock::wait_in(&self.waiters, ready, deadline, 0)? {
            Ok(()) => Ok(true),
            Err(WaitError::TimedOut) => Ok(false),
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTSYS),
        }
    }

    /// Notifies all watchers that the readiness has changed.
    #[inline]
    pub fn notify(&self) {
        self.notify_for(Events::all());
    }

    /// Notifies all threads that wait in a call, and the watchers that wait for one of `events`,
    /// which are the only ones that this change can cause.
    #[inline]
    pub fn notify_for(&self, events: Events) {
        self.waiters.wake_all();
        self.notify_watchers(events);
    }

    /// Notifies watchers of `events`, but only the longest waiter among the threads in calls. This
    /// is for calls that each take a part: a call that leaves something wakes the next waiter
    /// ([`wake_next`](Self::wake_next)). True if there was one.
    #[inline]
    pub fn notify_one(&self, events: Events) -> bool {
        self.notify_one_if(events, || true)
    }

    /// Like [`notify_one`](Self::notify_one), but wakes no thread unless there is something for it.
    #[inline]
    pub fn notify_one_if(&self, events: Events, something: impl FnOnce() -> bool) -> bool {
        let woken = self.waiters.wake_one_if(something);
        self.notify_watchers(events);
        woken
    }

    /// Wakes the next thread, after one that was woken alone left something.
    #[inline]
    pub fn wake_next(&self) {
        self.waiters.wake_one();
    }

    /// Called after a fence, which is part of waking threads; fields of watchers are read under the
    /// lock.
    #[inline]
    fn notify_watchers(&self, events: Events) {
        if self.watched.load(Relaxed) {
            self.notify_each(events);
        }
    }

    /// Notifies each watcher that was present at the start, without the lock, since a watcher that
    /// ends as a result takes it.
    #[cold]
    fn notify_each(&self, events: Events) {
        let (mut from, end) = (0, self.watchers.lock().end());
        let mut one_woken = false;
        let lacked = self.lacked.as_ref();
        let idle = lacked.is_some_and(|lacked| !lacked.load(Acquire));
        let mut near = 0;
        let mut next = |from: &mut u64| {
            let watchers = self.watchers.lock();
            // Watchers of other events are skipped, a limited number at a time.
            for _ in 0..AT_ONCE {
                let (number, (wanted, watcher)) = watchers.first_from_near(*from, &mut near)?;
                if number >= end {
                    return None;
                }
                *from = number + 1;
                if wanted.intersects(events) {
                    return Some(Some(watcher.clone()));
                }
            }
            Some(None)
        };
        // The newest is often the only one.
        while from < end
            && let Some(found) = next(&mut from)
        {
            let Some(watcher) = found else { continue };
            let (exclusive, sparing) = (watcher.is_exclusive(), watcher.is_sparing());
            if !(idle && sparing || exclusive && one_woken) {
                let took = watcher.changed();
                one_woken |= took && exclusive;
                if let Some(lacked) = lacked.filter(|_| took && sparing) {
                    lacked.store(false, Release);
                }
            }
        }
    }

    /// Notifies `watcher` of changes that may be one of `wanted`, until the returned watch is
    /// dropped.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn watch(self: &Arc<Self>, wanted: Events, watcher: Arc<dyn Watcher>) -> Result<Watch> {
        let mut watchers = self.watchers.lock();
        let number = watchers.push((wanted, watcher))?;
        self.watched.store(true, Release);
        // Any later change of the source either sees the watcher, or is seen by the check that
        // follows.
        fence(SeqCst);
        drop(watchers);
        let source = self.clone();
        Ok(Watch {
            source,
            number,
            wanted,
        })
    }
}

/// A watcher's registration at a source, as long as this lives.
pub struct Watch {
    source: Arc<WaitSource>,
    number: u64,
    wanted: Events,
}

impl Watch {
    /// Adds `events` to those that it waits for.
    fn widen(&mut self, events: Events) {
        if self.wanted.contains(events) {
            return;
        }
        self.wanted |= events;
        let mut watchers = self.source.watchers.lock();
        if let Some((wanted, _)) = watchers.get_mut(self.number) {
            *wanted = self.wanted;
        }
        // As in `watch`.
        fence(SeqCst);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.source.watchers.lock();
        let gone = watchers.remove(self.number);
        self.source.watched.store(!watchers.is_empty(), Release);
        drop(watchers);
        drop(gone);
    }
}

/// The number of watchers that are skipped under the lock.
const AT_ONCE: usize = 64;

/// The set of sources that a poll watches.
pub struct PollTable {
    watcher: Arc<dyn Watcher>,
    /// The events to wait for at the sources that are added.
    wanted: Events,
    watches: Vec<Watch>,
    /// The indices of watches by the addresses of their sources, if there are many.
    watched: HashMap<usize, usize>,
    failed: bool,
}

/// Up to this many watches are searched one by one.
const FEW: usize = 16;

impl PollTable {
    /// A table for `watcher`, which waits for all events.
    pub fn new(watcher: Arc<dyn Watcher>) -> Self {
        PollTable {
            watcher,
            wanted: Events::all(),
            watches: Vec::new(),
            watched: hash::new(),
            failed: false,
        }
    }

    /// From now on, waits only for `events` at the sources that are added.
    pub fn want(&mut self, events: Events) {
        self.wanted = events;
    }

    /// Watches `source` as long as the table lives: once, however many of its descriptors a program
    /// passes.
    pub fn add(&mut self, source: &Arc<WaitSource>) {
        self.failed = self.failed || self.try_add(source).is_err();
    }

    fn try_add(&mut self, source: &Arc<WaitSource>) -> Result<()> {
        if let Some(at) = self.find(source)? {
            self.watches[at].widen(self.wanted);
            return Ok(());
        }
        self.watches.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let watch = source.watch(self.wanted, self.watcher.clone())?;
        self.watches.push(watch);
        Ok(())
    }

    /// The watch of `source`; if there is none, the next watch that is added will be it.
    fn find(&mut self, source: &Arc<WaitSource>) -> Result<Option<usize>> {
        if self.watches.len() < FEW {
            let mut sources = self.watches.iter().map(|watch| &watch.source);
            return Ok(sources.position(|watched| Arc::ptr_eq(watched, source)));
        }
        let address = |source: &Arc<WaitSource>| Arc::as_ptr(source).addr();
        let next = self.watches.len();
        let more = next + 1 - self.watched.len();
        self.watched.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        if self.watched.is_empty() {
            for (at, watch) in self.watches.iter().enumerate() {
                self.watched.insert(address(&watch.source), at);
            }
        }
        // The entry of a watch that could not be created belongs to the next one.
        let known = self.watched.get(&address(source)).copied();
        if let Some(at) = known.filter(|&at| at < next) {
            return Ok(Some(at));
        }
        self.watched.insert(address(source), next);
        Ok(None)
    }

    /// Ends up to `most` watches; returns whether there are more.
    pub fn end(&mut self, most: usize) -> bool {
        let rest = self.watches.len().saturating_sub(most);
        self.watches.truncate(rest);
        rest > 0
    }

    /// Records that a source could not be created.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// ENOMEM if not every source could be added.
    pub fn check(&self) -> Result<()> {
        if self.failed {
            Err(Errno::ENOMEM)
        } else {
            Ok(())
        }
    }
}

/// A thread that polls, and sleeps until one of its sources changes.
pub struct Poller {
    changed: AtomicBool,
    waiters: WaitQueue,
}

impl Poller {
    /// A poller, to be the watcher of a [`PollTable`].
    pub fn new() -> Result<Arc<Self>> {
        try_arc(Poller {
            changed: AtomicBool::new(false),
            waiters: WaitQueue::new(),
        })
    }

    /// Waits for a change since the last call. False if `deadline` (in ticks) passed first, up to
    /// `slack` ticks ago; ERESTARTNOHAND on a signal.
    pub fn wait(&self, deadline: Option<u64>, slack: u64) -> Result<bool> {
        let changed = || self.changed.swap(false, AcqRel);
        match self.waiters.wait_with_slack(changed, deadline, slack) {
            Ok(()) => Ok(true),
            Err(WaitError::TimedOut) => Ok(false),
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTNOHAND),
        }
    }
}

impl Watcher for Poller {
    fn changed(&self) -> bool {
        self.changed.store(true, Release);
        self.waiters.wake_all();
        true
    }
}
