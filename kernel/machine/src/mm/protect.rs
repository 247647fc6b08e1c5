//! Changes to the rights of VMAs, and to their other flags.

use core::ops::Range;

use super::asid::Context;
use super::space::{AddressSpace, Space, TAGGED};
use super::vma::{Flags, Protection, Rights, Vma};
use crate::errno::{Errno, Result};
use translation::owed::{Owed, Protect};

impl AddressSpace {
    /// Sets or clears flags of the VMAs in a range, unless `may` refuses one of them. May sleep if
    /// the range is large.
    ///
    /// # Errors
    /// ENOMEM, also if not all is mapped; those of `may`.
    pub fn set_flags(
        &self,
        range: Range<usize>,
        flags: Flags,
        on: bool,
        may: impl Fn(&Vma) -> Result<()>,
    ) -> Result<()> {
        let all_may = |space: &Space, part| space.vmas.touching(part).try_for_each(&may);
        self.change_flags(range, |old| old.with(flags, on), all_may)
    }

    /// Seals pages (mseal): they stay mapped, with their rights. May sleep if the range is large.
    ///
    /// # Errors
    /// ENOMEM, also if not all is mapped, or a part is just being unmapped.
    pub fn seal(&self, range: Range<usize>) -> Result<()> {
        let stays = |space: &Space, part: Range<usize>| {
            let leaves = |other: &Range<usize>| other.start < part.end && part.start < other.end;
            let stays = space.vmas.covers(part.clone()) && !space.leaving.iter().any(leaves);
            if stays { Ok(()) } else { Err(Errno::ENOMEM) }
        };
        stays(&self.read_lock(), range.clone())?;
        self.change_flags(range, |old| old.with(Flags::SEALED, true), stays)
    }

    /// Locks or unlocks a range of pages according to `flags`; droppable pages stay unchanged. May
    /// sleep if the range is large.
    pub fn lock_pages(&self, range: Range<usize>, flags: Flags) -> Result<()> {
        let new = |old: Flags| match old.contains(Flags::DROPPABLE) {
            true => old,
            false => old.with(Flags::UNLOCKED, false).union(flags),
        };
        self.change_flags(range, new, |_, _| Ok(()))
    }

    /// Changes the flags of the VMAs of a range, in parts if it is large, until `check` refuses a
    /// part.
    fn change_flags(
        &self,
        range: Range<usize>,
        new: impl Fn(Flags) -> Flags,
        check: impl Fn(&Space, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let changes = |vma: &Vma| new(vma.flags) != vma.flags;
        let mut covered = true;
        self.each_vmas(range, |space, part| {
            check(space, part.clone())?;
            covered &= space.vmas.covers(part.clone());
            space.vmas.check_cuts(&part, changes)?;
            space.vmas.change(part, |vma| vma.flags = new(vma.flags))
        })?;
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }
}

impl Space {
    pub(super) fn protect(
        &mut self,
        context: &Context,
        range: Range<usize>,
        wanted: Protection,
    ) -> Result<()> {
        let (done, result) = self.promise::<false>(range, wanted)?;
        self.apply_rights::<false>(context, done);
        result
    }

    /// Changes the rights of the VMAs in `range` up to the first hole or VMA that cannot have them:
    /// as on Linux, the VMAs before it change although the call fails. Returns the range whose PTEs
    /// must follow, and the result of the call. `TAGS`: memory may have tags, which are kept.
    ///
    /// # Errors
    /// ENOMEM (nothing changed).
    pub(super) fn promise<const TAGS: bool>(
        &mut self,
        range: Range<usize>,
        wanted: Protection,
    ) -> Result<(Range<usize>, Result<()>)> {
        let (end, result) = self.allowed(&range, wanted);
        let range = range.start..end;
        if range.is_empty() {
            return Ok((range, result));
        }
        let rights_of = |vma: &Vma| {
            let rights = wanted.of(vma);
            match TAGS {
                true => rights.union(vma.rights.intersection(Rights::TAGGED)),
                false => rights,
            }
        };
        let changes = |vma: &Vma| vma.rights != rights_of(vma);
        self.vmas.check_cuts(&range, changes)?;
        if wanted.rights.contains(Rights::WRITE) {
            self.vmas.commit_writable(&range)?;
        }
        self.vmas.change(range.clone(), |vma| {
            let rights = rights_of(vma);
            vma.flags = vma.flags.accounted(rights);
            vma.rights = rights;
        })?;
        Ok((range, result))
    }

    /// [`Space::promise`], which also gives the memory tags.
    ///
    /// # Errors
    /// ENOMEM (nothing changed).
    #[cold]
    pub(super) fn promise_tags(
        &mut self,
        range: Range<usize>,
        wanted: Protection,
    ) -> Result<(Range<usize>, Result<()>)> {
        let (end, mut result) = self.allowed(&range, wanted);
        let mut range = range.start..end;
        let mut vmas = self.vmas.touching(range.clone());
        if let Some(vma) = vmas.find(|vma| !vma.may_have_tags()) {
            range.end = vma.start.max(range.start);
            result = Err(Errno::EINVAL);
        }
        drop(vmas);
        if range.is_empty() {
            return Ok((range, result));
        }
        let wanted = Protection {
            rights: wanted.rights.union(Rights::TAGGED),
            ..wanted
        };
        let (done, promised) = self.promise::<true>(range, wanted)?;
        Ok((done, promised.and(result)))
    }

    /// Returns the end of the part of a range that can have the rights, and why it ends there.
    fn allowed(&self, range: &Range<usize>, wanted: Protection) -> (usize, Result<()>) {
        let mut at = range.start;
        for vma in self.vmas.touching(range.clone()) {
            if vma.start > at {
                break;
            }
            if !wanted.is_allowed(vma) {
                return (at, Err(Errno::EACCES));
            }
            if vma.flags.contains(Flags::SEALED) {
                return (at, Err(Errno::EPERM));
            }
            at = vma.end;
        }
        if at < range.end {
            (at, Err(Errno::ENOMEM))
        } else {
            (range.end, Ok(()))
        }
    }

    /// Whether there may be protection changes that PTEs do not show yet; also true if memory has
    /// tags.
    #[inline]
    fn has_pending(&self) -> bool {
        // Paused moves and forks do not change rights.
        self.late != usize::from(self.is_moving()) + usize::from(self.forking)
    }

    /// Completes pending protection changes in a range before its PTEs are moved or copied, because
    /// mprotect appears atomic on Linux.
    #[inline]
    pub(super) fn finish_pending(&mut self, context: &Context, range: Range<usize>) {
        if self.has_pending() {
            self.finish_rights(context, range);
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_rights(&mut self, context: &Context, range: Range<usize>) {
        let paused = usize::from(self.is_moving()) + usize::from(self.forking);
        if self.late & !TAGGED != paused {
            self.apply_own_rights(context, range);
        }
    }

    /// [`Space::apply_rights`], also for memory that may have tags.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_own_rights(&mut self, context: &Context, range: Range<usize>) {
        if self.is_tagged() {
            self.apply_rights::<true>(context, range);
        } else {
            self.apply_rights::<false>(context, range);
        }
    }

    /// Updates the PTEs of a range to the rights of its VMAs. `TAGS`: memory may have tags.
    fn apply_rights<const TAGS: bool>(&mut self, context: &Context, range: Range<usize>) {
        self.split(context, range.clone());
        let mut owed: Option<Owed<Protect>> = None;
        for vma in self.vmas.touching(range.clone()) {
            let part = vma.start.max(range.start)..vma.end.min(range.end);
            self.table.visit(part, &mut |_, entries| {
                for entry in entries {
                    if let Some(also) = super::fault::set_rights::<TAGS>(vma, entry) {
                        also.join_to(&mut owed);
                    }
                }
            });
        }
        if let Some(owed) = owed {
            context.pay(owed, range);
        }
    }
}
