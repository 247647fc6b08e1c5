//! Statistics of the page cache, summed over all files.

use core::sync::atomic::{AtomicIsize, Ordering::*};

static CACHED: AtomicIsize = AtomicIsize::new(0);
static DIRTY: AtomicIsize = AtomicIsize::new(0);
static WRITTEN_BACK: AtomicIsize = AtomicIsize::new(0);

/// Counts of pages.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    /// Pages in the cache.
    pub cached: usize,
    /// Dirty pages.
    pub dirty: usize,
    /// Pages being written.
    pub writeback: usize,
}

impl Stats {
    /// The present counts.
    pub fn now() -> Self {
        let count = |of: &AtomicIsize| of.load(Relaxed).max(0) as usize;
        Stats {
            cached: count(&CACHED),
            dirty: count(&DIRTY),
            writeback: count(&WRITTEN_BACK),
        }
    }
}

/// Adds to the pages in the cache.
pub(super) fn cached(pages: isize) {
    CACHED.fetch_add(pages, Relaxed);
}

/// Adds to the dirty pages.
pub(super) fn dirtied(pages: isize) {
    DIRTY.fetch_add(pages, Relaxed);
}

/// Adds to the pages being written.
pub(super) fn writing(pages: isize) {
    WRITTEN_BACK.fetch_add(pages, Relaxed);
}
