//! The CPU on which a virtual CPU runs.

use atomics::{AtomicUsize, Ordering::*, const_fn, seq_cst};

const NOWHERE: usize = usize::MAX;

/// The CPU on which a virtual CPU runs its guest.
///
/// A sender first stores what it sends, and then looks up where to deliver it. The virtual CPU
/// first records where it runs, or that it leaves, and then looks for what was sent. So at least
/// one of them sees the other.
#[derive(Debug)]
pub struct Presence(AtomicUsize);

impl Presence {
    const_fn! {
        /// Not running.
        pub fn new() -> Self {
            Presence(AtomicUsize::new(NOWHERE))
        }
    }

    /// Records that the virtual CPU is about to enter its guest on CPU `cpu`. Next it looks for
    /// what was sent.
    #[inline]
    pub fn enter(&self, cpu: usize) {
        self.0.store(cpu, SeqCst);
        seq_cst();
    }

    /// Records that the virtual CPU has left its guest.
    #[inline]
    pub fn leave(&self) {
        self.0.store(NOWHERE, SeqCst);
        seq_cst();
    }

    /// The CPU to interrupt after something was sent. None if the virtual CPU sleeps, or looks
    /// before it enters its guest.
    #[inline]
    pub fn cpu(&self) -> Option<usize> {
        Some(self.0.load(SeqCst)).filter(|&cpu| cpu != NOWHERE)
    }
}

impl Default for Presence {
    fn default() -> Self {
        Self::new()
    }
}
