//! Large mappings that move: part by part, and others run in between. What has not moved yet is
//! where it was, what has moved is at its new place, and each of both is a VMA like any other.

use core::ops::Range;

use super::remap::Relocation;
use super::space::{AddressSpace, Space};
use super::space_lock::WriteGuard;
use super::vma::{Flags, Label, Rights, Source, Vma};
use super::vmas::Removed;
use crate::errno::{Errno, Result};
use crate::upcall::cond_resched_killable;

/// Has the VMA that keeps the place of what is still to come: nobody puts anything there, not even
/// a debugger, and it joins no other.
const KEEPS_PLACE: Flags = Flags::SHARED
    .with(Flags::NEVER_WRITE)
    .with(Flags::NEVER_EXECUTE)
    .with(Flags::GOES);

impl AddressSpace {
    /// Moves a large range of a locked space. Until the first part has moved, all is where it was
    /// if this fails.
    ///
    /// # Errors
    /// ENOMEM; EINTR (the thread must die) and EFAULT (another has taken the memory away), which
    /// may come when some of it has moved.
    #[cold]
    #[inline(never)]
    pub(super) fn relocate_by_parts<'a>(
        &'a self,
        mut space: WriteGuard<'a, Space>,
        vma: &Vma,
        relocation: &Relocation,
    ) -> Result<()> {
        let Relocation { old, new, keep, .. } = relocation;
        let _leaving = self.leaving(&mut space, [old.clone(), new.clone()])?;
        // Dropped when the lock is free.
        let mut gone = Removed::new();
        let placed = space.keep_place(vma, relocation, &mut gone);
        drop(space);
        // So that it fails while nothing has moved.
        let made = placed.and_then(|()| {
            let make = |space: &mut Space, part| {
                space.make_tables(self.context(), part, relocation.distance())
            };
            self.each_part(old.clone(), make, cond_resched_killable)
        });
        let mut moved = old.start;
        let done = made.and_then(|()| {
            let relocate = |space: &mut Space, part: Range<usize>| {
                self.relocate_part(space, &part, relocation)?;
                moved = part.end;
                match keep {
                    true => Ok(()),
                    false => space.unmap(self.context(), part, &mut gone),
                }
            };
            self.each_part(old.clone(), relocate, cond_resched_killable)
        });
        let mut space = self.lock();
        if done.is_err() {
            let rest = relocation.to(&(moved..old.end)).start..new.end;
            _ = space.unmap(self.context(), rest, &mut gone);
            return done;
        }
        if *keep {
            space.unlock_left(vma, old)?;
        }
        // The last part joins what is behind it, where there is memory for that.
        _ = space.vmas.change(new.clone(), |_| ());
        Ok(())
    }

    /// Moves what is in a part.
    fn relocate_part(
        &self,
        space: &mut Space,
        part: &Range<usize>,
        relocation: &Relocation,
    ) -> Result<()> {
        if !relocation.keep {
            // Where another has joined it with what is below.
            space.vmas.cut(part.start)?;
        }
        let vma = space.vmas.find(part.start).ok_or(Errno::EFAULT)?;
        if vma.add_to_file(&self.me)? {
            let mut lost = part.clone();
            while let Some(next) = self.drop_truncated_part(space, lost.clone())
                && next < part.end
            {
                lost.start = next;
            }
        }
        space.make_tables(self.context(), part.clone(), relocation.distance())?;
        space.place_part(part, relocation)?;
        space.move_entries(self.context(), part.clone(), relocation.distance());
        Ok(())
    }
}

impl Space {
    /// Maps what is new at the new place, and has another VMA keep the rest of it.
    fn keep_place(&mut self, vma: &Vma, relocation: &Relocation, gone: &mut Removed) -> Result<()> {
        let Relocation { old, new, keep, .. } = relocation;
        self.promise_moved(vma, relocation)?;
        if !keep {
            self.vmas.cut_out(old, gone)?;
        }
        let place = relocation.to(old);
        // What is moved takes its promise along, and what is copied is promised once more.
        let promised = *keep && vma.flags.has(Flags::ACCOUNT);
        self.vmas.insert(Vma {
            start: place.start,
            end: place.end,
            rights: Rights::NONE,
            label: Label::None,
            flags: KEEPS_PLACE.set(Flags::ACCOUNT, promised),
            source: Source::Anonymous,
        })?;
        if place.end < new.end {
            let more = relocation.whole(vma).part(place.end..new.end);
            self.vmas.insert(more)?;
        }
        Ok(())
    }

    /// Maps a part at its new place.
    fn place_part(&mut self, part: &Range<usize>, relocation: &Relocation) -> Result<()> {
        let to = relocation.to(part);
        let vma = self.vmas.find(part.start);
        let vma = vma.filter(|vma| part.end <= vma.end);
        let place = self.vmas.find(to.start);
        let kept = place.filter(|place| to.end <= place.end && place.flags.has(KEEPS_PLACE));
        let (Some(vma), Some(_)) = (vma, kept) else {
            return Err(Errno::EFAULT);
        };
        let moved = relocation.moved(vma, part);
        let lower = self.vmas.find(to.start.wrapping_sub(1));
        let joins = lower.is_some_and(|lower| lower.joins(&moved));
        self.vmas.remove(to.clone(), &mut Removed::new())?;
        if joins {
            // Which needs no memory.
            self.vmas.lengthen(to);
            return Ok(());
        }
        self.vmas.insert(moved)
    }
}
