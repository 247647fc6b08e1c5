//! The page cache: the pages of files and block devices on disks. A [`Mapping`] holds those of one
//! file (Linux's address_space), and its [`Backing`] reads them from the disk and writes them back.
//!
//! Locks, in this order: `writing`, for system calls that change the content; a lock of `filling`,
//! while a page is read; `cleaning`, while pages are written back or reclaimed; the locks of
//! address spaces; `pages`.

mod errseq;
mod fill;
pub mod flusher;
mod mappings;
mod reclaim;
mod resize;
#[cfg(feature = "selftest")]
mod selftests;
mod source;
mod stats;
mod write;
mod writeback;

pub use errseq::ErrSeq;
pub use fill::Ahead;
pub use reclaim::{drop_clean, relieve};
pub use stats::Stats;
pub use writeback::sync_all;

use crate::errno::{Errno, Result};
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::number::Number;
use crate::mm::{PAGE_SIZE, ReverseMap};
use crate::sync::{Mutex, SleepMutex};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use radix::Radix;

/// The maximum number of pages that are read at once, and the range covered by a lock of `filling`.
const WINDOW: usize = 32;
/// The maximum number of pages that are written at once.
const BATCH: usize = 64;
/// The number of pages that are removed at a time under the lock.
const REMOVED: usize = 512;
/// The number of locks for reading pages: different windows are read in parallel.
const FILLERS: usize = 4;

/// A reference that keeps a file alive while it is written back by a thread that has not opened it;
/// `None` if the blocks of its pages are never reused.
pub type Grabbed = Option<Arc<dyn Any + Send + Sync>>;

/// Where a mapping's pages are read from and written to. May sleep.
pub trait Backing: Send + Sync {
    /// Keeps the file alive meanwhile (Linux's igrab). `None` if it has been freed, and its blocks
    /// may be reused: then nothing may be written.
    fn grab(&self) -> Option<Grabbed> {
        Some(None)
    }

    /// Fills pages with their content, and with zeroes beyond the end.
    ///
    /// # Errors
    /// EIO, ENOMEM.
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()>;

    /// Writes pages, and waits until they are on the device.
    ///
    /// # Errors
    /// EIO, ENOSPC, ENOMEM.
    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()>;

    /// Allocates space for bytes that are about to be written, with `mapped` by a program that maps
    /// them; returns the end of what was allocated.
    ///
    /// # Errors
    /// ENOSPC: for none of them. EFBIG, EIO.
    fn prepare(&self, _start: u64, end: u64, _mapped: bool) -> Result<u64> {
        Ok(end)
    }

    /// Of the space allocated beyond the end of the file, these bytes were not written.
    fn unprepare(&self, _start: u64, _end: u64) {}

    /// A program may change a page through a mapping; the page is dirty already.
    ///
    /// # Errors
    /// ENOMEM.
    fn changed_mapped(&self) -> Result<()> {
        Ok(())
    }

    /// The length of the file has changed.
    fn resized(&self, _size: u64) {}

    /// Records a write-back error for users of the whole file system.
    fn failed(&self, _error: Errno) {}

    /// Returns when everything written to the device is on its medium.
    ///
    /// # Errors
    /// EIO.
    fn flush(&self) -> Result<()>;
}

/// The pages of a file that are in memory.
pub struct Mapping {
    backing: Arc<dyn Backing>,
    /// The length in bytes.
    size: AtomicU64,
    writing: SleepMutex<()>,
    filling: [SleepMutex<()>; FILLERS],
    /// Counts the beginnings and ends of removals of pages that are freed on the disk, and pages
    /// that were removed while they were being read: what was read meanwhile is stale. The value is
    /// odd during such a removal.
    taken: AtomicUsize,
    cleaning: SleepMutex<()>,
    pages: Mutex<Pages>,
    errors: ErrSeq,
    reverse_map: ReverseMap,
    number: Number,
}

#[derive(Default)]
struct Pages {
    all: Radix<FrameRef>,
    /// Pages that differ from the disk.
    dirty: Radix<()>,
    /// When the first of them became dirty, in ticks.
    since: u64,
    /// Pages that are being read, by the locks of `filling`.
    reading: [Range<usize>; FILLERS],
    /// Where reclaim continues.
    hand: usize,
}

/// The number of pages for this many bytes.
pub fn pages_of(bytes: u64) -> usize {
    bytes.div_ceil(PAGE_SIZE as u64) as usize
}

/// The page of a byte, and its offset there.
fn split(position: u64) -> (usize, usize) {
    let size = PAGE_SIZE as u64;
    ((position / size) as usize, (position % size) as usize)
}

impl Mapping {
    /// The cache of a file of `size` bytes.
    pub fn new(backing: Arc<dyn Backing>, size: u64) -> Result<Arc<Self>> {
        let mapping = try_arc(Mapping {
            backing,
            size: AtomicU64::new(size),
            writing: SleepMutex::new(()),
            filling: [const { SleepMutex::new(()) }; FILLERS],
            taken: AtomicUsize::new(0),
            cleaning: SleepMutex::new(()),
            pages: Mutex::new(Pages::default()),
            errors: ErrSeq::new(),
            reverse_map: ReverseMap::new(),
            number: Number::new(),
        })?;
        mapping.backing.resized(size);
        mappings::add(&mapping)?;
        Ok(mapping)
    }

    /// See [`Backing::grab`].
    fn grab(&self) -> Option<Grabbed> {
        self.backing.grab()
    }

    /// The length in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Acquire)
    }

    /// The write-back errors.
    pub fn errors(&self) -> &ErrSeq {
        &self.errors
    }

    /// Records a write-back error.
    pub fn record(&self, error: Errno) {
        self.errors.record(error);
        self.backing.failed(error);
    }

    fn page(&self, index: usize) -> Option<FrameRef> {
        self.pages.lock().all.get(index).cloned()
    }

    /// Inserts a page if there is none, and returns the one that is there now.
    fn insert(&self, index: usize, fresh: FrameRef) -> Result<FrameRef> {
        self.pages.lock().insert(index, fresh)
    }

    /// Removes pages, including dirty ones. May sleep.
    fn remove(&self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at = self.pages.lock().remove_some(at..range.end);
            cond_resched();
        }
    }

    /// Whether it has dirty pages.
    pub fn is_dirty(&self) -> bool {
        !self.pages.lock().dirty.is_empty()
    }
}

impl Pages {
    fn insert(&mut self, index: usize, fresh: FrameRef) -> Result<FrameRef> {
        if let Some(page) = self.all.get(index) {
            return Ok(page.clone());
        }
        let inserted = self.all.insert(index, fresh.clone());
        inserted.map_err(|_| Errno::ENOMEM)?;
        stats::cached(1);
        Ok(fresh)
    }

    /// Marks a present page as dirty.
    fn set_dirty(&mut self, index: usize) -> Result<()> {
        if self.dirty.is_empty() {
            self.since = crate::arch::time::now_ticks();
        }
        let before = self.dirty.insert(index, ());
        if before.map_err(|_| Errno::ENOMEM)?.is_none() {
            stats::dirtied(1);
        }
        Ok(())
    }

    /// Removes some pages at the start of a range; returns where to continue.
    fn remove_some(&mut self, range: Range<usize>) -> usize {
        let next = self.all.next_item(range.start);
        let Some(first) = next.filter(|&next| next < range.end) else {
            return range.end;
        };
        let end = first.saturating_add(REMOVED).min(range.end);
        self.remove(first, end - 1);
        end
    }

    /// Removes pages, including dirty ones.
    fn remove(&mut self, first: usize, last: usize) {
        let (mut pages, mut dirty) = (0, 0);
        self.all.remove_range(first, last, &mut |page| {
            pages += 1;
            drop(page);
        });
        self.dirty.remove_range(first, last, &mut |()| dirty += 1);
        stats::cached(-pages);
        stats::dirtied(-dirty);
    }
}

impl Drop for Mapping {
    /// Its file is closed, and was written back before that, or is deleted. May sleep.
    fn drop(&mut self) {
        self.remove(0..usize::MAX);
        mappings::remove(self.number.get());
    }
}
