use atomics::{AtomicUsize, Ordering::*, const_fn, fence};

/// The length of a list of threads that wait for a condition, for wakers to see without the list's
/// lock.
#[derive(Debug)]
pub struct Waiters(AtomicUsize);

impl Waiters {
    const_fn! {
        /// The length of an empty list.
        pub fn new() -> Self {
            Waiters(AtomicUsize::new(0))
        }
    }

    /// The list has this length now. With its lock.
    #[inline]
    pub fn set(&self, length: usize) {
        self.0.store(length, Relaxed);
    }

    /// Threads went from this list to another, which have these lengths now. With both locks. A
    /// waker that looks at this list and then at the other finds them in one.
    pub fn moved(&self, length: usize, to: &Self, others: usize) {
        to.set(others);
        // With the fence of the waker's second look.
        fence(Release);
        self.set(length);
    }

    /// The thread has entered the list, and looks at the condition next.
    #[inline]
    pub fn entered(&self) {
        fence(SeqCst);
    }

    /// How many wakers have to look for, after they changed the condition. A thread that is not
    /// among them sees the change.
    #[inline]
    pub fn after_change(&self) -> usize {
        fence(SeqCst);
        self.get()
    }

    /// The length, as it is or was.
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
