use atomics::{AtomicUsize, Ordering::*, const_fn, fence};

/// The length of a list of waiting threads, which wakers can read without the list's lock.
#[derive(Debug)]
pub struct Waiters(AtomicUsize);

impl Waiters {
    const_fn! {
        /// The length of an empty list.
        pub fn new() -> Self {
            Waiters(AtomicUsize::new(0))
        }
    }

    /// Sets the length of the list. The list's lock is held.
    #[inline]
    pub fn set(&self, length: usize) {
        self.0.store(length, Relaxed);
    }

    /// Records that threads were moved from this list to another, with the new lengths. Both locks
    /// are held. A waker that looks at this list and then at the other finds the threads in one of
    /// them.
    pub fn moved(&self, length: usize, to: &Self, others: usize) {
        to.set(others);
        // With the fence of the waker's second look.
        fence(Release);
        self.set(length);
    }

    /// Called when the thread has entered the list, before it checks the condition.
    #[inline]
    pub fn entered(&self) {
        fence(SeqCst);
    }

    /// The number of threads to wake after the condition was changed. A thread that is not among
    /// them sees the change.
    #[inline]
    pub fn after_change(&self) -> usize {
        fence(SeqCst);
        self.get()
    }

    /// The length, which may be outdated.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}
