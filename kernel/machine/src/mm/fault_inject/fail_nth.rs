//! The count of each thread.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::arch::task;

/// Which of a thread's allocations fails; a field of the thread.
pub struct FailNth {
    /// The number of allocations up to the one that fails; 0 if none is to fail.
    nth: AtomicU32,
    /// The nesting depth of [`NoFail`].
    exempt: AtomicU32,
}

impl FailNth {
    /// None.
    pub const fn new() -> Self {
        FailNth {
            nth: AtomicU32::new(0),
            exempt: AtomicU32::new(0),
        }
    }

    /// The number of allocations up to the one that fails; 0 if it failed, or none is to fail.
    pub fn get(&self) -> u32 {
        self.nth.load(Relaxed)
    }

    /// Lets the `nth` allocation from now on fail; 0 for none.
    pub fn set(&self, nth: u32) {
        self.nth.store(nth, Relaxed);
    }

    fn should_fail(&self) -> bool {
        if self.exempt.load(Relaxed) != 0 {
            return false;
        }
        let counted = |nth: u32| nth.checked_sub(1);
        self.nth.fetch_update(Relaxed, Relaxed, counted) == Ok(1)
    }
}

/// Counts an allocation of the current thread; whether it is to fail.
#[inline]
pub(in crate::mm) fn should_fail() -> bool {
    task::try_state().is_some_and(|thread| thread.fail_nth.should_fail())
}

/// The current thread's allocations are not counted until this is dropped: they are not made for
/// its program, or the kernel's reserve has them.
#[must_use]
pub struct NoFail(Option<&'static FailNth>);

impl NoFail {
    /// Begins a section without failures.
    pub fn begin() -> Self {
        let thread = task::try_state().map(|thread| &thread.fail_nth);
        if let Some(thread) = thread {
            thread.exempt.fetch_add(1, Relaxed);
        }
        NoFail(thread)
    }
}

impl Drop for NoFail {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            thread.exempt.fetch_sub(1, Relaxed);
        }
    }
}
