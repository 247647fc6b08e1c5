//! Signals that came and were not delivered yet.

extern crate alloc;

use alloc::collections::VecDeque;

use linux_raw_sys::general::SI_TIMER;

use super::Info;
use super::mask::{SYNCHRONOUS, Set};
use crate::errno::{Errno, Result};

/// The first real-time signal: from here on each is queued as often as it comes.
const REAL_TIME: u32 = 32;
/// The most that one queue holds.
const MOST: usize = 16384;

/// Whether it is queued as often as it comes: so is that of a timer, which goes on once it is taken.
pub(super) fn is_queued(info: &Info) -> bool {
    info.number() >= REAL_TIME || info.code == SI_TIMER
}

/// Signals waiting for a thread or for a process.
pub struct Pending {
    set: u64,
    queue: VecDeque<Info>,
}

impl Pending {
    /// None.
    pub const fn new() -> Self {
        Pending {
            set: 0,
            queue: VecDeque::new(),
        }
    }

    /// Which are there.
    #[inline]
    pub fn set(&self) -> u64 {
        self.set
    }

    /// Adds a signal to a queue of `most` at most. What is not queued as often as it comes is not added again.
    ///
    /// # Errors
    /// EAGAIN: a timer's or a real-time signal, sent with a value, finds no room.
    pub fn add(&mut self, info: Info, most: usize) -> Result<()> {
        let bit = Set::bit(info.number());
        if !is_queued(&info) && self.set & bit != 0 {
            return Ok(());
        }
        if self.queue.len() < most.min(MOST) && self.queue.try_reserve(1).is_ok() {
            self.queue.push_back(info);
        } else if is_queued(&info) && info.code != 0 {
            return Err(Errno::EAGAIN);
        }
        self.set |= bit;
        Ok(())
    }

    /// Takes the signal that is to be delivered first of those not `blocked`: those of the thread's own faults first, then by
    /// number.
    pub fn take(&mut self, blocked: u64) -> Option<Info> {
        let ready = self.set & !blocked;
        if ready == 0 {
            return None;
        }
        let first = if ready & SYNCHRONOUS != 0 {
            ready & SYNCHRONOUS
        } else {
            ready
        };
        let number = first.trailing_zeros() + 1;
        let is_it = |info: &Info| info.number() == number;
        let info = self
            .queue
            .iter()
            .position(is_it)
            .and_then(|at| self.queue.remove(at));
        if !self.queue.iter().any(is_it) {
            self.set &= !Set::bit(number);
        }
        // Without room only the number was kept.
        Some(info.unwrap_or_else(|| Info::kernel(number)))
    }

    /// Forgets the signals in `set`.
    pub fn discard(&mut self, set: u64) {
        if self.set & set != 0 {
            self.set &= !set;
            self.queue.retain(|info| Set::bit(info.number()) & set == 0);
        }
    }
}
