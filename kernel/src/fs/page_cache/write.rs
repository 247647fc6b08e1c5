//! Writing into the cache.

use super::super::io::Source;
use super::fill::new_page;
use super::{Mapping, flusher, split};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{FrameRef, FrameRun};
use crate::task::oom;
use crate::task::sched::cond_resched_killable;

impl Mapping {
    /// Writes at `position`, no further than the file's end.
    pub fn write(&self, from: &mut Source, position: u64) -> Result<usize> {
        let total = {
            let _alone = self.writing.lock_killable()?;
            self.copy_in(from, position)?
        };
        flusher::throttle(self)?;
        Ok(total)
    }

    fn copy_in(&self, from: &mut Source, position: u64) -> Result<usize> {
        let mut total = 0;
        while from.left() > 0 {
            let at = position + total as u64;
            let rest = self.size().saturating_sub(at);
            let (index, offset) = split(at);
            let len = (PAGE_SIZE - offset)
                .min(from.left())
                .min(rest.min(PAGE_SIZE as u64) as usize);
            if len == 0 {
                break;
            }
            let whole = offset == 0 && (len == PAGE_SIZE || len as u64 == rest);
            match self.copy_page(from, index, offset, len, whole) {
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

    /// Takes `len` bytes into a page; `whole`: the file has no other bytes in it.
    fn copy_page(
        &self,
        from: &mut Source,
        index: usize,
        offset: usize,
        len: usize,
        whole: bool,
    ) -> Result<usize> {
        let present = self.page(index);
        let (page, count) = match present {
            None if whole => {
                let fresh = new_page(&mut FrameRun::default(), index, 1)?;
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
        // It stays where it is, as long as there is a handle of it.
        self.pages.lock().set_dirty(index)?;
        drop(page);
        Ok(count)
    }

    /// Gives a page of which only the first `count` bytes came the rest from the disk.
    fn keep_part(&self, index: usize, fresh: &FrameRef, count: usize) -> Result<()> {
        let old = new_page(&mut FrameRun::default(), index, 1)?;
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
fn copy(from: &FrameRef, to: &FrameRef, len: usize) {
    let mut bytes = [0; 512];
    for at in (0..len).step_by(bytes.len()) {
        let part = &mut bytes[..(len - at).min(512)];
        from.read(at, part);
        to.write(at, part);
    }
}
