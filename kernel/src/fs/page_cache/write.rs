//! Writing into the cache.

use super::super::io::Source;
use super::fill::new_page;
use super::{Mapping, flusher, split};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::task::oom;
use crate::task::sched::cond_resched_killable;

/// The number of bytes for which a write allocates space at a time.
pub(super) const STEP: usize = 4 << 20;

impl Mapping {
    /// Writes at `position`, not beyond the file's end.
    pub fn write(&self, from: &mut Source, position: u64) -> Result<usize> {
        let _alone = self.writing.lock_killable()?;
        self.write_steps(from, position, false)
    }

    /// Writes at `position`, or at the end, and lets the file grow. `check` tests whether writing
    /// there is allowed, while there is no other writer. Returns the number of bytes, and the
    /// position after them.
    pub fn write_growing(
        &self,
        from: &mut Source,
        position: Option<u64>,
        check: impl FnOnce(&mut Source, u64) -> Result<()>,
    ) -> Result<(usize, u64)> {
        let _alone = self.writing.lock_killable()?;
        let start = position.unwrap_or_else(|| self.size());
        check(from, start)?;
        start.checked_add(from.left() as u64).ok_or(Errno::EFBIG)?;
        if start > self.size() {
            self.zero_tail();
        }
        let total = self.write_steps(from, start, true)?;
        Ok((total, start + total as u64))
    }

    /// Allocates space for some of the bytes and copies them, until all are copied, so that a long
    /// write has no more dirty data, or space allocated early, than others. With `grows`, the file
    /// is extended as needed.
    fn write_steps(&self, from: &mut Source, start: u64, grows: bool) -> Result<usize> {
        let mut total = 0;
        while from.left() > 0 {
            let left = from.left();
            let (at, want) = (start + total as u64, left.min(STEP));
            let done = self.write_step(from, at, want, grows);
            match done {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                // The bytes that were copied cannot be read again.
                Err(Errno::ENOMEM) if from.left() == left && oom::make_room() => continue,
                Err(_) => break,
            }
            flusher::throttle(self)?;
            if done != Ok(want) || from.left() > 0 && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok(total)
    }

    /// Writes `len` bytes, or fewer.
    fn write_step(&self, from: &mut Source, at: u64, len: usize, grows: bool) -> Result<usize> {
        let end = self.backing.prepare(at, at + len as u64, false)?;
        let copied = self.copy_in(from, at, (end - at) as usize, grows);
        // The program's memory may be inaccessible, or the program be killed.
        let behind = self.size().max(at - at % PAGE_SIZE as u64);
        if behind < end {
            self.backing.unprepare(behind, end);
        }
        copied
    }

    fn copy_in(&self, from: &mut Source, position: u64, most: usize, grows: bool) -> Result<usize> {
        let mut total = 0;
        while total < most {
            let at = position + total as u64;
            let rest = self.size().saturating_sub(at);
            let (index, offset) = split(at);
            let mut len = (PAGE_SIZE - offset).min(most - total);
            if !grows {
                len = len.min(rest.min(PAGE_SIZE as u64) as usize);
            }
            if len == 0 {
                break;
            }
            let new = grows && index as u64 * PAGE_SIZE as u64 >= self.size();
            let whole = offset == 0 && (len == PAGE_SIZE || len as u64 >= rest);
            let left = from.left();
            let copied = match new {
                // The whole page is beyond the end: there is nothing to read.
                true => self.insert_zeroes(index),
                false => Ok(()),
            }
            .and_then(|()| self.copy_page(from, (index, offset), len, whole, grows));
            match copied {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                // The bytes that were copied cannot be read again.
                Err(Errno::ENOMEM) if from.left() == left && oom::make_room() => continue,
                Err(_) => break,
            }
            if copied != Ok(len) || total < most && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok(total)
    }

    fn insert_zeroes(&self, index: usize) -> Result<()> {
        let page = new_page()?;
        page.fill(0..PAGE_SIZE, 0);
        self.insert(index, page).map(drop)
    }

    /// Copies `len` bytes into a page; with `whole`, the file has no other bytes in it.
    fn copy_page(
        &self,
        from: &mut Source,
        (index, offset): (usize, usize),
        len: usize,
        whole: bool,
        grows: bool,
    ) -> Result<usize> {
        let present = self.page(index);
        let (page, count) = match present {
            None if whole => {
                let fresh = new_page()?;
                if len < PAGE_SIZE {
                    fresh.fill(len..PAGE_SIZE, 0);
                }
                let count = from.take_frame(&fresh, 0, len)?;
                if count < len {
                    self.keep_part(index, &fresh, count)?;
                }
                let page = self.insert(index, fresh.clone())?;
                if page.phys() != fresh.phys() {
                    copy(&fresh, &page, count);
                }
                (page, count)
            }
            _ => {
                let page = self.filled(index, 1)?;
                let count = from.take_frame(&page, offset, len)?;
                (page, count)
            }
        };
        {
            // The page stays in place while there is a handle of it. Write-back reads the size
            // after it takes the page, so size and dirty state change together, and all of this is
            // written.
            let mut pages = self.pages.lock();
            pages.set_dirty(index)?;
            if grows {
                self.extend((index * PAGE_SIZE + offset + count) as u64);
            }
        }
        page.mark_accessed();
        drop(page);
        Ok(count)
    }

    /// Fills the rest of a page, of which only the first `count` bytes were written, from the disk.
    fn keep_part(&self, index: usize, fresh: &FrameRef, count: usize) -> Result<()> {
        let old = new_page()?;
        self.backing.read_pages(&[(index, old.clone())])?;
        let mut bytes = [0; 512];
        for at in (0..PAGE_SIZE).step_by(bytes.len()) {
            let from = at.max(count).min(at + bytes.len());
            let part = &mut bytes[..at + 512 - from];
            old.read(from, part);
            fresh.write(from, part);
        }
        Ok(())
    }
}

/// Copies the first `len` bytes of a page to another, which others may be reading.
pub(super) fn copy(from: &FrameRef, to: &FrameRef, len: usize) {
    let mut bytes = [0; 512];
    for at in (0..len).step_by(bytes.len()) {
        let part = &mut bytes[..(len - at).min(512)];
        from.read(at, part);
        to.write(at, part);
    }
}
