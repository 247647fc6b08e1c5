//! mremap: VMAs that change their length or address, with their pages.

use core::ops::Range;

use super::PAGE_SIZE;
use super::asid::Context;
use super::huge_page::SIZE;
use super::large::{PART, Parts, is_large};
use super::map::Place;
use super::space::{AddressSpace, Space};
use super::space_lock::WriteGuard;
use super::totals::Limits;
use super::vma::{Flags, Vma};
use super::vmas::Removed;
use crate::arch::mmu::Pte;
use crate::errno::{Errno, Result};
use crate::upcall::must_die;
use translation::owed::{Clear, Debts, FillUser};

/// Whether a VMA that cannot grow in place may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// No.
    Never,
    /// To any address.
    Anywhere,
    /// It must move to this address, replacing existing mappings.
    To(usize),
}

/// The arguments of `mremap`.
pub struct RemapRequest {
    /// Part of a VMA, in whole pages.
    pub old: Range<usize>,
    /// The new length in bytes, a multiple of the page size.
    pub len: usize,
    /// The permitted new addresses.
    pub place: Move,
    /// Whether the old range stays mapped, but empty (MREMAP_DONTUNMAP).
    pub keep: bool,
}

impl RemapRequest {
    /// Whether one of the ranges is large.
    pub(super) fn is_large(&self) -> bool {
        is_large(&(0..self.len.max(self.old.len())))
    }

    /// Whether the mapping is at most cut off: as on Linux, the rest may be of several VMAs, or of
    /// none.
    fn only_shrinks(&self) -> bool {
        let stays = !self.keep && !matches!(self.place, Move::To(_));
        stays && self.len <= self.old.len()
    }
}

impl AddressSpace {
    /// Changes the length or address of a part of a VMA; returns the new address, and the VMA's
    /// flags. Files that were mapped go to `gone`.
    ///
    /// # Errors
    /// EFAULT (the old range is not in a single VMA), EPERM (it is sealed), ENOMEM, EAGAIN (too
    /// much is locked), EINVAL, EINTR (the current thread must die).
    pub fn remap(
        &self,
        request: RemapRequest,
        limits: &Limits,
        gone: &mut Removed,
    ) -> Result<(usize, Flags)> {
        let (large, only_shrinks) = (request.is_large(), request.only_shrinks());
        let RemapRequest {
            mut old,
            len,
            place,
            keep,
        } = request;
        if large {
            self.unmap_before(&old, len, (place, only_shrinks), gone)?;
            old.end = old.end.min(old.start + len);
        }
        let mut parts = self.parts();
        let mut space = self.lock_to_change()?;
        let vma = space.vmas.find(old.start).ok_or(Errno::EFAULT)?.clone();
        may_move(&vma, &old, only_shrinks)?;
        if let Move::To(start) = place {
            target(space.end, &old, start, len)?;
        }
        let more = match keep {
            true => len,
            false => len.saturating_sub(old.len()),
        };
        // With a target, the limits are checked after the mappings that it replaces are gone.
        let kind = (vma.flags, vma.rights);
        if !matches!(place, Move::To(_)) {
            space.vmas.totals().check(kind, more, limits)?;
        }
        if place == Move::Anywhere && len == old.len() && !keep {
            return Ok((old.start, vma.flags));
        }
        if !matches!(place, Move::To(_)) && !keep {
            if len <= old.len() {
                if len < old.len() {
                    space.unmap(self.context(), old.start + len..old.end, gone)?;
                }
                return Ok((old.start, vma.flags));
            }
            let end = old.start + len;
            if old.end == vma.end && end <= space.end && space.vmas.extend(vma.end, end) {
                return Ok((old.start, vma.flags));
            }
        }
        // The VMA may be split twice, and its old part may remain.
        if !space.vmas.has_room(4) {
            return Err(Errno::ENOMEM);
        }
        if vma.add_to_file(&self.me)? {
            space = match large {
                true => self.drop_truncated(space, old.clone(), &mut parts),
                false => {
                    space.drop_truncated(self.context(), old.clone());
                    space
                }
            };
        }
        let target = match place {
            Move::Never => return Err(Errno::ENOMEM),
            Move::Anywhere => space.find_free(len)?,
            Move::To(start) => {
                // As on Linux, existing mappings go first, and stay removed if the rest fails.
                let (start, taken) = space.place(Place::Fixed(start), len)?;
                if taken {
                    space.unmap(self.context(), start..start + len, gone)?;
                }
                start
            }
        };
        // A stack may have grown while this was paused.
        space.vmas.totals().check(kind, more, limits)?;
        let new = target..target + len;
        let left = match (large, keep) {
            (_, true) => vma.flags.with(Flags::UNLOCKED, false),
            // The commitment is accounted to the new place. The old part is not merged, and does
            // not grow.
            (true, false) => {
                let counted = Flags::ACCOUNT
                    .union(Flags::UNLOCKED)
                    .union(Flags::GROWS_DOWN);
                vma.flags.with(counted, false).with(Flags::GOES, true)
            }
            (false, false) => vma.flags,
        };
        space.move_vma(&vma, &old, new.clone(), (keep, left), gone)?;
        let held = old.start..old.end.min(old.start + len);
        let (mut space, moved) = self.move_held(space, held, &new, keep, &mut parts);
        match moved {
            Err(_) => {
                let undone = space.unmap(self.context(), new, gone);
                if left != vma.flags {
                    space.vmas.change(old, |old| old.flags = vma.flags)?;
                }
                undone?
            }
            Ok(()) if keep => {}
            Ok(()) => space.unmap(self.context(), old, gone)?,
        }
        moved.map(|()| (target, vma.flags))
    }

    /// Moves the pages in the range `old` of the space to `new`; on failure all pages are where
    /// they were. A large range is moved in parts.
    fn move_held<'a>(
        &'a self,
        mut space: WriteGuard<'a, Space>,
        old: Range<usize>,
        new: &Range<usize>,
        keep: bool,
        parts: &mut Parts<'a>,
    ) -> (WriteGuard<'a, Space>, Result<()>) {
        let large = is_large(&old);
        let distance = new.start.wrapping_sub(old.start);
        for step in [Step::Make, Step::Move, Step::Leave] {
            if step == Step::Leave && (keep || !large) {
                continue;
            }
            let mut at = old.start;
            while at < old.end {
                let end = match large {
                    true => space.table.part_end(at..old.end, &mut PART.clone()),
                    false => old.end,
                };
                if large && step == Step::Move {
                    // A concurrent truncation may already have passed the new place.
                    space.drop_truncated(self.context(), at..end);
                }
                let done = space.move_part(self.context(), at..end, distance, step);
                if done.is_err() {
                    return (space, done);
                }
                at = end;
                if large {
                    space = parts.pause_move(space, [&old, new]);
                    if step == Step::Make && must_die() {
                        return (space, Err(Errno::EINTR));
                    }
                }
            }
        }
        (space, Ok(()))
    }

    /// Unmaps the ranges that a call removes, first, as Linux does: large ranges in parts. May
    /// sleep.
    #[cold]
    fn unmap_before(
        &self,
        old: &Range<usize>,
        len: usize,
        (place, only_shrinks): (Move, bool),
        gone: &mut Removed,
    ) -> Result<()> {
        let allowed = self.with_vma(old.start, |vma| may_move(vma, old, only_shrinks));
        allowed.ok_or(Errno::EFAULT)??;
        if let Move::To(start) = place {
            self.unmap(target(self.end(), old, start, len)?, gone)?;
        }
        let cut = old.start + len..old.end;
        if cut.is_empty() {
            return Ok(());
        }
        self.unmap(cut, gone)
    }
}

/// Checks whether the part at `old` of a VMA that begins there or before may change its length or
/// address.
///
/// # Errors
/// EPERM, EFAULT.
fn may_move(vma: &Vma, old: &Range<usize>, only_shrinks: bool) -> Result<()> {
    if vma.flags.contains(Flags::SEALED) {
        Err(Errno::EPERM)
    } else if old.end > vma.end && !only_shrinks {
        Err(Errno::EFAULT)
    } else {
        Ok(())
    }
}

/// The target range of `len` bytes at `start`, below `end`, for the VMA part at `old`.
///
/// # Errors
/// EINVAL.
fn target(end: usize, old: &Range<usize>, start: usize, len: usize) -> Result<Range<usize>> {
    let end = start.checked_add(len).filter(|&to| to <= end);
    let end = end.ok_or(Errno::EINVAL)?;
    if !start.is_multiple_of(PAGE_SIZE) || start < old.end && old.start < end {
        return Err(Errno::EINVAL);
    }
    Ok(start..end)
}

/// The steps of a move, each of which is done with all parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Makes the tables that the move needs, so that nothing else fails.
    Make,
    /// Moves the PTEs.
    Move,
    /// Removes the tables that are empty now.
    Leave,
}

impl Space {
    /// Maps at `new` what is mapped at `old`. Unless `old` is kept, its VMA is split there, so that
    /// a later unmap cannot fail. Meanwhile it has the flags `left`.
    fn move_vma(
        &mut self,
        vma: &Vma,
        old: &Range<usize>,
        new: Range<usize>,
        (keep, left): (bool, Flags),
        gone: &mut Removed,
    ) -> Result<()> {
        let part = vma.part(old.clone());
        if part.flags.contains(Flags::ACCOUNT) {
            let had = if keep { 0 } else { old.len() };
            self.vmas.commit(new.len().saturating_sub(had))?;
        }
        let flags = part.flags.with(Flags::GROWS_DOWN, false);
        if !keep {
            self.vmas.cut_out(old, gone)?;
        }
        if left != vma.flags {
            self.vmas.change(old.clone(), |old| old.flags = left)?;
        }
        let moved = self.vmas.insert(Vma {
            start: new.start,
            end: new.end,
            flags,
            ..part
        });
        if moved.is_err() && left != vma.flags {
            // The VMA is already split there.
            self.vmas.change(old.clone(), |old| old.flags = vma.flags)?;
        }
        moved
    }

    fn move_part(
        &mut self,
        context: &Context,
        part: Range<usize>,
        distance: usize,
        step: Step,
    ) -> Result<()> {
        match step {
            Step::Make => {
                self.finish_pending(context, part.clone());
                self.make_targets(context, part, distance)?;
            }
            Step::Move => self.move_entries(context, part, distance),
            Step::Leave => self.empty(context, part, true),
        }
        Ok(())
    }

    /// Makes the tables that a move needs: for a table that moves as a whole, those above it;
    /// otherwise those of present pages, so that memory that was never touched costs nothing.
    fn make_targets(&self, context: &Context, part: Range<usize>, distance: usize) -> Result<()> {
        let mut made = Ok(());
        self.table.visit_above_leaf(part.clone(), &mut |start, _| {
            let span = span(start, &part);
            if made.is_err() {
                return;
            }
            let target = span.start.wrapping_add(distance);
            let mut pay = |owed| context.pay(owed, target..target + PAGE_SIZE);
            if is_whole(&span, distance) {
                match self.table.above_leaf(target, &mut pay) {
                    Ok(slot) if slot.load() == Pte::EMPTY => return,
                    Ok(_) => {}
                    Err(error) => return made = Err(error),
                }
            }
            self.split(context, span.clone());
            for (from, to) in halves(span, distance) {
                if made.is_ok() && self.holds_any(from) {
                    made = self.table.make(to, &mut pay).map(drop);
                }
            }
        });
        made
    }

    /// Whether a range within one last-level table has a page.
    fn holds_any(&self, range: Range<usize>) -> bool {
        let mut any = false;
        self.table.visit(range, &mut |_, entries| {
            any |= entries.iter().any(|entry| entry.load() != Pte::EMPTY);
        });
        any
    }

    fn move_entries(&self, context: &Context, part: Range<usize>, distance: usize) {
        let mut pages = Debts::<Clear>::new();
        let (mut unlinked, mut linked) = (None, None);
        self.table
            .visit_above_leaf(part.clone(), &mut |start, slot| {
                let span = span(start, &part);
                let target = span.start.wrapping_add(distance);
                if is_whole(&span, distance)
                    && let Some(target) = self.table.find_above_leaf(target)
                    && target.load() == Pte::EMPTY
                {
                    if slot.load().is_table() {
                        let (old, new) = self.table.move_table(slot, target);
                        old.join_to(&mut unlinked);
                        new.join_to(&mut linked);
                    } else {
                        let (huge, taken) = slot.take();
                        pages.add(span, taken);
                        target.fill::<FillUser>(huge).leave_to_fault();
                    }
                    return;
                }
                self.split(context, span.clone());
                for (from, to) in halves(span, distance) {
                    let Some(target) = self.table.leaf(to) else {
                        continue;
                    };
                    self.table.visit(from, &mut |start, entries| {
                        for (page, source) in (start..).step_by(PAGE_SIZE).zip(entries) {
                            if source.load() != Pte::EMPTY {
                                let (pte, taken) = source.take();
                                pages.add(page..page + PAGE_SIZE, taken);
                                let target = target.entry(page.wrapping_add(distance));
                                target.fill::<FillUser>(pte).leave_to_fault();
                            }
                        }
                    });
                }
            });
        match (unlinked, pages.take()) {
            (Some(tables), Some((_, pages))) => context.pay(tables.with_pages(pages), part.clone()),
            (Some(tables), None) => context.pay(tables, part.clone()),
            (None, Some((span, pages))) => context.pay(pages, span),
            (None, None) => {}
        }
        if let Some(owed) = linked {
            let start = part.start.wrapping_add(distance);
            context.pay(owed, start..start + part.len());
        }
    }
}

/// The part of `part` from `start` on that one last-level table or huge page covers.
fn span(start: usize, part: &Range<usize>) -> Range<usize> {
    start..((start & !(SIZE - 1)) + SIZE).min(part.end)
}

/// Whether the entry that covers `span` covers nothing else, and can cover the span at `distance`.
fn is_whole(span: &Range<usize>, distance: usize) -> bool {
    span.len() == SIZE && distance.is_multiple_of(SIZE)
}

/// Splits a span into one or two ranges, each of which lies in one last-level table after it is
/// moved by `distance`; with the new addresses of their first pages.
fn halves(span: Range<usize>, distance: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let target = span.start.wrapping_add(distance);
    let middle = span.start + (SIZE - target % SIZE).min(span.len());
    [span.start..middle, middle..span.end]
        .into_iter()
        .filter(|half| !half.is_empty())
        .map(move |half| (half.clone(), half.start.wrapping_add(distance)))
}
