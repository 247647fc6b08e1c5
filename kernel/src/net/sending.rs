//! When the bytes of a TCP connection are sent: at once, unless the writer lets less than a segment
//! wait for more (TCP_CORK, MSG_MORE).

use super::channel::{Bytes, Channel};
use crate::arch::time;
use crate::errno::Result;
use crate::sync::{Once, SleepMutexGuard};
use crate::task::clock;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

/// How long less than a segment waits for more, in nanoseconds: Linux's minimum timeout.
const LONGEST: u64 = clock::SECOND / 5;

/// A writer without room.
#[derive(Clone, Copy)]
pub struct Stall {
    /// Since when it has no room, in ticks.
    since: u64,
    /// The number of bytes that had been read by then.
    read: u64,
}

impl Bytes {
    /// The number of bytes that the reader may read.
    pub fn sent(&self) -> usize {
        self.ring.len() - self.unsent
    }

    /// Records that a writer has no room, if this is not recorded yet.
    pub fn begin_stall(&mut self) {
        let read = self.read;
        if self.stall.is_none_or(|stall| stall.read != read) {
            let since = time::now_ticks();
            self.stall = Some(Stall { since, read });
        }
    }

    /// Drops unsent bytes.
    pub fn drop_unsent(&mut self) {
        let sent = self.sent();
        self.ring.truncate(sent);
        self.unsent = 0;
    }
}

/// Notified when a writer has no room.
pub trait Stalled: Send + Sync {
    /// A writer has no room, and is about to wait or to get EAGAIN.
    fn stalled(self: Arc<Self>);
}

/// When a channel's bytes are sent.
pub struct Sending {
    /// The size of a whole segment; 0 if there are no segments.
    segment: AtomicUsize,
    /// The number of unsent bytes from which on the writer waits (TCP_NOTSENT_LOWAT).
    low_water: AtomicUsize,
    /// TCP_CORK
    corked: AtomicBool,
    /// The number of unsent bytes, for threads that read it without the lock.
    unsent: AtomicUsize,
    /// Since when there are unsent bytes, in ticks.
    since: AtomicU64,
    /// Notified when a writer has no room.
    watcher: Once<Weak<dyn Stalled>>,
}

impl Sending {
    /// Everything is sent at once.
    pub const fn new() -> Self {
        Sending {
            segment: AtomicUsize::new(0),
            low_water: AtomicUsize::new(usize::MAX),
            corked: AtomicBool::new(false),
            unsent: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            watcher: Once::new(),
        }
    }

    /// Makes `watcher` the one that is notified of writers without room, unless there is one.
    pub fn watch_by(&self, watcher: Weak<dyn Stalled>) {
        self.watcher.call_once(|| watcher);
    }

    /// Reports a writer without room.
    #[cold]
    pub fn stall(&self) {
        if let Some(watcher) = self.watcher.get().and_then(Weak::upgrade) {
            watcher.stalled();
        }
    }

    /// The number of unsent bytes.
    pub fn unsent(&self) -> usize {
        self.unsent.load(Acquire)
    }

    /// Whether the writer lets less than a segment wait.
    pub fn is_corked(&self) -> bool {
        self.corked.load(Relaxed)
    }

    /// Whether so few bytes are unsent that poll reports the channel as writable. A write may
    /// always fill the segment that was begun.
    pub fn has_little(&self) -> bool {
        let unsent = self.unsent();
        unsent == 0 || unsent * 2 < self.low_water.load(Acquire)
    }

    /// Publishes the counts that are read without the lock.
    pub fn publish(&self, bytes: &Bytes) {
        self.unsent.store(bytes.unsent, Release);
    }
}

impl Channel {
    /// Sets the size of a segment.
    pub fn set_segment(&self, segment: usize) {
        self.sending.segment.store(segment, Release);
    }

    /// Sets the number of unsent bytes from which on the writer waits; 0 for no limit.
    pub fn set_low_water(&self, most: u32) {
        let most = if most == 0 { usize::MAX } else { most as usize };
        self.sending.low_water.store(most, Release);
        self.writable().notify();
    }

    /// Sets whether the writer lets less than a segment wait.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn set_corked(&self, corked: bool) -> Result<()> {
        self.sending.corked.store(corked, Release);
        if corked { Ok(()) } else { self.push() }
    }

    /// Counts `count` written bytes; with `more`, less than a segment is held back. Once a whole
    /// segment has been sent and acknowledged, the rest is sent too, unless corked.
    #[cold]
    pub fn hold_back(&self, bytes: &mut Bytes, count: usize, more: bool) {
        let segment = self.sending.segment.load(Acquire).max(1);
        if bytes.unsent == 0 {
            let now = time::now_ticks();
            self.sending.since.store(now, Release);
        }
        let all = bytes.unsent + count;
        let waits = more && (all < segment || self.sending.is_corked());
        bytes.unsent = if waits { all % segment } else { 0 };
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn push(&self) -> Result<()> {
        self.push_all(self.lock()?);
        Ok(())
    }

    /// Sends all bytes, unless the contents are locked, and then returns false.
    pub fn try_push(&self) -> bool {
        let bytes = self.try_lock();
        bytes.map(|bytes| self.push_all(bytes)).is_some()
    }

    fn push_all(&self, mut bytes: SleepMutexGuard<'_, Bytes>) {
        bytes.unsent = 0;
        self.publish(&mut bytes);
        drop(bytes);
        self.readable().notify();
        self.notify_little();
    }

    /// Wakes writers that wait until few bytes are unsent.
    pub fn notify_little(&self) {
        if self.sending.low_water.load(Relaxed) != usize::MAX {
            self.writable().lack();
            self.writable().notify();
        }
    }

    /// The time until which bytes wait for more, in ticks; `None` if none do.
    pub fn unsent_until(&self) -> Option<u64> {
        let waits = self.sending.unsent() != 0;
        let since = self.sending.since.load(Acquire);
        waits.then(|| since + time::ns_to_ticks(LONGEST))
    }

    /// The time, in ticks, until which a reader must read something, if it is given up after
    /// `patience` ticks; `None` if no writer lacks room.
    pub fn stalled_until(&self, patience: u64) -> Option<u64> {
        match self.try_lock() {
            Some(bytes) => self.stall_ends(&bytes, patience),
            // The contents are locked: check again soon.
            None => Some(time::now_ticks().saturating_add(time::ns_to_ticks(LONGEST))),
        }
    }

    fn stall_ends(&self, bytes: &Bytes, patience: u64) -> Option<u64> {
        let stall = bytes.stall.filter(|stall| stall.read == bytes.read)?;
        let waits = bytes.ring.len() > 0 && !self.has_room();
        waits.then(|| stall.since.saturating_add(patience))
    }

    /// Gives the reader up if it made no progress for `patience` ticks: calls `end`, and drops
    /// unsent bytes silently. Writers are not woken.
    pub fn give_up(&self, patience: u64, end: impl FnOnce()) -> bool {
        let Some(bytes) = self.try_lock() else {
            return false;
        };
        let until = self.stall_ends(&bytes, patience);
        let ends = until.is_some_and(|until| until <= time::now_ticks());
        if ends {
            end();
            self.abandon(bytes);
        }
        ends
    }
}
