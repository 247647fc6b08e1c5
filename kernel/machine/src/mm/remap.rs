//! mremap: VMAs that change their length or their place, with what they hold.

use core::ops::Range;

use super::PAGE_SIZE;
use super::asid::Context;
use super::map::Place;
use super::space::{AddressSpace, Space, USER_START};
use super::table::Entry;
use super::vma::{Flags, Vma};
use crate::arch::mmu::Pte;
use crate::errno::{Errno, Result};
use translation::Change;

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

impl AddressSpace {
    /// Gives the VMA part at `old` a length of `len` bytes, both multiples of the page size;
    /// returns where it is then. With `keep`, the old range stays mapped, emptied
    /// (MREMAP_DONTUNMAP).
    ///
    /// # Errors
    /// EFAULT (`old` is not all in one VMA), ENOMEM, EINVAL.
    pub fn remap(
        &self,
        old: Range<usize>,
        len: usize,
        place: Move,
        keep: bool,
        limit: usize,
    ) -> Result<usize> {
        let mut space = self.lock();
        let vma = space.vmas.find(old.start).ok_or(Errno::EFAULT)?.clone();
        if old.end > vma.end {
            return Err(Errno::EFAULT);
        }
        if len > old.len() && space.vmas.bytes() + len - old.len() > limit {
            return Err(Errno::ENOMEM);
        }
        if place == Move::Anywhere && len == old.len() && !keep {
            return Ok(old.start);
        }
        if !matches!(place, Move::To(_)) && !keep {
            if len <= old.len() {
                if len < old.len() {
                    space.unmap(self.context(), old.start + len..old.end)?;
                }
                return Ok(old.start);
            }
            let end = old.start + len;
            if old.end == vma.end && end <= space.end && space.vmas.extend(vma.end, end) {
                return Ok(old.start);
            }
        }
        // The VMA may be cut twice, and its old place be left.
        if !space.vmas.has_room(4) {
            return Err(Errno::ENOMEM);
        }
        let target = match place {
            Move::Never => return Err(Errno::ENOMEM),
            Move::Anywhere => space.find_free(len)?,
            Move::To(start) => space.clear_target(self.context(), &old, start, len)?,
        };
        space.move_vma(self.context(), &vma, old, target..target + len, keep)?;
        Ok(target)
    }
}

impl Space {
    fn clear_target(
        &mut self,
        context: &Context,
        old: &Range<usize>,
        start: usize,
        len: usize,
    ) -> Result<usize> {
        let end = start
            .checked_add(len)
            .filter(|&end| end <= self.end && start >= USER_START);
        let end = end.ok_or(Errno::EINVAL)?;
        if !start.is_multiple_of(PAGE_SIZE) || start < old.end && old.start < end {
            return Err(Errno::EINVAL);
        }
        // As on Linux what is there goes first, and has gone where the rest fails.
        let (start, taken) = self.place(Place::Fixed(start), len)?;
        if taken {
            self.unmap(context, start..end)?;
        }
        Ok(start)
    }

    fn move_vma(
        &mut self,
        context: &Context,
        vma: &Vma,
        old: Range<usize>,
        new: Range<usize>,
        keep: bool,
    ) -> Result<()> {
        let part = vma.part(old.clone());
        if part.flags.has(Flags::ACCOUNT) {
            let had = if keep { 0 } else { old.len() };
            self.vmas.commit(new.len().saturating_sub(had))?;
        }
        let flags = part.flags.set(Flags::GROWS_DOWN, false);
        // What is left behind is unmapped as a whole, which cannot fail.
        if !keep {
            self.vmas.cut(old.start)?;
            self.vmas.cut(old.end)?;
        }
        self.vmas.insert(Vma {
            start: new.start,
            end: new.end,
            flags,
            ..part
        })?;
        let moved = old.start..old.end.min(old.start + new.len());
        self.obey_late(context, moved.clone());
        self.split(context, moved.clone());
        let distance = new.start.wrapping_sub(old.start);
        // By tables, so that what was never touched costs nothing.
        let mut made = Ok(());
        self.each_held(&moved, |page, _| {
            if made.is_ok() {
                made = self.table.make(page.wrapping_add(distance)).map(drop);
            }
        });
        if let Err(error) = made {
            self.unmap(context, new)?;
            return Err(error);
        }
        self.each_held(&moved, |page, source| {
            if let Some(target) = self.table.find(page.wrapping_add(distance)) {
                target.fill(source.take());
            }
        });
        context.pay(Change::Clear, moved);
        if !keep {
            self.unmap(context, old)?;
        }
        Ok(())
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
