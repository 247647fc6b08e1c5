//! Writing into the cache.

use super::super::io::Source;
use super::fill::new_page;
use super::{Mapping, flusher, split};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::task::oom;
use crate::task::sched::cond_resched_killable;

impl Mapping {
    /// Writes at `position`, no further than the file's end.
    pub fn write(&self, from: &mut Source, position: u64) -> Result<usize> {
        let total = {
            let _alone = self.writing.lock_killable()?;
            self.copy_in(from, position, false)?
        };
        flusher::throttle(self)?;
        Ok(total)
    }

    /// Writes at `position`, or at the end, and lets the file grow. Returns how much, and the
    /// position after it.
    pub fn write_growing(&self, from: &mut Source, position: Option<u64>) -> Result<(usize, u64)> {
        let (total, start) = {
            let _alone = self.writing.lock_killable()?;
            let start = position.unwrap_or_else(|| self.size());
            let end = start.checked_add(from.left() as u64).ok_or(Errno::EFBIG)?;
            let end = self.backing.prepare(start, end, false)?;
            from.truncate((end - start) as usize);
            if start > self.size() {
                self.zero_tail();
            }
            let copied = self.copy_in(from, start, true);
            // A program may have no memory there, or be killed.
            let behind = self.size().max(start - start % PAGE_SIZE as u64);
            if behind < end {
                self.backing.unprepare(behind, end);
            }
            (copied?, start)
        };
        flusher::throttle(self)?;
        Ok((total, start + total as u64))
    }

    /// `grows`: the file becomes as long as the bytes need.
    fn copy_in(&self, from: &mut Source, position: u64, grows: bool) -> Result<usize> {
        let mut total = 0;
        while from.left() > 0 {
            let at = position + total as u64;
            let rest = self.size().saturating_sub(at);
            let (index, offset) = split(at);
            let mut len = (PAGE_SIZE - offset).min(from.left());
            if !grows {
                len = len.min(rest.min(PAGE_SIZE as u64) as usize);
            }
            if len == 0 {
                break;
            }
            let new = grows && index as u64 * PAGE_SIZE as u64 >= self.size();
            let whole = offset == 0 && (len == PAGE_SIZE || len as u64 >= rest);
            let copied = match new {
                // All of the page lies behind the end: there is nothing to read.
                true => self.insert_zeroes(index),
                false => Ok(()),
            }
            .and_then(|()| self.copy_page(from, (index, offset), len, whole, grows));
            match copied {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(Errno::ENOMEM) if oom::make_room() => continue,
                Err(_) => break,
            }
            if from.left() > 0 && cond_resched_killable().is_err() {
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

    /// Takes `len` bytes into a page; `whole`: the file has no other bytes in it.
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
            // It stays where it is, as long as there is a handle of it. Whoever takes it to write
            // it back looks at the size after that: at once, so that all of this is written.
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

    /// Gives a page of which only the first `count` bytes came the rest from the disk.
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

/// Copies the first `len` bytes of a page into another, which others may be reading.
pub(super) fn copy(from: &FrameRef, to: &FrameRef, len: usize) {
    let mut bytes = [0; 512];
    for at in (0..len).step_by(bytes.len()) {
        let part = &mut bytes[..(len - at).min(512)];
        from.read(at, part);
        to.write(at, part);
    }
}
