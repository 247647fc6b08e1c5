//! What is taken out of an address space, and its end.

use core::ops::Range;

use super::asid::Context;
use super::mmu_gather::Gather;
use super::space::{AddressSpace, Space};
use crate::errno::Result;
use translation::Change;

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // No CPU runs the space, or it would hold it; when all have forgotten it, none can reach
        // its tables or frames.
        self.context.pay(Change::UnlinkTable, 0..0);
        // Nor does a guest keep it, whose files may be open after their program has executed
        // another.
        self.context.notifiers.end();
        let space = self.inner.get_mut();
        let mut gather = Gather::dead();
        space.gather_huge_pages(&mut gather, &(0..space.end));
        let mut vmas = space.vmas.iter().peekable();
        while let Some(vma) = vmas.next() {
            space.table.visit(vma.range(), &mut |start, entries| {
                gather.take_all(start, entries)
            });
            // What a later VMA needs goes with the last that does.
            let end = vmas.peek().map_or(usize::MAX, |next| next.start);
            drop(space.table.unlink(vma.range(), 0..end));
        }
    }
}

impl Space {
    /// Empties the entries of a range, and with `tables` takes out the tables that cover nothing
    /// else.
    pub(super) fn empty(&mut self, context: &Context, range: Range<usize>, tables: bool) {
        self.split_ends(context, &range);
        self.release(context, range.clone());
        if tables && let Some(unlinked) = self.table.unlink(range.clone(), range.clone()) {
            context.pay(Change::UnlinkTable, range);
            drop(unlinked);
        }
    }

    pub(super) fn unmap(&mut self, context: &Context, range: Range<usize>) -> Result<()> {
        let room = self.vmas.remove(range.clone())?;
        self.split_ends(context, &range);
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        let unlinked = self.table.unlink(range.clone(), room);
        if !gather.settle(unlinked.is_some()) {
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

    /// Empties the entries of a range.
    pub(super) fn release(&mut self, context: &Context, range: Range<usize>) {
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        if !gather.settle(false) {
            self.taken += gather.taken(None);
            return;
        }
        let mut rest = Gather::dead();
        self.gather(&mut rest, range);
        self.taken += gather.taken(Some(&rest));
    }

    fn gather(&self, gather: &mut Gather, range: Range<usize>) {
        self.gather_huge_pages(gather, &range);
        self.table
            .visit(range, &mut |start, entries| gather.take_all(start, entries));
    }
}
