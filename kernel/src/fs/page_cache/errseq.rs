//! Write-back errors, reported once to each open file (Linux's errseq_t).

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// The bits of the error's number.
const ERRNO: u32 = 0xfff;
/// The error was reported, so that the next one counts anew.
const SEEN: u32 = 0x1000;
/// The increment for another error.
const STEP: u32 = 0x2000;

/// The last error, and the number of errors that were reported in between.
pub struct ErrSeq(AtomicU32);

impl ErrSeq {
    /// No error.
    pub const fn new() -> Self {
        ErrSeq(AtomicU32::new(0))
    }

    /// Records an error.
    pub fn record(&self, error: Errno) {
        _ = self.0.fetch_update(AcqRel, Acquire, |old| {
            let count = old & !(ERRNO | SEEN);
            let count = match old & SEEN {
                0 => count,
                _ => count.wrapping_add(STEP),
            };
            Some(count | u32::from(error.0) & ERRNO)
        });
    }

    /// The state for a new user of the file, which includes an error that was never reported.
    pub fn sample(&self) -> u32 {
        match self.0.load(Acquire) {
            unseen if unseen & SEEN == 0 => 0,
            seen => seen,
        }
    }

    /// Checks for an error since `since`, which is updated.
    ///
    /// # Errors
    /// The last error, if there was one.
    pub fn check(&self, since: &AtomicU32) -> Result<()> {
        let before = since.load(Relaxed);
        let now = self.0.load(Acquire);
        if now == before || now & ERRNO == 0 {
            return Ok(());
        }
        let seen = now | SEEN;
        // Another error in the meantime is reported the next time.
        _ = self.0.compare_exchange(now, seen, AcqRel, Relaxed);
        if since.swap(seen, Relaxed) == seen {
            return Ok(());
        }
        Err(Errno((now & ERRNO) as u16))
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn an_error_of_writing_back_is_told_to_each_once() {
        let errors = ErrSeq::new();
        let (one, other) = (AtomicU32::new(errors.sample()), AtomicU32::new(errors.sample()));
        assert_eq!(errors.check(&one), Ok(()));
        errors.record(Errno::EIO);
        assert_eq!(errors.check(&one), Err(Errno::EIO));
        assert_eq!(errors.check(&one), Ok(()));
        assert_eq!(errors.check(&other), Err(Errno::EIO));
        assert_eq!(errors.check(&other), Ok(()));
        let late = AtomicU32::new(errors.sample());
        assert_eq!(errors.check(&late), Ok(()));
        errors.record(Errno::ENOSPC);
        let heir = AtomicU32::new(errors.sample());
        for since in [&one, &other, &late, &heir] {
            assert_eq!(errors.check(since), Err(Errno::ENOSPC));
            assert_eq!(errors.check(since), Ok(()));
        }
    }
}
