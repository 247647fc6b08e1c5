//! A per-CPU counter, whose parts are in cache lines of their own (Linux's `percpu_counter`).

use core::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use crate::arch::{MAX_CPUS, cpu};

#[repr(align(128))]
struct Part(AtomicIsize);

/// A sum, of which each CPU batches less than `BATCH` locally.
pub struct Counter<const BATCH: isize = 32> {
    sum: AtomicIsize,
    parts: [Part; MAX_CPUS],
}

impl<const BATCH: isize> Counter<BATCH> {
    /// A counter of zero.
    pub const fn new() -> Self {
        Counter {
            sum: AtomicIsize::new(0),
            parts: [const { Part(AtomicIsize::new(0)) }; MAX_CPUS],
        }
    }

    /// Adds `number`.
    #[inline]
    pub fn add(&self, number: isize) {
        // The kernel is neither interrupted nor migrated to another CPU here.
        let part = &self.parts[cpu::this().index()].0;
        let mut kept = part.load(Relaxed) + number;
        if kept.abs() >= BATCH {
            self.sum.fetch_add(kept, Relaxed);
            kept = 0;
        }
        part.store(kept, Relaxed);
    }

    /// The sum, without the CPUs' local parts.
    #[inline]
    pub fn approximate(&self) -> usize {
        self.sum.load(Relaxed).max(0) as usize
    }

    /// The sum including the CPUs' local parts; exact if there are no concurrent changes.
    pub fn exactly(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.0.load(Relaxed));
        (self.sum.load(Relaxed) + parts.sum::<isize>()).max(0) as usize
    }
}
