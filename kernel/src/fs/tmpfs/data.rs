//! The content of a regular file: pages in memory, with holes.

use super::super::file::{Whence, seek_in};
use super::super::io::{Sink, Source};
use super::super::writers::Writers;
use super::quota::Quota;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::frame::{self, FrameRef, FrameRun};
use crate::mm::number::Number;
use crate::mm::{PAGE_SIZE, PageSource, ReverseMap, shmem_account};
use crate::sync::{Mutex, SleepMutex};
use crate::task::oom;
use crate::task::sched::{cond_resched, cond_resched_interruptible, cond_resched_killable};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use linux_raw_sys::general::{
    F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE,
};
use radix::Radix;

/// The content of a file. Readers hold no lock while they copy; writers exclude each other.
pub struct Data {
    pages: Mutex<Radix<FrameRef>>,
    size: AtomicU64,
    writing: SleepMutex<()>,
    /// F_SEAL_ bits.
    seals: AtomicU32,
    /// Counts those that have it open for writing, or run it.
    pub writers: Writers,
    /// The address spaces that map the file.
    reverse_map: ReverseMap,
    number: Number,
    /// When a program last began to write to a mapping of the file, in ticks; 0 once that is
    /// recorded.
    written: AtomicU64,
    /// Counts the pages of its file system.
    quota: Arc<Quota>,
}

/// The number of pages freed at a time.
const PUNCHED: usize = 1024;

/// The page of a byte, and the byte's offset in it.
fn split(position: u64) -> (usize, usize) {
    (
        (position / PAGE_SIZE as u64) as usize,
        (position % PAGE_SIZE as u64) as usize,
    )
}

impl Data {
    /// An empty file with these seals (with `F_SEAL_SEAL` they cannot change).
    pub const fn new(seals: u32, quota: Arc<Quota>) -> Self {
        Data {
            pages: Mutex::new(Radix::new()),
            size: AtomicU64::new(0),
            writing: SleepMutex::new(()),
            seals: AtomicU32::new(seals),
            writers: Writers::new(),
            reverse_map: ReverseMap::new(),
            number: Number::new(),
            written: AtomicU64::new(0),
            quota,
        }
    }

    /// The seals.
    pub fn seals(&self) -> u32 {
        self.seals.load(Acquire)
    }

    /// When a program last began to write to a mapping of the file, in ticks, if that is not
    /// recorded yet.
    pub fn take_written(&self) -> Option<u64> {
        match self.written.load(Relaxed) {
            0 => None,
            _ => Some(self.written.swap(0, Relaxed)),
        }
    }

    /// Adds the seals that `choose` returns, and then drops the lock returned with them. EPERM if
    /// F_SEAL_SEAL is set, EBUSY if a mapping may write although the new seals forbid it.
    pub fn seal<H>(&self, choose: impl FnOnce() -> (u32, H)) -> Result<()> {
        let _alone = self.writing.lock_killable()?;
        if self.seals() & F_SEAL_SEAL != 0 {
            return Err(Errno::EPERM);
        }
        let (seals, held) = choose();
        // Set before mappings are examined: a later mmap checks the seals again.
        let new = seals & !self.seals.fetch_or(seals, AcqRel);
        drop(held);
        if new & F_SEAL_WRITE != 0 && self.reverse_map.may_write() {
            self.seals.fetch_and(!new, AcqRel);
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// EPERM if a seal forbids the change to this size.
    fn check_resize(&self, size: u64) -> Result<()> {
        let forbidden = match size.cmp(&self.size()) {
            Ordering::Less => F_SEAL_SHRINK,
            Ordering::Equal => 0,
            Ordering::Greater => F_SEAL_GROW,
        };
        if self.seals() & forbidden == 0 {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// EPERM if a seal forbids writing.
    fn check_write(&self) -> Result<()> {
        if self.seals() & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) == 0 {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// The length in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Acquire)
    }

    /// The number of pages that the file occupies.
    pub fn occupied(&self) -> u64 {
        self.pages.lock().len() as u64
    }

    fn page(&self, index: usize) -> Option<FrameRef> {
        self.pages.lock().get(index).cloned()
    }

    /// The page `index`, made where there was a hole, of `run`, as `count` pages from this one on
    /// are about to be written. `whole`: the caller overwrites all of it.
    #[inline]
    fn page_or_new(
        &self,
        index: usize,
        whole: bool,
        run: &mut FrameRun,
        count: usize,
    ) -> Result<FrameRef> {
        if let Some(page) = self.page(index) {
            return Ok(page);
        }
        shmem_account::check_room()?;
        let fresh = run.frame(index, count)?;
        if !whole {
            fresh.zero();
        }
        self.insert(index, fresh, true)
    }

    /// Makes the page of a hole for a fault. A function of its own, so that a fault on a present
    /// page needs no stack for it.
    #[inline(never)]
    fn page_for_hole(&self, index: usize) -> Result<FrameRef> {
        shmem_account::check_room()?;
        self.insert(index, frame::alloc_zeroed()?, false)
    }

    /// Puts `fresh` in place of a hole, and returns the page that is there now. ENXIO beyond the
    /// end of the file, unless it `may_grow`.
    fn insert(&self, index: usize, fresh: FrameRef, may_grow: bool) -> Result<FrameRef> {
        let mut pages = self.pages.lock();
        if let Some(page) = pages.get(index) {
            return Ok(page.clone());
        }
        // A truncation sets the size before it takes the lock to find pages.
        if !may_grow && index as u64 >= super::pages(self.size()) {
            return Err(Errno::ENXIO);
        }
        self.take_page()?;
        pages.insert(index, fresh.clone()).map_err(|_| {
            self.give_pages(1);
            Errno::ENOMEM
        })?;
        Ok(fresh)
    }

    /// Counts one more page.
    fn take_page(&self) -> Result<()> {
        self.quota.take()?;
        shmem_account::take().map_err(|_| {
            self.quota.give(1);
            Errno::ENOSPC
        })
    }

    fn give_pages(&self, count: u64) {
        self.quota.give(count);
        shmem_account::give(count as usize);
    }

    /// Reads from `position` up to the end of the file.
    pub fn read(&self, to: &mut Sink, position: u64) -> Result<usize> {
        let mut total = 0;
        while to.left() > 0 {
            let at = position + total as u64;
            let rest = self.size().saturating_sub(at);
            if rest == 0 {
                break;
            }
            let (index, offset) = split(at);
            let len = (PAGE_SIZE - offset)
                .min(to.left())
                .min(rest.min(PAGE_SIZE as u64) as usize);
            let copied = match self.page(index) {
                Some(page) => to.put_frame(&page, offset, len),
                None => to.put_zeros(len),
            };
            match copied {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(Errno::ENOMEM) if oom::make_room() => continue,
                Err(_) => break,
            }
            if copied != Ok(len) || to.left() > 0 && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok(total)
    }

    /// Writes at `position`, or at the end. Returns the number of bytes written, and the position
    /// after them.
    pub fn write(&self, from: &mut Source, position: Option<u64>) -> Result<(usize, u64)> {
        let _alone = self.writing.lock_killable()?;
        let start = position.unwrap_or_else(|| self.size());
        if start.saturating_add(from.left() as u64) > i64::MAX as u64 {
            return Err(if position.is_some() {
                Errno::EINVAL
            } else {
                Errno::EFBIG
            });
        }
        self.check_write()?;
        self.check_resize(self.size().max(start + from.left() as u64))?;
        let (mut total, mut run) = (0, FrameRun::default());
        while from.left() > 0 {
            let (index, offset) = split(start + total as u64);
            let len = (PAGE_SIZE - offset).min(from.left());
            match self
                .page_or_new(index, false, &mut run, from.left() / PAGE_SIZE)
                .and_then(|page| from.take_frame(&page, offset, len))
            {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(Errno::ENOMEM) if oom::make_room() => {}
                Err(_) => break,
            }
            self.size.fetch_max(start + total as u64, Release);
            if from.left() > 0 && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok((total, start + total as u64))
    }

    /// Appends `bytes`, which the kernel has read from an archive.
    pub fn fill(&self, bytes: &[u8]) -> Result<()> {
        let (mut run, pages) = (FrameRun::default(), bytes.len().div_ceil(PAGE_SIZE));
        for (index, chunk) in bytes.chunks(PAGE_SIZE).enumerate() {
            let whole = chunk.len() == PAGE_SIZE;
            self.page_or_new(index, whole, &mut run, pages - index)?
                .write(0, chunk);
        }
        self.size.fetch_max(bytes.len() as u64, Release);
        Ok(())
    }

    /// Changes the length. A part that is cut off reads as zeroes if the file grows again.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let _alone = self.writing.lock_killable()?;
        self.check_resize(size)?;
        let old = self.size.swap(size, AcqRel);
        // fallocate(2) may have created pages beyond the end of a file without changing its size.
        if size <= old {
            self.punch_pages(super::pages(size), u64::MAX);
            self.reverse_map
                .unmap(super::pages(size) as usize..usize::MAX, true);
            let (index, offset) = split(size);
            if offset != 0
                && let Some(page) = self.page(index)
            {
                page.fill(offset..PAGE_SIZE, 0);
            }
        }
        Ok(())
    }

    /// Frees the pages `first..end`.
    fn punch_pages(&self, first: u64, end: u64) {
        let (mut first, end) = (first as usize, end as usize);
        while first < end {
            let mut pages = self.pages.lock();
            let Some(next) = pages.next_item(first).filter(|&next| next < end) else {
                break;
            };
            let last = (end - 1).min(next.saturating_add(PUNCHED));
            let mut count = 0;
            pages.remove_range(next, last, &mut |page| {
                count += 1;
                drop(page);
            });
            self.give_pages(count);
            drop(pages);
            first = last.saturating_add(1);
            cond_resched();
        }
    }

    /// Punches a hole.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let _alone = self.writing.lock_killable()?;
        self.check_write()?;
        let end = offset.saturating_add(len);
        let (first, last) = (super::pages(offset), end / PAGE_SIZE as u64);
        self.punch_pages(first, last);
        self.reverse_map.unmap(first as usize..last as usize, false);
        self.zero(offset, end.min(first * PAGE_SIZE as u64));
        if last >= first {
            self.zero(last * PAGE_SIZE as u64, end);
        }
        Ok(())
    }

    /// Zeroes a range inside one page.
    fn zero(&self, start: u64, end: u64) {
        let (index, offset) = split(start);
        if start < end
            && let Some(page) = self.page(index)
        {
            page.fill(offset..offset + (end - start) as usize, 0);
        }
    }

    /// Allocates every page of the range; `grow` moves the end of the file to the end of the range.
    pub fn allocate(&self, offset: u64, len: u64, grow: bool) -> Result<()> {
        let _alone = self.writing.lock_killable()?;
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or(Errno::EFBIG)?;
        // Also if the file keeps its size, as on Linux.
        self.check_resize(end.max(self.size()))?;
        let indices = (offset / PAGE_SIZE as u64) as usize..super::pages(end) as usize;
        // An allocation that cannot succeed is refused before any page is examined.
        self.check_room(indices.len().saturating_sub(self.occupied() as usize))?;
        let mut holes = 0;
        for index in indices.clone() {
            holes += usize::from(self.page(index).is_none());
            cond_resched_interruptible()?;
        }
        self.check_room(holes)?;
        let mut made = Vec::new();
        if let Err(error) = self.fill_holes(indices, &mut made) {
            self.take_back(&made);
            return Err(error);
        }
        if grow {
            self.size.fetch_max(end, Release);
        }
        Ok(())
    }

    /// Fails if there is no room for `count` more pages.
    fn check_room(&self, count: usize) -> Result<()> {
        self.quota.check_room(count as u64)?;
        shmem_account::check_room_for(count)
    }

    /// Creates a page for each hole among `indices`, and records those ranges in `made`.
    fn fill_holes(&self, indices: Range<usize>, made: &mut Vec<Range<usize>>) -> Result<()> {
        for index in indices {
            cond_resched_interruptible()?;
            if self.page(index).is_some() {
                continue;
            }
            shmem_account::check_room()?;
            let fresh = frame::alloc_zeroed()?;
            made.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            // A program that maps the file may have created the page first.
            if self.insert(index, fresh.clone(), true)?.phys() != fresh.phys() {
                continue;
            }
            match made.last_mut().filter(|last| last.end == index) {
                Some(last) => last.end += 1,
                None => made.push(index..index + 1),
            }
        }
        Ok(())
    }

    /// Turns pages back into holes, except pages that are mapped or that a program wrote meanwhile.
    fn take_back(&self, made: &[Range<usize>]) {
        for index in made.iter().cloned().flatten() {
            let mut pages = self.pages.lock();
            if pages.get(index).is_some_and(is_unused) {
                pages.remove_range(index, index, &mut drop);
                self.give_pages(1);
            }
            drop(pages);
            cond_resched();
        }
    }

    /// lseek(2), including holes.
    pub fn seek(&self, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let size = self.size();
        let place = seek_in(size, position, offset, whence)?;
        let (index, _) = split(place);
        match whence {
            Whence::Data => {
                let next = self.pages.lock().next_item(index).ok_or(Errno::ENXIO)? as u64;
                let start = (next * PAGE_SIZE as u64).max(place);
                if start < size {
                    Ok(start)
                } else {
                    Err(Errno::ENXIO)
                }
            }
            Whence::Hole => {
                let (mut index, _) = split(offset as u64);
                loop {
                    let until = index.saturating_add(PUNCHED);
                    index = self.pages.lock().next_hole(index, until);
                    if index < until {
                        break;
                    }
                    cond_resched_killable()?;
                }
                let hole = index as u64 * PAGE_SIZE as u64;
                Ok(hole.max(offset as u64).min(size))
            }
            _ => Ok(place),
        }
    }
}

/// Whether nobody else references a page, and a hole would read the same.
fn is_unused(page: &FrameRef) -> bool {
    page.is_unique() && page.words().iter().all(|word| word.load(Relaxed) == 0)
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.occupied() > PUNCHED as u64 {
            self.punch_pages(0, u64::MAX);
        }
        self.give_pages(self.occupied());
    }
}

impl PageSource for Data {
    fn may_have_tags(&self) -> bool {
        true
    }

    fn object(&self) -> usize {
        self.number.get()
    }

    fn page(&self, index: usize, write: bool) -> Result<FrameRef> {
        if index as u64 >= super::pages(self.size()) {
            return Err(Errno::ENXIO);
        }
        if write {
            self.written();
        }
        match self.page(index) {
            Some(page) => Ok(page),
            None => self.page_for_hole(index),
        }
    }

    #[inline]
    fn written(&self) {
        // A fault does no more than that: a reader of the time converts it.
        self.written.store(time::now_ticks(), Relaxed);
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        let pages = self.pages.lock();
        let len = self.len_pages().saturating_sub(first).min(frames.len());
        pages.copy_to(first, &mut frames[..len], FrameRef::clone);
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.pages.lock().next_item(first)
    }

    fn len_pages(&self) -> usize {
        super::pages(self.size()) as usize
    }

    fn is_sealed(&self) -> bool {
        self.check_write().is_err()
    }

    fn reverse_map(&self) -> Option<&ReverseMap> {
        Some(&self.reverse_map)
    }

    fn clear(&self, range: Range<usize>) -> Result<()> {
        let [offset, len] = [range.start, range.len()].map(|pages| (pages * PAGE_SIZE) as u64);
        self.punch(offset, len)
    }
}
