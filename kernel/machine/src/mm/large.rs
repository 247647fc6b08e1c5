//! Large ranges, which are changed part by part: others run in between, and the address space's
//! lock is free.

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

/// A fork or a move that may go part by part, between which others run. No VMA is changed by them
/// before this is dropped, without the space's lock.
pub(super) struct Parts<'a> {
    space: &'a AddressSpace,
    paused: bool,
    /// A child is made of memory that other threads use.
    forks_beside: bool,
}

impl<'a> Parts<'a> {
    /// One part is done. Others run; where they use memory of which a child is made, whoever
    /// faults to write waits.
    #[cold]
    #[inline(never)]
    pub(super) fn pause(&mut self, mut space: WriteGuard<'a, Space>) -> WriteGuard<'a, Space> {
        space.set_paused(true);
        self.paused = true;
        if self.forks_beside && !space.forking {
            space.forking = true;
            // Faults look at it.
            space.late += 1;
        }
        drop(space);
        cond_resched();
        self.space.lock()
    }

    /// The same while what lies in these ranges is moved from one to the other: faults there wait.
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
    /// Whether a move is under way.
    pub(super) fn is_moving(&self) -> bool {
        !self.moving[0].is_empty()
    }

    /// Whether `access` to a range waits. A move holds back faults near both its ranges, since a
    /// fault fills up to a huge page, and the growth of stacks, since what moves counts twice
    /// meanwhile. A fork holds back writes: a child that has one has all that came before it.
    pub(super) fn must_wait(&self, range: &Range<usize>, access: Access) -> bool {
        let start = range.start & !(huge_page::SIZE - 1);
        let end = range.end.next_multiple_of(huge_page::SIZE);
        let is_near = |moving: &Range<usize>| moving.start < end && start < moving.end;
        let moves = || self.moving.iter().any(is_near) || self.vmas.find(range.start).is_none();
        self.forking && access == Access::Write || self.is_moving() && moves()
    }

    /// Whether its end would take long.
    pub(super) fn is_large(&self) -> bool {
        let held = self.table.tables() + self.table.huge_pages();
        held + self.vmas.count() / PART >= MANY
    }
}

impl AddressSpace {
    /// Whether a fork or a move is between two of its parts, so that a change of VMAs waits.
    pub fn is_paused(&self) -> bool {
        self.read_lock().paused
    }

    /// For changing VMAs alone. Waits until a fork or a move is over that goes part by part.
    ///
    /// # Errors
    /// EINTR: the current thread is to die.
    #[inline(always)]
    pub(super) fn lock_to_change(&self) -> Result<WriteGuard<'_, Space>> {
        let space = self.lock();
        if space.paused {
            drop(space);
            return self.lock_when(|space| !space.paused);
        }
        Ok(space)
    }

    /// For `access` to a range. Waits until no move is under way there, and no fork if it writes.
    ///
    /// # Errors
    /// EINTR: the current thread is to die.
    pub(super) fn lock_range(
        &self,
        range: &Range<usize>,
        access: Access,
    ) -> Result<WriteGuard<'_, Space>> {
        might_sleep();
        self.lock_range_borrowed(range, access)
    }

    /// The same where the space may be borrowed from this CPU.
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

    /// Has those that wait for the space ask again.
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
    /// EINTR: the current thread is to die.
    #[cold]
    pub fn wait_for_access(&self, address: usize, access: Access) -> Result<()> {
        self.lock_range(&(address..address + 1), access).map(drop)
    }

    /// A move that may go part by part.
    #[inline(always)]
    pub(super) fn parts(&self) -> Parts<'_> {
        self.parts_of_fork(true)
    }

    /// A fork that may; `alone` where no other thread uses the memory.
    #[inline(always)]
    pub(super) fn parts_of_fork(&self, alone: bool) -> Parts<'_> {
        Parts {
            space: self,
            paused: false,
            forks_beside: !alone,
        }
    }

    /// Calls `change` with each part of a range, of which there is one unless it is large, after
    /// `lock` of what is left, and `pause` after each but the last.
    ///
    /// # Errors
    /// The errors of the three.
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
        let lock = |_: &Range<usize>| Ok(self.lock());
        _ = self.each_part(range, lock, changed, || {
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
        self.lock_to_change()?.unmap(self.context(), range, gone)
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
        let lock = |left: &Range<usize>| self.lock_range(left, Access::Write);
        self.each_part(range, lock, empty, cond_resched_killable)?;
        Ok(leaving)
    }

    /// What can fail does so while nothing is lost.
    pub(super) fn leave(&self, range: Range<usize>, gone: &mut Removed) -> Result<Leaving<'_>> {
        let mut space = self.lock_to_change()?;
        space.leaving.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        space.vmas.cut_out_for_long(&range, gone)?;
        space.leaving.push(range.clone());
        Ok(Leaving { space: self, range })
    }

    /// Lets go of the content of a range of pages, as far as `may` refuses none of its VMAs; what
    /// was promised there stands. Waits if the range is large.
    ///
    /// # Errors
    /// Those of `may`; ENOMEM where not all is mapped; EINTR: the current thread is to die; EAGAIN
    /// where a fork or a move would be waited for, unless it `waits` for those.
    pub fn discard(
        &self,
        range: Range<usize>,
        waits: bool,
        may: impl Fn(&Vma) -> Result<()>,
    ) -> Result<()> {
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
        // As a write of zeroes.
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

    /// Changes what the program may do with a range of pages. Waits if the range is large.
    ///
    /// # Errors
    /// ENOMEM (not all mapped), EACCES (a VMA that can never have the rights), EPERM (one that is
    /// sealed).
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

    /// The same as `promise` says, which promises the rights to a part.
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
        // The VMAs may have changed meanwhile: apply the rights that they have now.
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

    /// [`AddressSpace::protect`], after which the memory has tags (PROT_MTE). Waits if the range
    /// is large.
    ///
    /// # Errors
    /// As there; EINVAL for a VMA that can have none.
    #[cold]
    pub fn protect_with_tags(&self, range: Range<usize>, wanted: Protection) -> Result<()> {
        self.set_tagged();
        self.protect_by_parts(range, |space, part| space.promise_tags(part, wanted))
    }

    /// Some of its memory has tags from now on.
    #[cold]
    pub fn set_tagged(&self) {
        self.lock().set_tagged();
    }
}
