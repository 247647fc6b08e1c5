//! Signals to several processes, and a fork beside them.
//!
//! Whoever sends looks the processes up, and signals each without the tree's lock. A child that
//! enters the tree in between would escape, so each process collects for its forks under way what
//! is begun to be sent, and the child begins with that.

extern crate alloc;

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU32, Ordering::*};

use linux_raw_sys::general::SIGCONT;

use super::signal::{STOPS, Set};
use super::wait_queue::WaitQueue;
use crate::errno::Result;
use crate::mm::heap::check_room;
use crate::sync::Mutex;

/// The signals to several processes that one is among.
pub struct Several {
    /// How many have not reached it yet that were begun in each of two phases: a fork waits for
    /// those of one, while more begin in the other.
    due: [AtomicU32; 2],
    forks: Mutex<Forks>,
}

struct Forks {
    /// The phase that signals begin in.
    phase: usize,
    /// The threads that fork, each with what was begun meanwhile (Linux's
    /// `signal_struct::multiprocess`).
    threads: BTreeMap<i32, u64>,
}

impl Several {
    /// None.
    pub const fn new() -> Self {
        Several {
            due: [const { AtomicU32::new(0) }; 2],
            forks: Mutex::new(Forks {
                phase: 0,
                threads: BTreeMap::new(),
            }),
        }
    }

    /// One begins, in the phase that this returns. The tree is locked.
    pub(super) fn begin(&self, number: u32) -> usize {
        let mut forks = self.forks.lock();
        self.due[forks.phase].fetch_add(1, Relaxed);
        let bit = Set::bit(number);
        for set in forks.threads.values_mut() {
            if number == SIGCONT {
                *set &= !STOPS;
            } else if bit & STOPS != 0 {
                *set &= !Set::bit(SIGCONT);
            }
            *set |= bit;
        }
        forks.phase
    }

    /// One of a phase has reached the process, whose `changed` is told.
    pub(super) fn end(&self, phase: usize, changed: &WaitQueue) {
        if self.due[phase].fetch_sub(1, Release) == 1 {
            changed.wake_all();
        }
    }

    /// Thread `tid` begins to fork: what was begun before has reached the process when this
    /// returns, or the thread must die.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn fork(&self, tid: i32, changed: &WaitQueue) -> Result<Fork<'_>> {
        check_room()?;
        self.forks.lock().threads.insert(tid, 0);
        let fork = Fork { several: self, tid };
        let is_done = |phase: usize| self.due[phase].load(Acquire) == 0;
        loop {
            let mut forks = self.forks.lock();
            let (present, other) = (forks.phase, 1 - forks.phase);
            // That another thread waits for, or both did, before this one began.
            let free = is_done(other);
            let done = free && is_done(present);
            if free && !done {
                forks.phase = other;
            }
            drop(forks);
            let old = if free { present } else { other };
            let waited = done || changed.wait_killable(|| is_done(old)).is_ok();
            if free || !waited {
                return Ok(fork);
            }
        }
    }
}

/// A thread forks while it lives.
pub struct Fork<'a> {
    several: &'a Several,
    tid: i32,
}

impl Fork<'_> {
    /// The signals that were begun to be sent since it began. The tree is locked.
    pub(super) fn signals(&self) -> u64 {
        let forks = self.several.forks.lock();
        forks.threads.get(&self.tid).copied().unwrap_or(0)
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        self.several.forks.lock().threads.remove(&self.tid);
    }
}
