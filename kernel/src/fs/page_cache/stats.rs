//! Statistics of the page cache, summed over all files.

use core::sync::atomic::{AtomicIsize, Ordering::*};

static CACHED: AtomicIsize = AtomicIsize::new(0);
static DIRTY: AtomicIsize = AtomicIsize::new(0);
static WRITTEN_BACK: AtomicIsize = AtomicIsize::new(0);

/// Pages.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    /// In the cache.
    pub cached: usize,
    /// Changed, and not on the disk.
    pub dirty: usize,
    /// On their way to the disk.
    pub writeback: usize,
}

impl Stats {
    /// The counts by now.
    pub fn now() -> Self {
        let count = |of: &AtomicIsize| of.load(Relaxed).max(0) as usize;
        Stats {
            cached: count(&CACHED),
            dirty: count(&DIRTY),
            writeback: count(&WRITTEN_BACK),
        }
    }
}

/// So many more pages are in the cache.
pub(super) fn cached(pages: isize) {
    CACHED.fetch_add(pages, Relaxed);
}

/// So many more pages are changed.
pub(super) fn dirtied(pages: isize) {
    DIRTY.fetch_add(pages, Relaxed);
}

/// So many more pages are on their way.
pub(super) fn writing(pages: isize) {
    WRITTEN_BACK.fetch_add(pages, Relaxed);
}
