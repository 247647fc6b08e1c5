//! Writing pages back to the disk.

use super::resize::is_zero;
use super::write::copy;
use super::{BATCH, Mapping, Pages, mappings, split, stats};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};
use crate::task::sched::cond_resched;
use alloc::vec::Vec;
use core::ops::Range;

/// A page, and its index in the file.
type Page = (usize, FrameRef);

impl Mapping {
    /// Writes the dirty pages of a range, and waits for those being written. Errors are recorded in
    /// [`Mapping::errors`], and the pages count as clean, as on Linux: otherwise they would stay
    /// for ever.
    ///
    /// # Errors
    /// ENOMEM: pages stay dirty, since there is no memory to write them with.
    pub fn write_back(&self, range: Range<usize>) -> Result<()> {
        let _alone = self.cleaning.lock();
        let (begun, mut next) = (time::now_ticks(), range.start);
        while let Some(batch) = self.take_dirty(next..range.end) {
            let batch = batch?;
            next = batch.last().map_or(range.end, |&(index, _)| index + 1);
            self.write_batch(&batch)?;
            cond_resched();
        }
        if range == (0..usize::MAX) {
            // Pages that are dirty by now became so after this time.
            self.pages.lock().since = begun;
        }
        Ok(())
    }

    /// Like [`Mapping::write_back`] for the whole file, and waits until it is on the medium.
    ///
    /// # Errors
    /// Those of [`Mapping::write_back`].
    pub fn sync(&self) -> Result<()> {
        self.write_back(0..usize::MAX)?;
        if let Err(error) = self.backing.flush() {
            self.record(error);
        }
        Ok(())
    }

    /// Takes the next dirty pages of a range, and marks them clean.
    fn take_dirty(&self, range: Range<usize>) -> Option<Result<Vec<Page>>> {
        let mut batch = Vec::new();
        if batch.try_reserve_exact(BATCH).is_err() {
            return Some(Err(Errno::ENOMEM));
        }
        let mut pages = self.pages.lock();
        let mut next = range.start;
        while batch.len() < BATCH
            && let Some(index) = pages.dirty.next_item(next).filter(|&at| at < range.end)
        {
            if let Some(page) = pages.all.get(index) {
                batch.push((index, page.clone()));
            }
            next = index + 1;
        }
        let (&(first, _), &(last, _)) = (batch.first()?, batch.last()?);
        pages.clear_dirty(first, last);
        Some(Ok(batch))
    }

    /// Writes pages; ENOMEM: they stay dirty.
    fn write_batch(&self, batch: &[Page]) -> Result<()> {
        stats::writing(batch.len() as isize);
        // The cache has one handle, and `batch` another: further ones belong to programs that map
        // the page. They must fault again, so that their next write is noticed.
        let is_mapped = |page: &FrameRef| page.meta().refs() > 2;
        if batch.iter().any(|(_, page)| is_mapped(page)) {
            for run in batch.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
                self.reverse_map
                    .unmap(run[0].0..run[run.len() - 1].0 + 1, false);
            }
        }
        let written = match self.without_tail(batch) {
            Ok(None) => self.backing.write_pages(batch),
            Ok(Some(batch)) => self.backing.write_pages(&batch),
            Err(error) => Err(error),
        };
        stats::writing(-(batch.len() as isize));
        match written {
            Err(error @ Errno::ENOMEM) => {
                let mut pages = self.pages.lock();
                let dirtied = batch
                    .iter()
                    .try_for_each(|&(index, _)| pages.set_dirty(index));
                drop(pages);
                dirtied.unwrap_or_else(|error| self.record(error));
                Err(error)
            }
            written => {
                written.unwrap_or_else(|error| self.record(error));
                Ok(())
            }
        }
    }

    /// Replaces the page in which the file ends by a copy, if programs stored something beyond the
    /// end through a mapping: on the disk it would become visible when the file grows. In the page
    /// itself it may have become part of the file by now.
    fn without_tail(&self, batch: &[Page]) -> Result<Option<Vec<Page>>> {
        let (index, offset) = split(self.size());
        let at = batch.binary_search_by_key(&index, |(index, _)| *index);
        let Some(at) = at.ok().filter(|_| offset != 0) else {
            return Ok(None);
        };
        let page = &batch[at].1;
        if is_zero(page, offset..PAGE_SIZE) {
            return Ok(None);
        }
        let own = frame::alloc_kernel()?;
        copy(page, &own, PAGE_SIZE);
        own.fill(offset..PAGE_SIZE, 0);
        let mut pages = Vec::new();
        let room = pages.try_reserve_exact(batch.len());
        room.map_err(|_| Errno::ENOMEM)?;
        pages.extend_from_slice(batch);
        pages[at].1 = own;
        Ok(Some(pages))
    }

    /// When the first of its dirty pages became so, in ticks; `None` if there are none.
    pub(super) fn dirty_since(&self) -> Option<u64> {
        let pages = self.pages.lock();
        (!pages.dirty.is_empty()).then_some(pages.since)
    }
}

impl Pages {
    fn clear_dirty(&mut self, first: usize, last: usize) {
        let mut cleared = 0;
        self.dirty.remove_range(first, last, &mut |()| cleared += 1);
        stats::dirtied(-cleared);
    }
}

/// Writes everything back (sync(2)).
pub fn sync_all() {
    mappings::each(|mapping| {
        if mapping.is_dirty()
            && let Some(_grabbed) = mapping.grab()
        {
            // Pages for which there is no memory stay dirty, and are written later.
            _ = mapping.sync();
        }
    });
}
