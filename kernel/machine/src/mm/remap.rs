//! mremap: VMAs that change their length or their place, with what they hold.

use core::ops::Range;

use super::PAGE_SIZE;
use super::asid::Context;
use super::huge_page;
use super::large::{Pause, is_large};
use super::map::Place;
use super::space::{AddressSpace, Space};
use super::table::Entry;
use super::totals::Limits;
use super::vma::{Flags, Vma};
use super::vmas::Removed;
use crate::arch::mmu::Pte;
use crate::errno::{Errno, Result};
use translation::owed::{Clear, Debts, FillUser};

/// Whether a VMA that cannot grow in place may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// It may not.
    Never,
    /// Anywhere.
    Anywhere,
    /// It must, to this address, in place of what is there.
    To(usize),
}

/// What `mremap` asks for.
pub struct RemapRequest {
    /// A part of a VMA, of whole pages.
    pub old: Range<usize>,
    /// Bytes that it is to have, a multiple of the page size.
    pub len: usize,
    /// Where it may go.
    pub place: Move,
    /// The old range stays mapped, emptied (MREMAP_DONTUNMAP).
    pub keep: bool,
}

impl RemapRequest {
    /// Whether one of the ranges is large.
    pub(super) fn is_large(&self) -> bool {
        is_large(&(0..self.len.max(self.old.len())))
    }
}

impl AddressSpace {
    /// Gives a part of a VMA another length or place; returns where it is then, and its flags.
    /// Files that were mapped go to `gone`.
    ///
    /// # Errors
    /// EFAULT (the old range is not all in one VMA), EPERM (it is sealed), ENOMEM, EAGAIN (too much
    /// is locked), EINVAL.
    pub fn remap(
        &self,
        request: RemapRequest,
        limits: &Limits,
        gone: &mut Removed,
    ) -> Result<(usize, Flags)> {
        let large = request.is_large();
        let RemapRequest {
            mut old,
            len,
            place,
            keep,
        } = request;
        if large {
            self.unmap_before(&old, len, place, gone)?;
            old.end = old.end.min(old.start + len);
        }
        let mut space = self.lock();
        let vma = space.vmas.find(old.start).ok_or(Errno::EFAULT)?.clone();
        may_move(&vma, &old)?;
        if let Move::To(start) = place {
            target(space.end, &old, start, len)?;
        }
        let more = match keep {
            true => len,
            false => len.saturating_sub(old.len()),
        };
        // The mappings that the target replaces go first.
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
        // The VMA may be cut twice, and its old place be left.
        if !space.vmas.has_room(4) {
            return Err(Errno::ENOMEM);
        }
        if vma.add_to_file(&self.me)? && !large {
            space = self.drop_truncated(space, old.clone(), &mut Pause::Locked);
        }
        let target = match place {
            Move::Never => return Err(Errno::ENOMEM),
            Move::Anywhere => space.find_free(len)?,
            Move::To(start) => {
                // As on Linux what is there goes first, and has gone where the rest fails.
                let (start, taken) = space.place(Place::Fixed(start), len)?;
                if taken {
                    space.unmap(self.context(), start..start + len, gone)?;
                }
                space.vmas.totals().check(kind, more, limits)?;
                start
            }
        };
        let relocation = Relocation {
            held: old.start..old.end.min(old.start + len),
            old,
            new: target..target + len,
            keep,
        };
        if large {
            self.relocate_by_parts(space, &vma, &relocation)?;
        } else {
            space.relocate(self.context(), &vma, &relocation, gone)?;
        }
        Ok((target, vma.flags))
    }

    /// Unmaps what such a call takes away, as Linux does first: large ranges part by part. Waits.
    #[cold]
    fn unmap_before(
        &self,
        old: &Range<usize>,
        len: usize,
        place: Move,
        gone: &mut Removed,
    ) -> Result<()> {
        let allowed = self.with_vma(old.start, |vma| may_move(vma, old));
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

/// Whether the part at `old` of a VMA that begins there or before may change its length or place.
///
/// # Errors
/// EPERM, EFAULT.
fn may_move(vma: &Vma, old: &Range<usize>) -> Result<()> {
    if vma.flags.has(Flags::SEALED) {
        Err(Errno::EPERM)
    } else if old.end > vma.end {
        Err(Errno::EFAULT)
    } else {
        Ok(())
    }
}

/// The range of `len` bytes at `start`, below `end`, where the VMA part at `old` may move.
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

/// A part of a VMA that gets another place.
pub(super) struct Relocation {
    /// Where it is.
    pub old: Range<usize>,
    /// The part of that which is moved.
    pub held: Range<usize>,
    /// Where it will be.
    pub new: Range<usize>,
    /// The old range stays mapped, emptied.
    pub keep: bool,
}

impl Relocation {
    /// The new place of a part of the old range.
    pub fn to(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.new.start + (part.start - self.old.start);
        start..start + part.len()
    }

    /// How far behind the old range, which wraps.
    pub fn distance(&self) -> usize {
        self.new.start.wrapping_sub(self.old.start)
    }

    /// A part of a VMA at its new place.
    pub fn moved(&self, vma: &Vma, part: &Range<usize>) -> Vma {
        let Range { start, end } = self.to(part);
        let part = vma.part(part.clone());
        Vma {
            start,
            end,
            flags: part.flags.set(Flags::GROWS_DOWN.with(Flags::GOES), false),
            ..part
        }
    }

    /// The new VMA, longer or shorter than the old one.
    pub fn whole(&self, vma: &Vma) -> Vma {
        Vma {
            end: self.new.end,
            ..self.moved(vma, &self.held)
        }
    }
}

impl Space {
    /// Moves what is not large; where that fails, all is where it was.
    fn relocate(
        &mut self,
        context: &Context,
        vma: &Vma,
        relocation: &Relocation,
        gone: &mut Removed,
    ) -> Result<()> {
        let Relocation { old, held, new, .. } = relocation;
        self.promise_moved(vma, relocation)?;
        // Cut so that it can be unmapped, which cannot fail then.
        if !relocation.keep {
            self.vmas.cut_out(old, gone)?;
        } else {
            self.unlock_left(vma, old)?;
        }
        self.vmas.insert(relocation.whole(vma))?;
        let made = self.make_tables(context, held.clone(), relocation.distance());
        if made.is_err() {
            self.unmap(context, new.clone(), gone)?;
            return made;
        }
        self.move_entries(context, held.clone(), relocation.distance());
        if !relocation.keep {
            self.unmap(context, old.clone(), gone)?;
        }
        Ok(())
    }

    /// Has promised what the new place needs beyond the old one.
    pub(super) fn promise_moved(&mut self, vma: &Vma, relocation: &Relocation) -> Result<()> {
        if !vma.flags.has(Flags::ACCOUNT) {
            return Ok(());
        }
        let had = match relocation.keep {
            true => 0,
            false => relocation.old.len(),
        };
        self.vmas.commit(relocation.new.len().saturating_sub(had))
    }

    /// What is left behind is locked no more.
    pub(super) fn unlock_left(&mut self, vma: &Vma, old: &Range<usize>) -> Result<()> {
        if !vma.flags.has(Flags::LOCKED) {
            return Ok(());
        }
        self.vmas.change(old.clone(), |vma| {
            vma.flags = vma.flags.set(Flags::UNLOCKED, false);
        })
    }

    /// Makes the tables that what a range holds needs `distance` further on. By tables that are
    /// there, so that what was never touched costs nothing.
    pub(super) fn make_tables(
        &mut self,
        context: &Context,
        range: Range<usize>,
        distance: usize,
    ) -> Result<()> {
        self.finish_pending(context, range.clone());
        let mut at = range.start;
        while let Some((start, _)) = self.table.next_block(at..range.end) {
            let block = start.max(at)..(start + huge_page::SIZE).min(range.end);
            at = block.end;
            let to = start.wrapping_add(distance);
            let mut pay = |owed| context.pay(owed, to..to + PAGE_SIZE);
            if moves_whole(&block, distance) {
                self.table.above_leaf(to, &mut pay)?;
                continue;
            }
            self.split(context, block.clone());
            let (mut made, mut last) = (Ok(()), None);
            self.each_held(&block, |page, _| {
                let page = page.wrapping_add(distance);
                let table = Some(page / huge_page::SIZE);
                if made.is_ok() && last != table {
                    last = table;
                    let mut pay = |owed| context.pay(owed, page..page + PAGE_SIZE);
                    made = self.table.make(page, &mut pay).map(drop);
                }
            });
            made?;
        }
        Ok(())
    }

    /// Moves what a range holds, for which there are tables, to where nothing is.
    pub(super) fn move_entries(&mut self, context: &Context, range: Range<usize>, distance: usize) {
        let mut owed = Debts::<Clear>::new();
        let mut at = range.start;
        while let Some((start, slot)) = self.table.next_block(at..range.end) {
            let block = start.max(at)..(start + huge_page::SIZE).min(range.end);
            at = block.end;
            if moves_whole(&block, distance) && self.move_block(context, slot, &block, distance) {
                continue;
            }
            self.split(context, block.clone());
            self.each_held(&block, |page, source| {
                let target = self.table.find(page.wrapping_add(distance));
                if let Some(target) = target.filter(|target| target.load() == Pte::EMPTY) {
                    let (pte, taken) = source.take();
                    owed.add(page..page + PAGE_SIZE, taken);
                    target.fill::<FillUser>(pte).leave_to_fault();
                }
            });
        }
        if let Some((span, owed)) = owed.take() {
            context.pay(owed, span);
        }
    }

    /// Moves a whole last-level table, or a huge page, in one step; false where another is at its
    /// place. What it owes is paid first, so that no CPU has it at two places.
    fn move_block(
        &self,
        context: &Context,
        slot: &Entry,
        block: &Range<usize>,
        distance: usize,
    ) -> bool {
        let start = block.start.wrapping_add(distance);
        let to = start..start + huge_page::SIZE;
        let mut pay = |owed| context.pay(owed, to.clone());
        let Ok(target) = self.table.above_leaf(start, &mut pay) else {
            return false;
        };
        if target.load() != Pte::EMPTY {
            return false;
        }
        if slot.load().is_table() {
            let (table, owed) = self.table.take_leaf(slot);
            context.pay(owed, block.clone());
            let owed = self.table.link(target, table);
            context.pay(owed, to);
        } else if let Some((_, _, pte, owed)) = self.table.take_huge_page(block.clone()) {
            context.pay(owed, block.clone());
            if let Some(owed) = self.table.try_fill_huge_page(target, pte.revealed()) {
                context.pay(owed, to);
            }
        }
        true
    }

    /// Calls `visit` with the entries in `range` that hold something.
    fn each_held(&self, range: &Range<usize>, mut visit: impl FnMut(usize, &Entry)) {
        self.table.visit(range.clone(), &mut |start, entries| {
            for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
                if entry.load() != Pte::EMPTY {
                    visit(page, entry);
                }
            }
        });
    }
}

/// Whether what a last-level table covers stays together.
fn moves_whole(block: &Range<usize>, distance: usize) -> bool {
    block.len() == huge_page::SIZE && distance.is_multiple_of(huge_page::SIZE)
}
