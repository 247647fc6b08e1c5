//! The CPUs that may not have seen a new kernel mapping yet.

use crate::atomic::{AtomicU64, Ordering};

/// Bits in a word.
pub const CPUS_PER_WORD: usize = u64::BITS as usize;

/// The words that `cpus` CPUs need.
pub const fn words(cpus: usize) -> usize {
    cpus.div_ceil(CPUS_PER_WORD)
}

/// A bit for each CPU: set for all by the CPU that makes a new kernel mapping, cleared by each CPU
/// for itself when it fences.
///
/// Both sides are one atomic read-modify-write of the word. With a plain store on either, a bit set
/// between another's load and its store would be lost, and with it a fence (Linux's patch of the
/// RISC-V trap entry had to be mended so, and a 32-bit `amoxor.w` misses CPUs 32 to 63). All zeroes
/// is valid: everything seen. CPU n's bit is bit `n % 64` of word `n / 64`, for the trap entry,
/// which does in assembly what [`take`](Unseen::take) does.
#[derive(Debug)]
#[repr(transparent)]
pub struct Unseen<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Unseen<WORDS> {
    /// Everything seen by all.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Unseen([const { AtomicU64::new(0) }; WORDS])
    }

    /// Everything seen by all.
    #[cfg(loom)]
    pub fn new() -> Self {
        Unseen(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Notifies CPUs 0 to `cpus` − 1 of new mappings; only as many words are written as these CPUs
    /// need.
    ///
    /// Call it after the entries were stored and before anybody learns an address that they map.
    pub fn mark(&self, cpus: usize) {
        let mut left = cpus;
        for word in &self.0[..words(cpus).min(WORDS)] {
            let present = if left >= CPUS_PER_WORD {
                !0
            } else {
                (1 << left) - 1
            };
            // An `or`, not a store: what an earlier marker released must reach the CPU that
            // acquires from this one.
            word.fetch_or(present, Ordering::AcqRel);
            left = left.saturating_sub(CPUS_PER_WORD);
        }
    }

    /// Whether CPU `cpu` has new mappings to see; clears its bit. On `true`, that CPU must fence
    /// (all addresses, all ASIDs) and try its access again. Only CPU `cpu` may call this.
    ///
    /// The bit goes before the fence: a mapping made in between sets it again.
    #[inline]
    pub fn take(&self, cpu: usize) -> bool {
        let (word, bit) = (&self.0[cpu / CPUS_PER_WORD], 1 << (cpu % CPUS_PER_WORD));
        // Set bits stay set but for this CPU's own doing, so an exclusive-or clears this one and
        // touches no other.
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
