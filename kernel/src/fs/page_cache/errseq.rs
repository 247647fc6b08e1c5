//! Write-back errors, reported once to each open file (Linux's errseq_t).

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Bits of the error's number.
const ERRNO: u32 = 0xfff;
/// Somebody was told, so that the next error counts anew.
const SEEN: u32 = 0x1000;
/// One more error.
const STEP: u32 = 0x2000;

/// The last error, and how many there were as far as anybody can tell.
pub struct ErrSeq(AtomicU32);

impl ErrSeq {
    /// No error.
    pub const fn new() -> Self {
        ErrSeq(AtomicU32::new(0))
    }

    /// Notes an error.
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

    /// Where one who begins to use the file stands: an error that nobody was told is theirs too.
    pub fn sample(&self) -> u32 {
        match self.0.load(Acquire) {
            unseen if unseen & SEEN == 0 => 0,
            seen => seen,
        }
    }

    /// The error since `since`, which becomes now.
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
        // Another error since then is told the next time.
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
