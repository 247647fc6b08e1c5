//! The dirty log of a slot: the pages written since the VMM last read it (KVM_GET_DIRTY_LOG,
//! KVM_CLEAR_DIRTY_LOG).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::slots::{self, Slot};
use super::uapi::{ClearLog, DirtyLog};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::task::sched;

/// The number of pages per word.
const BITS: usize = 64;

/// A bit for each page.
pub struct Log(Vec<AtomicU64>);

impl Log {
    /// A log for `pages` pages, with all bits set if `written`.
    pub fn new(pages: usize, written: bool) -> Result<Arc<Self>> {
        let mut words = Vec::new();
        let count = pages.div_ceil(BITS);
        words.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        let bits = |at: usize| match (written, pages - at * BITS) {
            (false, _) => 0,
            (true, left) => u64::MAX.unbounded_shr(BITS.saturating_sub(left) as u32),
        };
        for at in 0..count {
            words.push(AtomicU64::new(bits(at)));
            pause(at);
        }
        try_arc(Log(words))
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }

    /// Sets the bits again that were taken out of the log.
    fn put_back(&self, taken: &[u64]) {
        for (at, (word, taken)) in self.0.iter().zip(taken).enumerate() {
            word.fetch_or(*taken, AcqRel);
            pause(at);
        }
    }

    /// Records a write to a page.
    pub fn mark(&self, page: usize) {
        if let Some(word) = self.0.get(page / BITS) {
            word.fetch_or(1 << (page % BITS), Release);
        }
    }
}

impl Machine {
    fn logged(&self, number: u32) -> Result<(Slot, Arc<Log>)> {
        if number as usize >= slots::MAX {
            return Err(Errno::EINVAL);
        }
        let slot = self.memory.slots.lock().get(number).cloned();
        let slot = slot.ok_or(Errno::ENOENT)?;
        let log = slot.log.clone().ok_or(Errno::ENOENT)?;
        Ok((slot, log))
    }

    /// Reports which pages were written, and clears their bits, unless the VMM clears them itself.
    pub fn notify_log(&self, request: &DirtyLog) -> Result<usize> {
        let _changing = self.changing.lock_killable()?;
        let (slot, log) = self.logged(request.slot)?;
        let mut bitmap = UserPtr::<u64>::new(request.bitmap as usize);
        if self.has_manual_dirty_clear() {
            for (at, word) in log.0.iter().enumerate() {
                bitmap.write(&word.load(Acquire))?;
                bitmap = bitmap.add(1);
                pause(at);
            }
            return Ok(0);
        }
        // The bits are copied first, so that a fault while writing to the VMM leaves them set.
        let mut taken = Vec::new();
        taken
            .try_reserve_exact(log.0.len())
            .map_err(|_| Errno::ENOMEM)?;
        for (at, word) in log.0.iter().enumerate() {
            taken.push(word.swap(0, AcqRel));
            pause(at);
        }
        self.memory
            .translation
            .protect(runs(&slot, 0, &taken), sched::cond_resched);
        for (at, word) in taken.iter().enumerate() {
            pause(at);
            if let Err(error) = bitmap.add(at).write(word) {
                log.put_back(&taken);
                return Err(error);
            }
        }
        Ok(0)
    }

    /// Clears the bits of the pages that the VMM names.
    pub fn clear_log(&self, request: &ClearLog) -> Result<usize> {
        let (first, count) = (request.first as usize, request.count as usize);
        if first % BITS != 0 {
            return Err(Errno::EINVAL);
        }
        let _changing = self.changing.lock_killable()?;
        let (slot, log) = self.logged(request.slot)?;
        let left = slot.len().checked_sub(first);
        let inside = left.is_some_and(|left| count == left || count < left && count % BITS == 0);
        if !inside {
            return Err(Errno::EINVAL);
        }
        let bitmap = UserPtr::<u64>::new(request.bitmap as usize);
        let mut named = bitmap.read_vec(count.div_ceil(BITS))?;
        let logged = &log.0[first / BITS..];
        for (at, (named, word)) in named.iter_mut().zip(logged).enumerate() {
            *named &= word.fetch_and(!*named, AcqRel);
            pause(at);
        }
        self.memory
            .translation
            .protect(runs(&slot, first, &named), sched::cond_resched);
        Ok(0)
    }
}

/// Lets other threads run now and then in a loop over a log's words.
fn pause(at: usize) {
    if at.is_multiple_of(4096) {
        sched::cond_resched();
    }
}

/// The guest addresses of the pages whose bits are set in `words`; the first bit belongs to page
/// `first`.
fn runs(slot: &Slot, first: usize, words: &[u64]) -> impl Iterator<Item = Range<u64>> {
    let words = (first..).step_by(BITS).zip(words).enumerate();
    let words = words.filter_map(|(at, (page, word))| {
        pause(at);
        (*word != 0).then_some((page, word))
    });
    words.map(|(page, word)| {
        let (start, end) = (word.trailing_zeros(), BITS as u32 - word.leading_zeros());
        slot.pages(page + start as usize, (end - start) as usize)
    })
}
