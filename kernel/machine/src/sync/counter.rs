//! A sum that CPUs count apart, each in a line of its own (Linux's `percpu_counter`).

use core::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use crate::arch::{MAX_CPUS, cpu};

#[repr(align(128))]
struct Part(AtomicIsize);

/// A sum, of which a CPU keeps less than `BATCH` for itself.
pub struct Counter<const BATCH: isize = 32> {
    sum: AtomicIsize,
    parts: [Part; MAX_CPUS],
}

impl<const BATCH: isize> Counter<BATCH> {
    /// Zero.
    pub const fn new() -> Self {
        Counter {
            sum: AtomicIsize::new(0),
            parts: [const { Part(AtomicIsize::new(0)) }; MAX_CPUS],
        }
    }

    /// Adds `number`.
    #[inline]
    pub fn add(&self, number: isize) {
        // The kernel is neither interrupted nor moved to another CPU here.
        let part = &self.parts[cpu::this().index()].0;
        let mut kept = part.load(Relaxed) + number;
        if kept.abs() >= BATCH {
            self.sum.fetch_add(kept, Relaxed);
            kept = 0;
        }
        part.store(kept, Relaxed);
    }

    /// The sum, without what CPUs keep for themselves.
    #[inline]
    pub fn approximate(&self) -> usize {
        self.sum.load(Relaxed).max(0) as usize
    }

    /// The sum, as far as it stands still.
    pub fn exactly(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.0.load(Relaxed));
        (self.sum.load(Relaxed) + parts.sum::<isize>()).max(0) as usize
    }
}
