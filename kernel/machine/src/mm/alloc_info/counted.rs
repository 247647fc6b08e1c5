//! The counts.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is allocated of one kind.
pub struct Count {
    bytes: AtomicUsize,
    calls: AtomicUsize,
}

/// Objects of the heap.
pub static HEAP: Count = Count::new();
/// Frames that are not the heap's.
pub static FRAMES: Count = Count::new();

impl Count {
    const fn new() -> Self {
        Count {
            bytes: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    /// The bytes that are allocated, and the number of allocations that they are from.
    pub fn get(&self) -> (usize, usize) {
        (self.bytes.load(Relaxed), self.calls.load(Relaxed))
    }

    pub(in crate::mm) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    pub(in crate::mm) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.calls.fetch_sub(1, Relaxed);
    }
}
