//! What threads read and write by system calls (`/proc/PID/io`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::current;
use crate::errno::{Errno, Result};

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From a file.
    Read,
    /// To a file.
    Write,
}

/// What a thread read and wrote so far, which it alone counts: bytes and calls of each [`Way`].
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
    fn add(&self, way: Way, bytes: usize) {
        add(&self.0[way as usize], bytes as u64);
        add(&self.0[2 + way as usize], 1);
    }

    /// Counts a transfer by the current thread, whose this is, unless there was no file for it;
    /// returns what it came to.
    #[inline(always)]
    pub fn count(&self, way: Way, done: Result<usize>) -> Result<usize> {
        match done {
            Ok(bytes) => self.add(way, bytes),
            Err(error) => self.fail(way, error),
        }
        done
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, way: Way, error: Errno) {
        if error != Errno::EBADF {
            self.add(way, 0);
        }
    }

    /// Adds the counts of a thread that is gone. Under a lock.
    pub(super) fn inherit(&self, from: &Transfers) {
        for (to, from) in self.0.iter().zip(&from.0) {
            add(to, from.load(Relaxed));
        }
    }

    /// What was counted.
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
    /// Both together.
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

/// Counts what the current thread moved from file to file.
pub fn count_both(done: Result<usize>) -> Result<usize> {
    if let Ok(bytes @ 1..) = done {
        current().transfers.add(Way::Read, bytes);
        current().transfers.add(Way::Write, bytes);
    }
    done
}
