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

/// Pages that are read at once at most, and what one lock of `filling` covers.
const WINDOW: usize = 32;
/// Pages that are written at once at most.
const BATCH: usize = 64;
/// Indices whose pages are taken away under the lock.
const REMOVED: usize = 512;
/// Locks under which pages are read: those of different windows are read side by side.
const FILLERS: usize = 4;

/// What keeps a file from ending while it is written back by one who has not opened it; nothing
/// where the place of the pages is never another's.
pub type Grabbed = Option<Arc<dyn Any + Send + Sync>>;

/// What a mapping's pages come from and go to. May sleep.
pub trait Backing: Send + Sync {
    /// Keeps the file from ending meanwhile (Linux's igrab). `None` where it has ended, and its
    /// place may be another's: nothing may be written then.
    fn grab(&self) -> Option<Grabbed> {
        Some(None)
    }

    /// Fills pages with their content; what lies behind its end are zeroes.
    ///
    /// # Errors
    /// EIO, ENOMEM.
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()>;

    /// Writes pages, and waits until the device has them.
    ///
    /// # Errors
    /// EIO, ENOSPC, ENOMEM.
    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()>;

    /// Finds place for bytes that are about to be written, `mapped`: by a program that maps them;
    /// returns up to where.
    ///
    /// # Errors
    /// ENOSPC: for none of them. EFBIG, EIO.
    fn prepare(&self, _start: u64, end: u64, _mapped: bool) -> Result<u64> {
        Ok(end)
    }

    /// Of what was found behind the end of the file, these bytes did not come.
    fn unprepare(&self, _start: u64, _end: u64) {}

    /// A program may change a page through a mapping, which counts as changed by now.
    ///
    /// # Errors
    /// ENOMEM.
    fn changed_mapped(&self) -> Result<()> {
        Ok(())
    }

    /// The file has another length now.
    fn resized(&self, _size: u64) {}

    /// Something could not be written back: who asks for the whole file system is told, too.
    fn failed(&self, _error: Errno) {}

    /// Returns when the device has all that was written on its medium.
    ///
    /// # Errors
    /// EIO.
    fn flush(&self) -> Result<()>;
}

/// The pages of a file that are in memory.
pub struct Mapping {
    backing: Arc<dyn Backing>,
    /// Bytes.
    size: AtomicU64,
    writing: SleepMutex<()>,
    filling: [SleepMutex<()>; FILLERS],
    /// Counts the beginnings and ends of what takes pages away that the disk has no more, and pages
    /// that were taken away while they were read: what was read meanwhile is old. Odd in the midst
    /// of the former.
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
    /// Those that the disk does not have like this.
    dirty: Radix<()>,
    /// When the first of them became so, in ticks.
    since: u64,
    /// Those that are read at the moment, by the locks of `filling`.
    reading: [Range<usize>; FILLERS],
    /// Where reclaim goes on.
    hand: usize,
}

/// The number of pages that hold this many bytes.
pub fn pages_of(bytes: u64) -> usize {
    bytes.div_ceil(PAGE_SIZE as u64) as usize
}

/// The page of a byte, and where in it the byte lies.
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

    /// The errors of writing it back.
    pub fn errors(&self) -> &ErrSeq {
        &self.errors
    }

    /// Notes an error of writing it back.
    pub fn record(&self, error: Errno) {
        self.errors.record(error);
        self.backing.failed(error);
    }

    fn page(&self, index: usize) -> Option<FrameRef> {
        self.pages.lock().all.get(index).cloned()
    }

    /// Puts a page where there is none, and returns the one that is there now.
    fn insert(&self, index: usize, fresh: FrameRef) -> Result<FrameRef> {
        self.pages.lock().insert(index, fresh)
    }

    /// Takes pages away, changed ones too. May sleep.
    fn remove(&self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at = self.pages.lock().remove_some(at..range.end);
            cond_resched();
        }
    }

    /// Whether there are changes that the disk does not have.
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

    /// Counts a page that is there as changed.
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

    /// Takes away some pages of the start of a range; returns where to go on.
    fn remove_some(&mut self, range: Range<usize>) -> usize {
        let next = self.all.next_item(range.start);
        let Some(first) = next.filter(|&next| next < range.end) else {
            return range.end;
        };
        let end = first.saturating_add(REMOVED).min(range.end);
        self.remove(first, end - 1);
        end
    }

    /// Takes pages away, changed ones too.
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
    /// Its file is closed, and so was written back before, or is gone. May sleep.
    fn drop(&mut self) {
        self.remove(0..usize::MAX);
        mappings::remove(self.number.get());
    }
}
