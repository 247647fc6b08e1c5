//! Replaces an index with a new one while vCPUs run.
//!
//! Each vCPU keeps its own handle to the index that it used last, and that index's publication
//! number. While the number is unchanged, a look-up reads one shared word that is not written, and
//! takes no lock. When it has changed, the vCPU takes the lock once and renews its handle; the old
//! index is freed when the last vCPU drops it.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A lock around a `T`: that of the kernel, of the standard library, or of a model checker.
pub trait Lock<T> {
    /// Runs `f` with exclusive access.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

/// Publishes a value of `P`, a handle that is cheap to clone, such as `Arc<Index>`.
#[derive(Debug)]
pub struct Publication<L> {
    number: AtomicU64,
    current: L,
}

/// One vCPU's handle on the last published value that it has seen.
#[derive(Clone, Debug)]
pub struct Reader<P> {
    number: u64,
    handle: Option<P>,
}

impl<L> Publication<L> {
    /// A publication without a value; `current` must hold `None`.
    pub fn new(current: L) -> Publication<L> {
        Publication {
            number: AtomicU64::new(0),
            current,
        }
    }

    /// Makes every look-up that starts after this use `handle`. Returns the previous handle, so
    /// that the caller decides when to drop it.
    pub fn publish<P>(&self, handle: P) -> Option<P>
    where
        L: Lock<Option<P>>,
    {
        self.current.with(|current| {
            // Changed only under the lock, so that the number matches the handle; the lock also
            // orders them.
            self.number.store(self.number.load(Relaxed) + 1, Relaxed);
            current.replace(handle)
        })
    }
}

impl<P: Clone> Reader<P> {
    /// A reader without a handle; the first look-up gets one.
    pub const fn new() -> Reader<P> {
        Reader {
            number: 0,
            handle: None,
        }
    }

    /// The published value; `None` if nothing was published yet.
    #[inline]
    pub fn get<L: Lock<Option<P>>>(&mut self, publication: &Publication<L>) -> Option<&P> {
        if publication.number.load(Relaxed) != self.number {
            self.reload(publication);
        }
        self.handle.as_ref()
    }

    #[cold]
    fn reload<L: Lock<Option<P>>>(&mut self, publication: &Publication<L>) {
        let old = publication.current.with(|current| {
            self.number = publication.number.load(Relaxed);
            core::mem::replace(&mut self.handle, current.clone())
        });
        // Done outside the lock: this may be the last handle, and dropping it then frees the index.
        drop(old);
    }
}

impl<P: Clone> Default for Reader<P> {
    fn default() -> Reader<P> {
        Reader::new()
    }
}
