//! A lock that is a word, which every architecture exchanges in one go: a byte takes RISC-V ten instructions.

use core::sync::atomic::{AtomicU32, Ordering::*};

use lock_api::{GuardSend, RawMutex};

/// 0 while it is free, 1 while it is held.
pub struct Word(AtomicU32);

// SAFETY: who exchanges 0 for 1 holds the lock, alone until it stores 0; the acquire sees what the release ordered before.
unsafe impl RawMutex for Word {
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "each lock is made from it"
    )]
    const INIT: Self = Word(AtomicU32::new(0));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            while self.0.load(Relaxed) != 0 {
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.swap(1, Acquire) == 0
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(0, Release);
    }
}
