//! Counts of the bytes that threads read and write by system calls (`/proc/PID/io`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::current;
use crate::errno::{Errno, Result};

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a file.
    Read,
    /// To a file.
    Write,
}

/// The bytes and calls that a thread has read and written so far, by [`Direction`]; only the thread
/// itself counts them.
pub struct Transfers([AtomicU64; 4]);

/// Bytes read and written, and calls that read and wrote.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Calls that read and wrote.
    pub calls: [u64; 2],
}

impl Transfers {
    /// Nothing.
    pub const fn new() -> Self {
        Transfers([const { AtomicU64::new(0) }; 4])
    }

    #[inline(always)]
    fn add(&self, direction: Direction, bytes: usize) {
        add(&self.0[direction as usize], bytes as u64);
        add(&self.0[2 + direction as usize], 1);
    }

    /// Counts a transfer by the current thread, which owns these counts, unless it failed for want
    /// of a file; returns its result.
    #[inline(always)]
    pub fn count(&self, direction: Direction, done: Result<usize>) -> Result<usize> {
        match done {
            Ok(bytes) => self.add(direction, bytes),
            Err(error) => self.fail(direction, error),
        }
        done
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, direction: Direction, error: Errno) {
        if error != Errno::EBADF {
            self.add(direction, 0);
        }
    }

    /// Adds the counts of a thread that has ended. Called under a lock.
    pub(super) fn inherit(&self, from: &Transfers) {
        for (to, from) in self.0.iter().zip(&from.0) {
            add(to, from.load(Relaxed));
        }
    }

    /// The counts.
    pub fn sums(&self) -> Sums {
        let [read, written, reads, writes] = self.0.each_ref().map(|count| count.load(Relaxed));
        Sums {
            bytes: [read, written],
            calls: [reads, writes],
        }
    }
}

impl Default for Transfers {
    fn default() -> Self {
        Self::new()
    }
}

impl Sums {
    /// The sum of both.
    pub fn plus(self, other: Sums) -> Sums {
        let both = |one: [u64; 2], other: [u64; 2]| [one[0] + other[0], one[1] + other[1]];
        Sums {
            bytes: both(self.bytes, other.bytes),
            calls: both(self.calls, other.calls),
        }
    }
}

#[inline(always)]
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed) + more, Relaxed);
}

/// Counts bytes that the current thread moved from file to file.
pub fn count_both(done: Result<usize>) -> Result<usize> {
    if let Ok(bytes @ 1..) = done {
        current().transfers.add(Direction::Read, bytes);
        current().transfers.add(Direction::Write, bytes);
    }
    done
}
