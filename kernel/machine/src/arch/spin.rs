//! A word-sized lock, which every architecture can exchange in one instruction: on RISC-V a byte
//! takes ten instructions, and a compare-and-exchange a loop.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use lock_api::{GuardSend, RawMutex};

use super::{cpu, text, time};

/// 0 while unlocked. Otherwise the address of the `Cpu` that holds the lock, or of the last one
/// that queued for it; this address is already in a register. With [`TRIED`] set, that CPU took it,
/// or tried to, without waiting.
pub struct Word(AtomicUsize);

const TRIED: usize = 1;
/// Number of seconds that a CPU spins before this is logged, as Linux's soft lockup detector does.
const LONG: u64 = 20;

fn own() -> usize {
    (&raw const *cpu::this()).addr()
}

impl Word {
    /// Waits for the lock, in which this CPU found `before`. Detects a CPU that waits for itself,
    /// which would otherwise hang silently.
    #[cold]
    #[inline(never)]
    fn wait(&self, before: usize) {
        assert!(before != own(), "this CPU holds the lock that it waits for");
        static SAID: AtomicBool = AtomicBool::new(false);
        let end = time::now_ticks() + time::ns_to_ticks(LONG * 1_000_000_000);
        loop {
            for _ in 0..1 << 16 {
                if self.0.load(Relaxed) == 0 && self.0.swap(own(), Acquire) == 0 {
                    return;
                }
                core::hint::spin_loop();
            }
            if time::now_ticks() >= end && !SAID.swap(true, Relaxed) {
                crate::log!("a lock was not to be had for {LONG} s");
                text::log_callers_here();
            }
        }
    }
}

// SAFETY: the CPU that replaces 0 by anything else holds the lock exclusively until 0 is stored;
// the acquire sees everything before the release.
unsafe impl RawMutex for Word {
    const INIT: Self = Word(AtomicUsize::new(0));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        let before = self.0.swap(own(), Acquire);
        if before != 0 {
            self.wait(before);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.swap(own() | TRIED, Acquire) == 0
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(0, Release);
    }
}

/// A spin lock without lock-order checks, from which other locks are built.
pub type SpinMutex<T> = lock_api::Mutex<Word, T>;
/// Holds such a lock until dropped.
pub type SpinMutexGuard<'a, T> = lock_api::MutexGuard<'a, Word, T>;
