//! Large ranges, which are changed part by part: others run in between, and the address space's
//! lock is free.

use core::ops::Range;

use super::space::{AddressSpace, Space};
use super::space_lock::WriteGuard;
use super::vma::{Protection, Vma};
use super::vmas::Removed;
use crate::arch::irq::{self, Interrupted};
use crate::errno::{Errno, Result};
use crate::upcall::{cond_resched, cond_resched_killable};

/// The most that is changed at once, in bytes, whatever it has.
const AT_ONCE: usize = 1 << 24;
/// The last-level tables of a part of what is larger.
pub(super) const PART: usize = 16;
/// VMAs that are changed at once.
pub(super) const VMAS: usize = 512;
/// A space with fewer tables and huge pages is small.
const MANY: usize = 32;

/// Whether a range is changed part by part, so that the caller waits.
#[inline]
pub fn is_large(range: &Range<usize>) -> bool {
    range.len() > AT_ONCE
}

/// A large range is taken away while this lives. Dropped without the space's lock.
pub(super) struct Leaving<'a> {
    space: &'a AddressSpace,
    range: Range<usize>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let leaving = &mut self.space.lock().leaving;
        if let Some(at) = leaving.iter().position(|range| *range == self.range) {
            leaving.swap_remove(at);
        }
    }
}

impl Space {
    /// Whether its end would take long.
    pub(super) fn is_large(&self) -> bool {
        let held = self.table.tables() + self.table.huge_pages();
        held + self.vmas.count() / PART >= MANY
    }
}

impl AddressSpace {
    /// Between the parts of a change that is to look undivided to the threads that run the space.
    /// Others run where there is but the current one (`alone`). Beside others the space stays
    /// locked, for which they spin, so only what interrupts want is done: none of it needs a space.
    pub(super) fn pause<'a>(
        &'a self,
        space: WriteGuard<'a, Space>,
        alone: bool,
    ) -> WriteGuard<'a, Space> {
        if alone {
            drop(space);
            cond_resched();
            return self.lock();
        }
        if irq::pending() {
            irq::service(Interrupted::Kernel);
        }
        space
    }

    /// Calls `change` with each part of a range, of which there is one unless it is large, and
    /// `pause` after each but the last.
    ///
    /// # Errors
    /// The errors of `change` and `pause`.
    pub(super) fn each_part(
        &self,
        range: Range<usize>,
        mut change: impl FnMut(&mut Space, Range<usize>) -> Result<()>,
        pause: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut at, large) = (range.start, is_large(&range));
        while at < range.end {
            let mut space = self.lock();
            let end = if large {
                space.table.part_end(at..range.end, &mut PART.clone())
            } else {
                range.end
            };
            change(&mut space, at..end)?;
            drop(space);
            at = end;
            if at < range.end {
                pause()?;
            }
        }
        Ok(())
    }

    /// The same for what nothing ends.
    pub(super) fn each_part_of(
        &self,
        range: Range<usize>,
        mut change: impl FnMut(&mut Space, Range<usize>),
    ) {
        let changed = |space: &mut Space, part| {
            change(space, part);
            Ok(())
        };
        // Others run, and that never fails.
        _ = self.each_part(range, changed, || {
            cond_resched();
            Ok(())
        });
    }

    /// Takes a range of pages away; its files go to `gone`. Waits if the range is large.
    #[inline]
    pub fn unmap(&self, range: Range<usize>, gone: &mut Removed) -> Result<()> {
        if is_large(&range) {
            let _leaving = self.empty_first(range.clone(), gone)?;
            // Whole VMAs, which needs no memory.
            return self.each_vmas(range, |space, part| space.unmap(self.context(), part, gone));
        }
        self.lock().unmap(self.context(), range, gone)
    }

    /// Calls `change` with each part of a range that has so many VMAs at most, if it is large: the
    /// parts end where VMAs do. Waits in between.
    ///
    /// # Errors
    /// Of `change`, which is called no more.
    pub(super) fn each_vmas(
        &self,
        range: Range<usize>,
        mut change: impl FnMut(&mut Space, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let (mut at, large) = (range.start, is_large(&range));
        while at < range.end {
            let mut space = self.lock();
            let mut vmas = space.vmas.touching(at..range.end);
            let after = if large { vmas.nth(VMAS) } else { None };
            let end = after.map_or(range.end, |vma| vma.start);
            drop(vmas);
            change(&mut space, at..end)?;
            drop(space);
            at = end;
            if at < range.end {
                cond_resched();
            }
        }
        Ok(())
    }

    /// Empties a large range part by part, which is removed, or replaced, while the result lives.
    #[cold]
    #[inline(never)]
    pub(super) fn empty_first(
        &self,
        range: Range<usize>,
        gone: &mut Removed,
    ) -> Result<Leaving<'_>> {
        let leaving = self.leave(range.clone(), gone)?;
        let empty = |space: &mut Space, part| {
            space.empty(self.context(), part, true);
            Ok(())
        };
        self.each_part(range, empty, cond_resched_killable)?;
        Ok(leaving)
    }

    /// What can fail does so while nothing is lost.
    pub(super) fn leave(&self, range: Range<usize>, gone: &mut Removed) -> Result<Leaving<'_>> {
        let mut space = self.lock();
        space.leaving.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        space.vmas.cut_out_for_long(&range, gone)?;
        space.leaving.push(range.clone());
        Ok(Leaving { space: self, range })
    }

    /// Lets go of the content of a range of pages, as far as `may` refuses none of its VMAs; what
    /// was promised there stands. Waits if the range is large.
    ///
    /// # Errors
    /// Those of `may`; ENOMEM where not all is mapped.
    pub fn discard(&self, range: Range<usize>, may: impl Fn(&Vma) -> Result<()>) -> Result<()> {
        let all_may = |space: &Space, part| space.vmas.touching(part).try_for_each(&may);
        if is_large(&range) {
            // Nothing goes where one refuses from the first.
            all_may(&self.read_lock(), range.clone())?;
        }
        let mut covered = true;
        let empty = |space: &mut Space, part: Range<usize>| {
            all_may(space, part.clone())?;
            covered &= space.vmas.covers(part.clone());
            space.empty(self.context(), part, false);
            Ok(())
        };
        self.each_part(range, empty, cond_resched_killable)?;
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Changes what the program may do with a range of pages. Waits if the range is large.
    ///
    /// # Errors
    /// ENOMEM (not all mapped), EACCES (a VMA that can never have the rights), EPERM (one that is
    /// sealed).
    pub fn protect(&self, range: Range<usize>, wanted: impl Into<Protection>) -> Result<()> {
        let wanted = wanted.into();
        if !is_large(&range) {
            return self.lock().protect(self.context(), range, wanted);
        }
        self.lock().late += 1;
        let mut end = range.start;
        let promised = self.each_vmas(range.clone(), |space, part| {
            let (done, result) = space.promise(part, wanted)?;
            end = done.end;
            result
        });
        // The VMAs may have changed meanwhile: apply the rights that they have now.
        self.each_part_of(range.start..end, |space, part| {
            space.apply_rights(self.context(), part)
        });
        self.lock().late -= 1;
        promised
    }
}
