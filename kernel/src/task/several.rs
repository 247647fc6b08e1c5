//! Signals to several processes, and a fork beside them.
//!
//! Whoever sends looks the processes up, and signals each without the tree's lock. A child that enters the tree in between would
//! escape, so its maker finds there that it is itself among them: the child is given up, and made anew after the signal.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::wait::WaitQueue;

/// The signals to several processes that one is among (what Linux's `signal_struct::multiprocess` is for).
pub struct Several {
    begun: AtomicU32,
    /// Those that have not reached it yet.
    due: AtomicU32,
}

impl Several {
    /// None.
    pub const fn new() -> Self {
        Several {
            begun: AtomicU32::new(0),
            due: AtomicU32::new(0),
        }
    }

    /// How many were begun.
    pub fn begun(&self) -> u32 {
        self.begun.load(Acquire)
    }

    /// Whether one of those that were begun has not reached the process.
    pub(super) fn is_due(&self) -> bool {
        self.due.load(Acquire) != 0
    }

    /// One begins. The tree is locked.
    pub(super) fn begin(&self) {
        self.due.fetch_add(1, Relaxed);
        self.begun.fetch_add(1, Release);
    }

    /// One has reached the process, whose `changed` is told.
    pub(super) fn end(&self, changed: &WaitQueue) {
        if self.due.fetch_sub(1, Release) == 1 {
            changed.wake_all();
        }
    }

    /// Waits until those that were begun have reached the process, or the current thread must die.
    pub(super) fn wait(&self, changed: &WaitQueue) {
        _ = changed.wait_killable(|| !self.is_due());
    }
}
