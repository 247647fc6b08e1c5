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
    /// How many have not reached it yet.
    due: AtomicU32,
    /// Its threads that fork, each with what was begun meanwhile (Linux's
    /// `signal_struct::multiprocess`).
    forks: Mutex<BTreeMap<i32, u64>>,
}

impl Several {
    /// None.
    pub const fn new() -> Self {
        Several {
            due: AtomicU32::new(0),
            forks: Mutex::new(BTreeMap::new()),
        }
    }

    /// One begins. The tree is locked.
    pub(super) fn begin(&self, number: u32) {
        self.due.fetch_add(1, Relaxed);
        let bit = Set::bit(number);
        for set in self.forks.lock().values_mut() {
            if number == SIGCONT {
                *set &= !STOPS;
            } else if bit & STOPS != 0 {
                *set &= !Set::bit(SIGCONT);
            }
            *set |= bit;
        }
    }

    /// One has reached the process, whose `changed` is told.
    pub(super) fn end(&self, changed: &WaitQueue) {
        if self.due.fetch_sub(1, Release) == 1 {
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
        self.forks.lock().insert(tid, 0);
        if self.due.load(Acquire) != 0 {
            _ = changed.wait_killable(|| self.due.load(Acquire) == 0);
        }
        Ok(Fork { several: self, tid })
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
        forks.get(&self.tid).copied().unwrap_or(0)
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        self.several.forks.lock().remove(&self.tid);
    }
}
