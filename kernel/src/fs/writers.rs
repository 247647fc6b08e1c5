//! Counts of a file's readers, its writers, and the processes that execute it: a running program
//! cannot be written.

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

/// The purpose for which a file is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Only for reading.
    Read = 0,
    /// For writing.
    Write = 1,
    /// For execution.
    Execute = -1,
}

/// The number of writers of a file (positive), or of processes that execute it (negative), and the
/// number of readers.
#[derive(Default)]
pub struct Writers {
    writers: AtomicI32,
    readers: AtomicU32,
}

impl Writers {
    /// No users.
    pub const fn new() -> Self {
        Writers {
            writers: AtomicI32::new(0),
            readers: AtomicU32::new(0),
        }
    }

    /// Counts a claim; ETXTBSY if it conflicts with another. The caller then checks for leases,
    /// while a thread that sets a lease checks for claims afterwards, so that one sees the other.
    pub fn claim(&self, claim: Claim) -> Result<()> {
        if claim == Claim::Read {
            self.readers.fetch_add(1, SeqCst);
            return Ok(());
        }
        let step = claim as i32;
        let more = |count: i32| (count * step >= 0).then_some(count + step);
        match self.writers.fetch_update(SeqCst, Acquire, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::ETXTBSY),
        }
    }

    /// Releases a claim.
    pub fn release(&self, claim: Claim) {
        match claim {
            Claim::Read => self.readers.fetch_sub(1, AcqRel) as i32,
            _ => self.writers.fetch_sub(claim as i32, AcqRel),
        };
    }

    /// ETXTBSY while it is executed.
    pub fn check_writable(&self) -> Result<()> {
        if self.writers.load(Acquire) < 0 {
            return Err(Errno::ETXTBSY);
        }
        Ok(())
    }

    /// Whether it has writers.
    pub fn is_written(&self) -> bool {
        self.writers.load(SeqCst) > 0
    }

    /// Whether the caller's claim `own` is the only one.
    pub fn is_alone(&self, own: Claim) -> bool {
        let readers = u32::from(own == Claim::Read);
        self.writers.load(SeqCst) == own as i32 && self.readers.load(SeqCst) == readers
    }
}
