//! Unmapping, and the end of an address space.

use core::mem;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use super::asid::Context;
use super::large::PART;
use super::mmu_gather::Gather;
use super::space::{AddressSpace, Space};
use super::vmas::{Removed, Vmas};
use crate::errno::Result;
use crate::upcall::{cond_resched, exit_aio};
use translation::owed::{Owed, UnlinkTable};

impl AddressSpace {
    /// Removes all mappings: no user of the space is left, though others may still inspect it. May
    /// sleep.
    pub(super) fn exit(&self) {
        if self.aio.load(Relaxed) {
            exit_aio(self);
        }
        // A guest's file descriptors may remain open after an exec.
        if self.context.notifiers.any() {
            self.notify_of_end();
            self.context.notifiers.end();
        }
        self.empty_all().end();
    }

    /// Removes the VMAs first, so that no entry is filled any more, and empties all entries.
    /// Returns the VMAs, which are yet to be dropped.
    fn empty_all(&self) -> Vmas {
        let mut gather = Gather::dead();
        let mut space = self.lock();
        let large = space.is_large();
        let vmas = mem::replace(&mut space.vmas, Vmas::new());
        // No CPU runs the space; after this TLB maintenance, none can reach its tables or frames.
        self.context.pay(Owed::<UnlinkTable>::new(), 0..0);
        let mut left = PART;
        let mut rest = vmas.iter().peekable();
        while let Some(vma) = rest.next() {
            // A page table that a later VMA shares is freed with the last VMA that uses it.
            let room = rest.peek().map_or(usize::MAX, |next| next.start);
            let mut at = vma.start;
            while at < vma.end {
                let end = match large {
                    true => space.table.part_end(at..vma.end, &mut left),
                    false => vma.end,
                };
                let room = if end < vma.end { end } else { room };
                space.empty_dead(&mut gather, at..end, room);
                at = end;
                if large && left == 0 {
                    drop(space);
                    _ = gather.flush(None);
                    cond_resched();
                    (space, left) = (self.lock(), PART);
                }
            }
            left = left.saturating_sub(1);
        }
        drop(rest);
        drop(space);
        vmas
    }
}

impl Space {
    /// Empties the PTEs of a range; with `tables`, also unlinks the tables that cover nothing else.
    pub(super) fn empty(&mut self, context: &Context, range: Range<usize>, tables: bool) {
        self.split_ends(context, &range);
        self.release(context, range.clone());
        if tables && let Some((unlinked, owed)) = self.table.unlink(range.clone(), range.clone()) {
            context.pay(owed, range);
            drop(unlinked);
        }
    }

    /// Empties the PTEs of a range of a dead space, and unlinks the tables that cover nothing from
    /// `room` on.
    fn empty_dead(&mut self, gather: &mut Gather, range: Range<usize>, room: usize) {
        self.gather(gather, range.clone());
        if let Some((unlinked, owed)) = self.table.unlink(range, 0..room) {
            owed.held_by_nobody();
            drop(unlinked);
        }
    }

    pub(super) fn unmap(
        &mut self,
        context: &Context,
        range: Range<usize>,
        gone: &mut Removed,
    ) -> Result<()> {
        let room = self.vmas.remove(range.clone(), gone)?;
        self.split_ends(context, &range);
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        let (unlinked, owed) = self.table.unlink(range.clone(), room).unzip();
        if !gather.flush(owed) {
            self.taken += gather.taken(None);
            return Ok(());
        }
        let mut rest = Gather::dead();
        self.gather(&mut rest, range);
        if let Some(unlinked) = &unlinked {
            unlinked.each(|entries| rest.take_all(0, entries));
        }
        self.taken += gather.taken(Some(&rest));
        Ok(())
    }

    /// Empties the PTEs of a range.
    pub(super) fn release(&mut self, context: &Context, range: Range<usize>) {
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        if !gather.flush(None) {
            self.taken += gather.taken(None);
            return;
        }
        let mut rest = Gather::dead();
        self.gather(&mut rest, range);
        self.taken += gather.taken(Some(&rest));
    }

    fn gather(&self, gather: &mut Gather, range: Range<usize>) {
        self.gather_larger(gather, &range);
        self.table
            .visit(range, &mut |start, entries| gather.take_all(start, entries));
    }
}
