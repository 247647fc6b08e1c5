//! The context that each CPU runs, visible to the other CPUs.

use atomics::{AtomicU64, Ordering::*, const_fn};

use crate::Context;

/// The context that a CPU runs. The CPU writes it both before and after it changes its tables, and
/// in between it counts as running both.
#[derive(Debug)]
#[repr(align(128))]
pub struct Active {
    /// Written before the change; 0 from a rollover to the CPU's next switch, when it may run any
    /// context.
    pub(crate) announced: AtomicU64,
    /// Written after the change.
    pub(crate) loaded: AtomicU64,
}

impl Active {
    const_fn! {
        /// The context of a CPU without an address space.
        pub(crate) fn new() -> Self {
            Active {
                announced: AtomicU64::new(0),
                loaded: AtomicU64::new(Context::NONE.0),
            }
        }
    }

    /// Whether the CPU runs, or may run, the space with the identifier `id`.
    #[inline]
    pub fn may_run(&self, id: u16) -> bool {
        let announced = self.announced.load(Acquire);
        announced == 0 || announced as u16 == id || self.loaded.load(Acquire) as u16 == id
    }

    /// The context for which the CPU last changed its tables. For use by the CPU itself.
    #[inline]
    pub fn loaded(&self) -> Context {
        Context(self.loaded.load(Relaxed))
    }
}
