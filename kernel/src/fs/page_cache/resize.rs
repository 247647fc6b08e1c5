//! Changes of a file's length, and holes.

use super::{Mapping, pages_of, split};
use crate::errno::Result;
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::sync::SleepMutexGuard;
use core::ops::Range;
use core::sync::atomic::Ordering::*;

impl Mapping {
    /// Prevents other calls from changing the content.
    pub fn write_lock(&self) -> Result<SleepMutexGuard<'_, ()>> {
        self.writing.lock_killable()
    }

    /// Extends the file to at least `size`. With [`Mapping::write_lock`].
    pub fn extend(&self, size: u64) {
        let before = self.size.fetch_max(size, AcqRel);
        self.backing.resized(before.max(size));
    }

    /// Zeroes what programs stored beyond the end through a mapping, before the file grows. None of
    /// it is on the disk. With [`Mapping::write_lock`].
    pub fn zero_tail(&self) {
        let (index, offset) = split(self.size());
        let tail = offset..PAGE_SIZE;
        if offset != 0
            && let Some(page) = self.page(index)
            && !is_zero(&page, tail.clone())
        {
            page.fill(tail, 0);
        }
    }

    /// Sets a length that is no less than before, after `change` did the same on the disk. With
    /// [`Mapping::write_lock`].
    pub fn lengthen(&self, size: u64, change: impl FnOnce() -> Result<()>) -> Result<()> {
        self.zero_tail();
        change()?;
        self.set_size(size);
        Ok(())
    }

    /// Sets a length that is less than before, and removes what is beyond it. `begin` sets the
    /// length on the disk: if it fails, nothing has changed. `free` frees the blocks beyond it; if
    /// that fails, the length is kept. With [`Mapping::write_lock`].
    pub fn cut(
        &self,
        size: u64,
        begin: impl FnOnce() -> Result<()>,
        free: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (index, offset) = split(size);
        // The page is held, so that it need not be read when its rest is zeroed.
        let _last = match offset {
            0 => None,
            _ => Some(self.filled(index, 1)?),
        };
        {
            // Write-back depends on the length.
            let _alone = self.cleaning.lock();
            begin()?;
            self.set_size(size);
        }
        let zeroed = match offset {
            0 => Ok(()),
            _ => self.zero(size..((index + 1) * PAGE_SIZE) as u64),
        };
        self.without(pages_of(size)..usize::MAX, true, free)
            .and(zeroed)
    }

    /// Bytes were changed where they are kept, or the length was: their pages are read again when
    /// they are needed. Private copies stay, except of what was cut off.
    pub fn changed_elsewhere(&self, range: Range<u64>, size: u64) {
        let before = self.size();
        self.set_size(size);
        let unchanged = || Ok(());
        let whole = PAGE_SIZE as u64;
        let pages = (range.start / whole) as usize..pages_of(range.end);
        _ = self.without(pages, false, unchanged);
        if before != size {
            // The last page has zeroes beyond the end.
            let last = (before.min(size) / whole) as usize;
            _ = self.without(last..usize::MAX, false, unchanged);
        }
        if size < before {
            _ = self.without(pages_of(size)..usize::MAX, true, unchanged);
        }
    }

    fn set_size(&self, size: u64) {
        self.size.store(size, Release);
        self.backing.resized(size);
    }

    /// Zeroes a range. `change` punches a hole for the blocks that are completely inside, while
    /// their pages are neither read nor written. With [`Mapping::write_lock`].
    pub fn punch(&self, range: Range<u64>, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let end = range.end.min(self.size());
        let (first, last) = (pages_of(range.start), (end / PAGE_SIZE as u64) as usize);
        let before = (first * PAGE_SIZE) as u64;
        let behind = (last * PAGE_SIZE) as u64;
        self.zero(range.start..end.min(before))?;
        if behind >= before {
            self.zero(behind..end)?;
        }
        self.without(first..last.max(first), false, change)
    }

    /// Zeroes bytes of one page, and writes the page if it has other bytes on the disk.
    fn zero(&self, range: Range<u64>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let (index, offset) = split(range.start);
        let page = self.filled(index, 1)?;
        let bytes = offset..(offset + (range.end - range.start) as usize).min(PAGE_SIZE);
        if !is_zero(&page, bytes.clone()) {
            page.fill(bytes, 0);
            self.pages.lock().set_dirty(index)?;
        }
        // Without memory it is written later.
        _ = self.write_back(index..index + 1);
        Ok(())
    }

    /// Removes pages that the file no longer has, including dirty ones, and with `copies` also
    /// private copies of them, and calls `change` before they are read or written again.
    fn without(
        &self,
        pages: Range<usize>,
        copies: bool,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _alone = self.cleaning.lock();
        self.taken.fetch_add(1, AcqRel);
        if !pages.is_empty() {
            self.remove(pages.clone());
            self.reverse_map.unmap(pages, copies);
        }
        let done = change();
        self.taken.fetch_add(1, AcqRel);
        done
    }
}

/// Whether bytes of a page are zero.
pub(super) fn is_zero(page: &FrameRef, range: Range<usize>) -> bool {
    let mut bytes = [0; 256];
    range.clone().step_by(bytes.len()).all(|at| {
        let part = &mut bytes[..(range.end - at).min(256)];
        page.read(at, part);
        part.iter().all(|byte| *byte == 0)
    })
}
