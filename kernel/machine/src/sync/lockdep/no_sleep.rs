//! Where a CPU must not sleep.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::arch::{MAX_CPUS, cpu};

/// In how many such places each CPU is. Only the CPU itself changes its count.
static COUNT: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

fn count() -> &'static AtomicU32 {
    &COUNT[cpu::this().index()]
}

/// Whether this CPU is in one.
pub(super) fn is_atomic() -> bool {
    count().load(Relaxed) != 0
}

/// The CPU must not sleep while this lives.
pub struct NoSleep(());

impl NoSleep {
    /// From here on.
    pub fn begin() -> Self {
        count().fetch_add(1, Relaxed);
        NoSleep(())
    }

    /// Calls `f`, which may sleep, where this CPU is in such a place, or in none.
    pub fn lift<T>(f: impl FnOnce() -> T) -> T {
        let lifted = count().load(Relaxed).min(1);
        count().fetch_sub(lifted, Relaxed);
        let done = f();
        // That of the CPU where it goes on.
        count().fetch_add(lifted, Relaxed);
        done
    }
}

impl Drop for NoSleep {
    fn drop(&mut self) {
        count().fetch_sub(1, Relaxed);
    }
}
