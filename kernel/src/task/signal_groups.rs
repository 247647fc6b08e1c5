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
    /// A thread that forks, mostly the only one, with what was begun meanwhile (Linux's
    /// `signal_struct::multiprocess`).
    first: Option<(i32, u64)>,
    others: BTreeMap<i32, u64>,
}

impl Forks {
    fn add(&mut self, tid: i32) {
        match self.first {
            None => self.first = Some((tid, 0)),
            Some(_) => _ = self.others.insert(tid, 0),
        }
    }

    fn get(&self, tid: i32) -> u64 {
        match self.first {
            Some((first, set)) if first == tid => set,
            _ => self.others.get(&tid).copied().unwrap_or(0),
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut u64> {
        let first = self.first.iter_mut().map(|(_, set)| set);
        first.chain(self.others.values_mut())
    }

    fn remove(&mut self, tid: i32) {
        match self.first {
            Some((first, _)) if first == tid => self.first = None,
            _ => _ = self.others.remove(&tid),
        }
    }
}

impl Several {
    /// None.
    pub const fn new() -> Self {
        Several {
            due: [const { AtomicU32::new(0) }; 2],
            forks: Mutex::new(Forks {
                phase: 0,
                first: None,
                others: BTreeMap::new(),
            }),
        }
    }

    /// One begins, in the phase that this returns. The tree is locked.
    pub(super) fn begin(&self, number: u32) -> usize {
        let mut forks = self.forks.lock();
        self.due[forks.phase].fetch_add(1, Relaxed);
        let bit = Set::bit(number);
        for set in forks.each() {
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
        self.forks.lock().add(tid);
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
        self.several.forks.lock().get(self.tid)
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        self.several.forks.lock().remove(self.tid);
    }
}
