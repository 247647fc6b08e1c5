//! Memory shared between processes without a file: MAP_SHARED | MAP_ANONYMOUS.

extern crate alloc;

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use radix::Radix;

use super::frame::{self, FrameRef};
use super::heap::try_arc;
use super::number::Number;
use super::vma::PageSource;
use super::{commit, shmem_account};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::{cond_resched, cond_resched_killable};

/// Number of pages that are freed or cleared at a time.
const AT_ONCE: usize = 1024;

/// Pages that are allocated, zeroed, on first access.
pub struct SharedPages {
    pages: Mutex<Radix<FrameRef>>,
    len: usize,
    /// Whether all pages were committed at once, instead of each when it is allocated.
    reserved: bool,
    /// The key of a segment of System V shared memory.
    key: Option<i32>,
    number: Number,
}

impl SharedPages {
    /// Creates an object of `len` pages, all committed at once if they are `reserved`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(len: usize, reserved: bool) -> Result<Arc<Self>> {
        Self::named(len, None, reserved)
    }

    /// As [`SharedPages::new`], for a segment of System V shared memory with `key`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn named(len: usize, key: Option<i32>, reserved: bool) -> Result<Arc<Self>> {
        if reserved {
            commit::take(len)?;
        }
        let pages = SharedPages {
            pages: Mutex::new(Radix::new()),
            len,
            reserved,
            key,
            number: Number::new(),
        };
        try_arc(pages)
    }

    /// Whether it outlives its mappings.
    fn is_segment(&self) -> bool {
        self.key.is_some()
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        let mut pages = self.pages.lock();
        let promised = match self.reserved {
            true => self.len,
            false => pages.len(),
        };
        let counted = match self.is_segment() {
            true => pages.len(),
            false => 0,
        };
        shmem_account::give(counted);
        commit::give(promised - counted);
        while pages.len() > AT_ONCE
            && let Some(first) = pages.next_item(0)
        {
            pages.remove_range(first, first.saturating_add(AT_ONCE), &mut drop);
            drop(pages);
            cond_resched();
            pages = self.pages.lock();
        }
    }
}

impl PageSource for SharedPages {
    fn object(&self) -> usize {
        self.number.get()
    }

    fn page(&self, index: usize, _write: bool) -> Result<FrameRef> {
        if index >= self.len {
            return Err(Errno::ENXIO);
        }
        let mut pages = self.pages.lock();
        if let Some(frame) = pages.get(index) {
            return Ok(frame.clone());
        }
        if self.is_segment() {
            shmem_account::check_room()?;
        }
        let frame = frame::alloc_zeroed()?;
        if !self.reserved {
            commit::take(1).map_err(|_| Errno::ENOSPC)?;
        }
        let inserted = pages.insert(index, frame.clone());
        inserted.map_err(|_| {
            commit::give(usize::from(!self.reserved));
            Errno::ENOMEM
        })?;
        if self.is_segment() {
            shmem_account::keep_promise();
        }
        Ok(frame)
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        self.pages.lock().copy_to(first, frames, FrameRef::clone);
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.pages.lock().next_item(first)
    }

    fn len_pages(&self) -> usize {
        self.len
    }

    fn may_have_tags(&self) -> bool {
        true
    }

    /// Zeroes the frames in place, since others may map them.
    fn clear(&self, range: Range<usize>) -> Result<()> {
        let mut at = range.start;
        while let Some(first) = self.next_present(at).filter(|&first| first < range.end) {
            at = first.saturating_add(AT_ONCE).min(range.end);
            self.pages.lock().each(first..at, |_, page| page.zero());
            cond_resched_killable()?;
        }
        Ok(())
    }

    fn write_name(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self.key {
            Some(key) => write!(out, "/SYSV{key:08x} (deleted)"),
            None => out.write_str("/dev/zero (deleted)"),
        }
    }
}
