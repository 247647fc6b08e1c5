//! The CPU on which a virtual CPU runs.

use atomics::{AtomicUsize, Ordering::*, const_fn, seq_cst};

const NOWHERE: usize = usize::MAX;

/// The CPU on which a virtual CPU runs its guest.
///
/// Others send something first, and then look where to deliver it. The virtual CPU says first where
/// it is, or that it leaves, and then looks at what was sent. So at least one sees the other.
#[derive(Debug)]
pub struct Presence(AtomicUsize);

impl Presence {
    const_fn! {
        /// Nowhere.
        pub fn new() -> Self {
            Presence(AtomicUsize::new(NOWHERE))
        }
    }

    /// The virtual CPU is about to enter its guest on CPU `cpu`, and looks at what was sent next.
    #[inline]
    pub fn enter(&self, cpu: usize) {
        self.0.store(cpu, SeqCst);
        seq_cst();
    }

    /// The virtual CPU has left its guest.
    #[inline]
    pub fn leave(&self) {
        self.0.store(NOWHERE, SeqCst);
        seq_cst();
    }

    /// The CPU to be interrupted for something that was sent before. None: it sleeps, or looks
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
