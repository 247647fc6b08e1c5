//! Files whose length changes.

use super::{FILLERS, Mapping, pages_of, split};
use crate::errno::Result;
use crate::mm::PAGE_SIZE;
use crate::sync::SleepMutexGuard;
use core::ops::Range;
use core::sync::atomic::Ordering::*;

impl Mapping {
    /// Keeps others from changing the content by calls.
    pub fn write_lock(&self) -> Result<SleepMutexGuard<'_, ()>> {
        self.writing.lock_killable()
    }

    /// The file is at least so long from now on. With [`Mapping::write_lock`].
    pub fn extend(&self, size: u64) {
        let before = self.size.fetch_max(size, AcqRel);
        self.backing.resized(before.max(size));
    }

    /// Sets the length, and takes away what lies behind it. With [`Mapping::write_lock`].
    pub fn cut(&self, size: u64) -> Result<()> {
        let (index, offset) = split(size);
        if size < self.size() && offset != 0 {
            self.zero(size..((index + 1) * PAGE_SIZE) as u64)?;
        }
        let before = self.size.swap(size, AcqRel);
        self.backing.resized(size);
        if size < before {
            self.lose(pages_of(size)..usize::MAX, true);
        }
        Ok(())
    }

    /// Zeroes a range, and takes the pages away that lie wholly in it. With
    /// [`Mapping::write_lock`].
    pub fn zero(&self, range: Range<u64>) -> Result<()> {
        let end = range.end.min(self.size());
        let whole = pages_of(range.start)..(end / PAGE_SIZE as u64) as usize;
        let mut at = range.start;
        while at < end {
            let (index, offset) = split(at);
            let len = (PAGE_SIZE - offset).min((end - at) as usize);
            if !whole.contains(&index) {
                let page = self.filled(index, 1)?;
                page.fill(offset..offset + len, 0);
                self.pages.lock().set_dirty(index)?;
                at += len as u64;
            } else {
                at = (whole.end * PAGE_SIZE) as u64;
            }
        }
        if whole.start < whole.end {
            self.lose(whole, false);
        }
        Ok(())
    }

    /// Takes pages away that the file has no more, changed ones too; with `copies` also private
    /// copies of them.
    fn lose(&self, pages: Range<usize>, copies: bool) {
        // Whoever is reading such pages puts them in first.
        for window in 0..FILLERS {
            drop(self.filling[window].lock());
        }
        let _alone = self.cleaning.lock();
        self.remove(pages.clone());
        self.reverse_map.unmap(pages, copies);
    }
}
