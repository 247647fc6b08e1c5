//! Who writes a file, and who runs it as a program: never both at a time.

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicI32, Ordering::*};

/// What somebody has a file open for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// To write it.
    Write = 1,
    /// To run it.
    Execute = -1,
}

/// How many write a file (above 0), or run it (below 0).
#[derive(Default)]
pub struct Writers(AtomicI32);

impl Writers {
    /// Nobody does.
    pub const fn new() -> Self {
        Writers(AtomicI32::new(0))
    }

    /// One more does; ETXTBSY where others do the other.
    pub fn claim(&self, claim: Claim) -> Result<()> {
        let step = claim as i32;
        let more = |count: i32| (count * step >= 0).then_some(count + step);
        match self.0.fetch_update(AcqRel, Acquire, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::ETXTBSY),
        }
    }

    /// One does no longer.
    pub fn release(&self, claim: Claim) {
        self.0.fetch_sub(claim as i32, AcqRel);
    }

    /// ETXTBSY while it runs.
    pub fn check_writable(&self) -> Result<()> {
        if self.0.load(Acquire) < 0 {
            return Err(Errno::ETXTBSY);
        }
        Ok(())
    }
}
