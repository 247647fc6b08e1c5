//! Reading: pages that are present, and those that must be read from the disk.

use super::super::io::Sink;
use super::reclaim;
use super::{FILLERS, Mapping, WINDOW, pages_of, split};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef, FrameRun};
use crate::task::oom;
use crate::task::sched::cond_resched_killable;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// The maximum number of pages that are read ahead at once, whatever a program asks for.
pub(super) const MOST_AHEAD: usize = 512;

/// Pages that are read at once where the kernel wants bytes: what lies together is wanted together.
const BYTES_AHEAD: usize = 8;

/// Where an open file's last read ended: one that begins there reads ahead.
#[derive(Default)]
pub struct Ahead(AtomicU64);

impl Ahead {
    /// The state of a read that does not read ahead.
    pub fn none() -> Self {
        Ahead(AtomicU64::new(u64::MAX))
    }

    /// The number of pages to read from `position` on for `len` bytes.
    fn pages(&self, position: u64, len: usize) -> usize {
        let (first, offset) = split(position);
        let wanted = pages_of((offset + len) as u64);
        match self.0.load(Relaxed) == position {
            true => WINDOW - first % WINDOW,
            false => wanted.min(WINDOW),
        }
    }
}

impl Mapping {
    /// Reads from `position` up to the end of the file.
    pub fn read(&self, to: &mut Sink, position: u64, ahead: &Ahead) -> Result<usize> {
        let want = ahead.pages(position, to.left());
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
            let copied = self.filled(index, want).and_then(|page| {
                // A sequence of small reads uses a page once.
                if total > 0 || offset == 0 || ahead.0.load(Relaxed) != position {
                    page.mark_accessed();
                }
                to.put_frame(&page, offset, len)
            });
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
        ahead.0.store(position + total as u64, Relaxed);
        Ok(total)
    }

    /// Reads bytes for the kernel itself, all of them before the end.
    ///
    /// # Errors
    /// EIO, ENOMEM, EINTR.
    pub fn read_bytes(&self, position: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let (index, offset) = split(position + done as u64);
            let len = (PAGE_SIZE - offset).min(into.len() - done);
            let page = self.filled(index, BYTES_AHEAD)?;
            page.mark_accessed();
            page.read(offset, &mut into[done..done + len]);
            done += len;
        }
        Ok(())
    }

    /// The page `index`, read from the disk where it is not there, with up to `want` pages from it
    /// on.
    pub(super) fn filled(&self, index: usize, want: usize) -> Result<FrameRef> {
        loop {
            if let Some(page) = self.page(index) {
                return Ok(page);
            }
            self.fill(index, want)?;
        }
    }

    /// Reads ahead as far as possible, since no thread waits for these pages. As on Linux, the
    /// number of pages is limited to that of one device transfer.
    pub fn read_ahead(&self, first: usize, count: usize) -> Result<()> {
        let end = first.saturating_add(count.min(MOST_AHEAD));
        let end = end.min(pages_of(self.size()));
        let mut at = first;
        while at < end {
            if self.page(at).is_none() {
                self.fill(at, end - at)?;
            }
            at += 1;
            cond_resched_killable()?;
        }
        Ok(())
    }

    /// Reads the page `index` and those after it that are absent, all in one window.
    fn fill(&self, index: usize, want: usize) -> Result<()> {
        let filler = index / WINDOW % FILLERS;
        let _alone = self.filling[filler].lock_killable()?;
        let end = pages_of(self.size()).min(index - index % WINDOW + WINDOW);
        if index >= end {
            return Err(Errno::ENXIO);
        }
        let range = index..end.min(index.saturating_add(want.max(1)));
        let taken = {
            let mut pages = self.pages.lock();
            pages.reading[filler] = range.clone();
            self.taken.load(Acquire)
        };
        let done = match taken % 2 {
            0 => self.fill_range(range, taken),
            _ => {
                // Waits until the pages are gone from the disk.
                drop(self.cleaning.lock());
                Ok(())
            }
        };
        self.pages.lock().reading[filler] = 0..0;
        done
    }

    /// Reads the first absent page of a range, and those after it. Only pages that were read while
    /// `taken` was unchanged are inserted.
    fn fill_range(&self, range: Range<usize>, taken: usize) -> Result<()> {
        let (mut fresh, mut run) = (Vec::new(), FrameRun::default());
        let end = range.end;
        for index in range {
            if self.page(index).is_some() {
                break;
            }
            make_room();
            let page = run.frame(index, end - index);
            match page.map(|page| (page, fresh.try_reserve(1))) {
                Ok((page, Ok(()))) => fresh.push((index, page)),
                _ if !fresh.is_empty() => break,
                Ok(_) => return Err(Errno::ENOMEM),
                Err(error) => return Err(error),
            }
        }
        if fresh.len() > 1 && self.backing.read_pages(&fresh).is_err() {
            // A page that was not requested may be the one that cannot be read.
            fresh.truncate(1);
            self.backing.read_pages(&fresh)?;
        } else if fresh.len() == 1 {
            self.backing.read_pages(&fresh)?;
        }
        self.insert_read(fresh, taken)
    }

    /// Inserts pages that were read while `taken` was unchanged. If pages were removed meanwhile,
    /// they may be stale, and are read again when they are needed.
    fn insert_read(&self, fresh: Vec<(usize, FrameRef)>, taken: usize) -> Result<()> {
        for (index, page) in fresh {
            // Data on the disk beyond the end does not belong to the file.
            let rest = self.size().saturating_sub((index * PAGE_SIZE) as u64);
            if rest < PAGE_SIZE as u64 {
                page.fill(rest as usize..PAGE_SIZE, 0);
            }
            let mut pages = self.pages.lock();
            // A truncation sets the size before it removes pages.
            if self.taken.load(Acquire) == taken && index < pages_of(self.size()) {
                pages.insert(index, page)?;
            }
        }
        Ok(())
    }
}

/// Memory for a page, after reclaiming clean pages if it is short.
pub(super) fn new_page() -> Result<FrameRef> {
    make_room();
    frame::alloc()
}

fn make_room() {
    if frame::is_scarce() {
        reclaim::reclaim(2 * WINDOW);
    }
}
