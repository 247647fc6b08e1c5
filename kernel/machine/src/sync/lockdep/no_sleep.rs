//! Sections in which a CPU must not sleep.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::arch::{MAX_CPUS, cpu};

/// The nesting depth of each CPU. Only the CPU itself changes it.
static COUNT: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

fn count() -> &'static AtomicU32 {
    &COUNT[cpu::this().index()]
}

/// Whether this CPU is in such a section.
pub(super) fn is_atomic() -> bool {
    count().load(Relaxed) != 0
}

/// A section in which the CPU must not sleep, until dropped.
pub struct NoSleep(());

impl NoSleep {
    /// Begins a section.
    pub fn begin() -> Self {
        count().fetch_add(1, Relaxed);
        NoSleep(())
    }

    /// Calls `f`, which may sleep, outside the innermost section of this CPU, if there is one.
    pub fn lift<T>(f: impl FnOnce() -> T) -> T {
        let lifted = count().load(Relaxed).min(1);
        count().fetch_sub(lifted, Relaxed);
        let done = f();
        // The count of the CPU on which the thread continues.
        count().fetch_add(lifted, Relaxed);
        done
    }
}

impl Drop for NoSleep {
    fn drop(&mut self) {
        count().fetch_sub(1, Relaxed);
    }
}
