//! The CPUs that may not have seen a new kernel mapping yet.

use crate::atomic::{AtomicU64, Ordering};

/// The number of bits in a word.
pub const CPUS_PER_WORD: usize = u64::BITS as usize;

/// The number of words needed for `cpus` CPUs.
pub const fn words(cpus: usize) -> usize {
    cpus.div_ceil(CPUS_PER_WORD)
}

/// A bit for each CPU. The CPU that makes a new kernel mapping sets all of them; each CPU clears
/// its own when it fences.
///
/// Both sides use one atomic read-modify-write of the word. With a plain store on either side, a
/// bit set between another CPU's load and its store would be lost, and with it a fence (Linux's
/// patch of the RISC-V trap entry had to be fixed for this, and a 32-bit `amoxor.w` misses CPUs 32
/// to 63). All zeroes is a valid value: everything is seen. CPU n has bit `n % 64` of word `n /
/// 64`; the trap entry relies on this, since it does in assembly what [`take`](Unseen::take) does.
#[derive(Debug)]
#[repr(transparent)]
pub struct Unseen<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Unseen<WORDS> {
    /// Every CPU has seen everything.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Unseen([const { AtomicU64::new(0) }; WORDS])
    }

    /// Every CPU has seen everything.
    #[cfg(loom)]
    pub fn new() -> Self {
        Unseen(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Marks new mappings as unseen for CPUs 0 to `cpus` − 1; writes only the words of these CPUs.
    ///
    /// Call it after the entries are stored and before anyone learns an address that they map.
    pub fn mark(&self, cpus: usize) {
        let mut left = cpus;
        for word in &self.0[..words(cpus).min(WORDS)] {
            let present = if left >= CPUS_PER_WORD {
                !0
            } else {
                (1 << left) - 1
            };
            // An `or`, not a store: what an earlier marker released must also reach the CPU that
            // acquires from this one.
            word.fetch_or(present, Ordering::AcqRel);
            left = left.saturating_sub(CPUS_PER_WORD);
        }
    }

    /// Whether CPU `cpu` has unseen mappings; clears its bit. If this returns `true`, that CPU must
    /// fence (all addresses, all ASIDs) and retry its access. Only CPU `cpu` may call this.
    ///
    /// The bit is cleared before the fence: a mapping made in between sets it again.
    #[inline]
    pub fn take(&self, cpu: usize) -> bool {
        let (word, bit) = (&self.0[cpu / CPUS_PER_WORD], 1 << (cpu % CPUS_PER_WORD));
        // Only this CPU clears its bit, so an exclusive-or clears it and touches no other.
        let set = word.load(Ordering::Relaxed) & bit != 0;
        if set {
            word.fetch_xor(bit, Ordering::AcqRel);
        }
        set
    }
}

impl<const WORDS: usize> Default for Unseen<WORDS> {
    fn default() -> Self {
        Unseen::new()
    }
}
