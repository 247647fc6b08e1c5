//! The context that each CPU runs, visible to the other CPUs.

use atomics::{AtomicU64, Ordering::*, const_fn};

use crate::Context;

/// The context that a CPU runs. The CPU writes it before and after it changes its tables, so that
/// between the two it counts as running both.
#[derive(Debug)]
#[repr(align(128))]
pub struct Active {
    /// Written before; 0 from a rollover to the CPU's next switch: then it may run any.
    pub(crate) announced: AtomicU64,
    /// Written after.
    pub(crate) loaded: AtomicU64,
}

impl Active {
    const_fn! {
        /// The context of a CPU without a space.
        pub(crate) fn new() -> Self {
            Active {
                announced: AtomicU64::new(0),
                loaded: AtomicU64::new(Context::NONE.0),
            }
        }
    }

    /// Whether the CPU runs, or may run, the space that has identifier `id`.
    #[inline]
    pub fn may_run(&self, id: u16) -> bool {
        let announced = self.announced.load(Acquire);
        announced == 0 || announced as u16 == id || self.loaded.load(Acquire) as u16 == id
    }

    /// The context of the CPU's tables when it last changed them. For the CPU itself.
    #[inline]
    pub fn loaded(&self) -> Context {
        Context(self.loaded.load(Relaxed))
    }
}
