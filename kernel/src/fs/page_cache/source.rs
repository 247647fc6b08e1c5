//! A mapping as the source of a program's pages.

use super::{Mapping, WINDOW, flusher, pages_of};
use crate::errno::{Errno, Result};
use crate::mm::frame::FrameRef;
use crate::mm::{PAGE_SIZE, PageSource, ReverseMap};

/// The number of pages that a fault reads.
const AROUND: usize = 16;
const _: () = assert!(WINDOW.is_multiple_of(AROUND));

impl Mapping {
    /// Allocates space for a page that a program is about to write (Linux's page_mkwrite), and
    /// marks it dirty: dirty pages have their space.
    fn make_writable(&self, index: usize) -> Result<()> {
        let start = (index * PAGE_SIZE) as u64;
        let end = self.size().min(start + PAGE_SIZE as u64);
        if start >= end || self.backing.prepare(start, end, true)? < end {
            return Err(Errno::ENOSPC);
        }
        {
            let mut pages = self.pages.lock();
            match pages.all.get(index) {
                Some(_) => pages.set_dirty(index)?,
                // It was removed meanwhile, and is loaded again.
                None => return Ok(()),
            }
        }
        self.backing.changed_mapped()
    }
}

impl PageSource for Mapping {
    fn object(&self) -> usize {
        self.number.get()
    }

    fn page(&self, index: usize, _write: bool) -> Result<FrameRef> {
        if index >= self.len_pages() {
            return Err(Errno::ENXIO);
        }
        let page = self.page(index).ok_or(Errno::EAGAIN)?;
        page.mark_accessed();
        Ok(page)
    }

    fn load(&self, index: usize, write: bool) -> Result<()> {
        if write {
            // Threads that store through a mapping are throttled like those that write by calls.
            flusher::throttle(self)?;
        }
        self.filled(index, AROUND - index % AROUND)?;
        match write {
            true => self.make_writable(index),
            false => Ok(()),
        }
    }

    fn hears_of_writes(&self) -> bool {
        true
    }

    fn write_mapped(&self, index: usize, allow: &mut dyn FnMut(&FrameRef)) -> Result<()> {
        let mut pages = self.pages.lock();
        let page = pages.all.get(index).cloned().ok_or(Errno::EAGAIN)?;
        // A page that is not dirty must first be loaded, which allocates its space.
        if pages.dirty.get(index).is_none() {
            return Err(Errno::EAGAIN);
        }
        pages.set_dirty(index)?;
        // Under the lock, since write-back removes the right to write after that.
        allow(&page);
        Ok(())
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        let len = self.len_pages().saturating_sub(first).min(frames.len());
        let pages = self.pages.lock();
        pages
            .all
            .copy_to(first, &mut frames[..len], FrameRef::clone);
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.pages.lock().all.next_item(first)
    }

    fn len_pages(&self) -> usize {
        pages_of(self.size())
    }

    fn reverse_map(&self) -> Option<&ReverseMap> {
        Some(&self.reverse_map)
    }
}
