//! Large ranges, which are changed in parts: in between, other threads run and the address space is
//! unlocked.

use core::ops::Range;

use super::active;
use super::fault::Access;
use super::huge_page;
use super::space::{AddressSpace, Space};
use super::space_lock::WriteGuard;
use super::vma::{Protection, Vma};
use super::vmas::Removed;
use crate::errno::{Errno, Result};
use crate::sync::might_sleep;
use crate::upcall::{self, cond_resched, cond_resched_killable};

/// The largest range that is changed at once, in bytes, regardless of its content.
const AT_ONCE: usize = 1 << 24;
/// Number of last-level tables in one part of a larger range.
pub(super) const PART: usize = 16;
/// Number of VMAs that are changed at once.
pub(super) const VMAS: usize = 512;
/// A space is large from this sum of its tables, its huge pages and a sixteenth of its VMAs on.
const MANY: usize = 32;

/// Whether a range is changed in parts, so that the caller may sleep.
#[inline]
pub fn is_large(range: &Range<usize>) -> bool {
    range.len() > AT_ONCE
}

/// Marks a large range as being unmapped. Must be dropped without the space's lock held.
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

/// A fork or a move that may proceed in parts. Other threads run between the parts, but cannot
/// change VMAs until this is dropped. Must be dropped without the space's lock held.
pub(super) struct Parts<'a> {
    space: &'a AddressSpace,
    paused: bool,
    /// Whether other threads use the memory that is being copied for a child.
    forks_beside: bool,
}

impl<'a> Parts<'a> {
    /// Ends a part and lets other threads run. If they use memory that is being copied for a child,
    /// write faults wait.
    #[cold]
    #[inline(never)]
    pub(super) fn pause(&mut self, mut space: WriteGuard<'a, Space>) -> WriteGuard<'a, Space> {
        space.set_paused(true);
        self.paused = true;
        if self.forks_beside && !space.forking {
            space.forking = true;
            // Faults check `late`.
            space.late += 1;
        }
        drop(space);
        cond_resched();
        self.space.inner.give_way();
        self.space.lock()
    }

    /// As [`Parts::pause`], while pages move between these ranges: faults there wait.
    #[cold]
    #[inline(never)]
    pub(super) fn pause_move(
        &mut self,
        mut space: WriteGuard<'a, Space>,
        moving: [&Range<usize>; 2],
    ) -> WriteGuard<'a, Space> {
        if !space.is_moving() {
            space.moving = moving.map(Range::clone);
            space.late += 1;
        }
        self.pause(space)
    }

    #[cold]
    #[inline(never)]
    fn end(&self) {
        let mut space = self.space.lock();
        space.set_paused(false);
        if space.is_moving() {
            space.moving = [0..0, 0..0];
            space.late -= 1;
        }
        if core::mem::take(&mut space.forking) {
            space.late -= 1;
        }
        self.space.unlock_and_wake(space);
    }
}

impl Drop for Parts<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.paused {
            self.end();
        }
    }
}

impl Space {
    /// Whether a move is in progress.
    pub(super) fn is_moving(&self) -> bool {
        !self.moving[0].is_empty()
    }

    /// Whether `access` to a range must wait. A move blocks faults near both its ranges, since a
    /// fault fills up to a huge page, and the growth of stacks, since the moved memory is accounted
    /// twice meanwhile. A fork blocks writes: a child that has a write must have all earlier ones.
    pub(super) fn must_wait(&self, range: &Range<usize>, access: Access) -> bool {
        let start = range.start & !(huge_page::SIZE - 1);
        let end = range.end.next_multiple_of(huge_page::SIZE);
        let is_near = |moving: &Range<usize>| moving.start < end && start < moving.end;
        let moves = || self.moving.iter().any(is_near) || self.vmas.find(range.start).is_none();
        self.forking && access == Access::Write || self.is_moving() && moves()
    }

    /// Whether dropping the space would take long.
    pub(super) fn is_large(&self) -> bool {
        let held = self.table.tables() + self.table.huge_pages();
        held + self.vmas.count() / PART >= MANY
    }
}

impl AddressSpace {
    /// Whether a fork or a move is between two of its parts, so that a change of VMAs must wait.
    pub fn is_paused(&self) -> bool {
        self.read_lock().paused
    }

    /// Locks the space exclusively to change VMAs. Waits for a fork or a move in parts to finish.
    ///
    /// # Errors
    /// EINTR if the current thread must die.
    #[inline(always)]
    pub(super) fn lock_to_change(&self) -> Result<WriteGuard<'_, Space>> {
        let space = self.lock();
        if space.paused {
            drop(space);
            return self.lock_when(|space| !space.paused);
        }
        Ok(space)
    }

    /// Locks the space for `access` to a range. Waits for a move there to finish, and for a write
    /// also for a fork.
    ///
    /// # Errors
    /// EINTR if the current thread must die.
    pub(super) fn lock_range(
        &self,
        range: &Range<usize>,
        access: Access,
    ) -> Result<WriteGuard<'_, Space>> {
        might_sleep();
        self.lock_range_borrowed(range, access)
    }

    /// As [`AddressSpace::lock_range`], where the space may be borrowed from this CPU.
    fn lock_range_borrowed(
        &self,
        range: &Range<usize>,
        access: Access,
    ) -> Result<WriteGuard<'_, Space>> {
        let space = self.lock();
        if space.must_wait(range, access) {
            drop(space);
            return self.lock_when(|space| !space.must_wait(range, access));
        }
        Ok(space)
    }

    #[cold]
    #[inline(never)]
    fn lock_when(&self, ready: impl Fn(&Space) -> bool) -> Result<WriteGuard<'_, Space>> {
        self.lock().waiters += 1;
        loop {
            let waited = active::wait_borrowing(self, || {
                upcall::wait_for_space(self, &|| ready(&self.read_lock()))
            });
            let mut space = self.lock();
            if waited.is_err() || ready(&space) {
                space.waiters -= 1;
                return waited.map(|()| space);
            }
        }
    }

    /// Unlocks the space and wakes its waiters.
    fn unlock_and_wake(&self, space: WriteGuard<'_, Space>) {
        let any = space.waiters != 0;
        drop(space);
        if any {
            upcall::space_changed(self);
        }
    }

    /// Waits after [`Failure::Paused`](super::fault::Failure::Paused).
    ///
    /// # Errors
    /// EINTR if the current thread must die.
    #[cold]
    pub fn wait_for_access(&self, address: usize, access: Access) -> Result<()> {
        self.lock_range(&(address..address + 1), access).map(drop)
    }

    /// Begins a move that may proceed in parts.
    #[inline(always)]
    pub(super) fn parts(&self) -> Parts<'_> {
        self.parts_of_fork(true)
    }

    /// Begins a fork that may proceed in parts; `alone` if no other thread uses the memory.
    #[inline(always)]
    pub(super) fn parts_of_fork(&self, alone: bool) -> Parts<'_> {
        Parts {
            space: self,
            paused: false,
            forks_beside: !alone,
        }
    }

    /// Calls `change` with each part of a range, of which there is only one unless the range is
    /// large. `lock` is called with the rest before each part, and `pause` after each but the last.
    ///
    /// # Errors
    /// Those of the three callbacks.
    pub(super) fn each_part<'a>(
        &'a self,
        range: Range<usize>,
        lock: impl Fn(&Range<usize>) -> Result<WriteGuard<'a, Space>>,
        mut change: impl FnMut(&mut Space, Range<usize>) -> Result<()>,
        pause: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let (mut at, large) = (range.start, is_large(&range));
        while at < range.end {
            let mut space = lock(&(at..range.end))?;
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
                self.inner.give_way();
            }
        }
        Ok(())
    }

    /// As [`AddressSpace::each_part`], for changes that cannot fail and are not interrupted.
    pub(super) fn each_part_of(
        &self,
        range: Range<usize>,
        mut change: impl FnMut(&mut Space, Range<usize>),
    ) {
        let changed = |space: &mut Space, part| {
            change(space, part);
            Ok(())
        };
        // Neither the lock nor the pause can fail.
        let lock = |_: &Range<usize>| Ok(self.lock());
        _ = self.each_part(range, lock, changed, || {
            cond_resched();
            Ok(())
        });
    }

    /// Unmaps a range of pages; its files go to `gone`. May sleep if the range is large.
    #[inline]
    pub fn unmap(&self, range: Range<usize>, gone: &mut Removed) -> Result<()> {
        if is_large(&range) {
            let _leaving = self.empty_first(range.clone(), gone)?;
            // In batches of whole VMAs, whose removal needs no memory.
            return self.each_vmas(range, |space, part| space.unmap(self.context(), part, gone));
        }
        self.lock_to_change()?.unmap(self.context(), range, gone)
    }

    /// Calls `change` with each part of a range. If the range is large, the parts end at VMA
    /// boundaries and contain at most [`VMAS`] VMAs. Reschedules in between.
    ///
    /// # Errors
    /// Those of `change`, which is not called again.
    pub(super) fn each_vmas(
        &self,
        range: Range<usize>,
        mut change: impl FnMut(&mut Space, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let (mut at, large) = (range.start, is_large(&range));
        while at < range.end {
            let mut space = self.lock_to_change()?;
            let mut vmas = space.vmas.touching(at..range.end);
            let after = if large { vmas.nth(VMAS) } else { None };
            let end = after.map_or(range.end, |vma| vma.start);
            drop(vmas);
            change(&mut space, at..end)?;
            drop(space);
            at = end;
            if at < range.end {
                cond_resched();
                self.inner.give_way();
            }
        }
        Ok(())
    }

    /// Empties a large range in parts; it is removed or replaced while the result lives.
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
        let lock = |left: &Range<usize>| self.lock_range(left, Access::Write);
        self.each_part(range, lock, empty, cond_resched_killable)?;
        Ok(leaving)
    }

    /// Performs the steps that can fail before any content is lost.
    pub(super) fn leave(&self, range: Range<usize>, gone: &mut Removed) -> Result<Leaving<'_>> {
        let mut space = self.lock_to_change()?;
        space.leaving.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        space.vmas.cut_out_for_long(&range, gone)?;
        space.leaving.push(range.clone());
        Ok(Leaving { space: self, range })
    }

    /// Discards the content of a range of pages, unless `may` refuses one of its VMAs; the memory
    /// stays committed. May sleep if the range is large.
    ///
    /// # Errors
    /// Those of `may`; ENOMEM if not all is mapped; EINTR if the current thread must die; EAGAIN if
    /// a fork or a move is in progress, unless `waits`.
    pub fn discard(
        &self,
        range: Range<usize>,
        waits: bool,
        may: impl Fn(&Vma) -> Result<()>,
    ) -> Result<()> {
        let all_may = |space: &Space, part| space.vmas.touching(part).try_for_each(&may);
        if is_large(&range) {
            // Discards nothing if a VMA refuses at the start.
            all_may(&self.read_lock(), range.clone())?;
        }
        let mut covered = true;
        let empty = |space: &mut Space, part: Range<usize>| {
            all_may(space, part.clone())?;
            covered &= space.vmas.covers(part.clone());
            space.empty(self.context(), part, false);
            Ok(())
        };
        // Discarding is like writing zeroes.
        let lock = |left: &Range<usize>| match waits {
            true => self.lock_range_borrowed(left, Access::Write),
            false => {
                let space = self.lock();
                let free = !space.must_wait(left, Access::Write);
                free.then_some(space).ok_or(Errno::EAGAIN)
            }
        };
        self.each_part(range, lock, empty, cond_resched_killable)?;
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Changes the rights of a range of pages. May sleep if the range is large.
    ///
    /// # Errors
    /// ENOMEM (not all mapped), EACCES (a VMA that can never have the rights), EPERM (a sealed
    /// VMA).
    pub fn protect(&self, range: Range<usize>, wanted: impl Into<Protection>) -> Result<()> {
        let wanted = wanted.into();
        if !is_large(&range) {
            let mut space = self.lock();
            if space.unusual {
                drop(space);
                return self.protect_unusual(range, wanted);
            }
            return space.protect(self.context(), range, wanted);
        }
        self.protect_by_parts(range, |space, part| match space.is_tagged() {
            true => space.promise::<true>(part, wanted),
            false => space.promise::<false>(part, wanted),
        })
    }

    /// As [`AddressSpace::protect`], for a large range; `promise` changes the VMAs of a part.
    #[cold]
    #[inline(never)]
    fn protect_by_parts(
        &self,
        range: Range<usize>,
        promise: impl Fn(&mut Space, Range<usize>) -> Result<(Range<usize>, Result<()>)>,
    ) -> Result<()> {
        self.lock_to_change()?.late += 1;
        let mut end = range.start;
        let promised = self.each_vmas(range.clone(), |space, part| {
            let (done, result) = promise(space, part)?;
            end = done.end;
            result
        });
        // The VMAs may have changed meanwhile: apply their current rights.
        self.each_part_of(range.start..end, |space, part| {
            space.apply_own_rights(self.context(), part)
        });
        self.lock().late -= 1;
        promised
    }

    #[cold]
    #[inline(never)]
    fn protect_unusual(&self, range: Range<usize>, wanted: Protection) -> Result<()> {
        let mut space = self.lock_to_change()?;
        let (done, result) = match space.is_tagged() {
            true => space.promise::<true>(range, wanted)?,
            false => space.promise::<false>(range, wanted)?,
        };
        space.apply_own_rights(self.context(), done);
        result
    }

    /// [`AddressSpace::protect`], which also gives the memory tags (PROT_MTE). May sleep if the
    /// range is large.
    ///
    /// # Errors
    /// Those of [`AddressSpace::protect`]; EINVAL for a VMA that cannot have tags.
    #[cold]
    pub fn protect_with_tags(&self, range: Range<usize>, wanted: Protection) -> Result<()> {
        self.set_tagged();
        self.protect_by_parts(range, |space, part| space.promise_tags(part, wanted))
    }

    /// Records that some of the memory has tags from now on.
    #[cold]
    pub fn set_tagged(&self) {
        self.lock().set_tagged();
    }
}
