//! Growing VMAs: heaps, mappings, stacks.

use super::{STACK_GAP, Vmas};
use crate::mm::map::bottom;
use crate::mm::page_down;
use crate::mm::totals::Limits;
use crate::mm::vma::{Flags, Vma};

impl Vmas {
    /// Moves the end of the VMA that ends at `end` up to `new_end`, if the range is free.
    pub fn extend(&mut self, end: usize, new_end: usize) -> bool {
        let (vma, next) = self.tree.around(end);
        let room = next.map_or(usize::MAX, |next| next.start);
        let vma = vma.filter(|vma| vma.end == end && end < new_end && new_end <= room);
        let Some(grows) = vma.map(|vma| vma.flags.contains(Flags::ACCOUNT)) else {
            return false;
        };
        self.grow(end - 1, new_end - end, grows, |vma| vma.end = new_end)
    }

    /// Extends the stack above `address` down to it, if there is one, it is then at most `limit`
    /// bytes long, all VMAs together are within `limits`, and enough room remains below it.
    pub fn grow_down(&mut self, address: usize, limit: usize, limits: &Limits) -> bool {
        let (below, vma) = self.tree.around(address);
        // A growing stack cannot overwrite a stack or an inaccessible mapping, so neither needs a
        // guard gap.
        let gapless = |vma: &Vma| vma.flags.contains(Flags::GROWS_DOWN) || vma.rights.is_none();
        let floor = below.map_or(0, |vma| match gapless(vma) {
            true => vma.end,
            false => vma.end + STACK_GAP,
        });
        let floor = floor.max(bottom());
        let start = page_down(address);
        let Some(vma) = vma else {
            return false;
        };
        let grown = vma.start.saturating_sub(start);
        let fits = vma.flags.contains(Flags::GROWS_DOWN)
            && vma.end - start <= limit
            && start >= floor
            && (self.totals.check((vma.flags, vma.rights), grown, limits)).is_ok();
        let Some(source) = vma.source.receded(grown).filter(|_| fits) else {
            return false;
        };
        let grows = vma.flags.contains(Flags::ACCOUNT);
        self.grow(address, grown, grows, |vma| {
            (vma.start, vma.source) = (start, source);
        })
    }

    /// Calls `change` to extend the first VMA that ends above `address` by `bytes`, which are
    /// committed if `promised`; false if they cannot be committed.
    fn grow(
        &mut self,
        address: usize,
        bytes: usize,
        promised: bool,
        change: impl FnOnce(&mut Vma),
    ) -> bool {
        let accounted = if promised { bytes } else { 0 };
        if self.commit(accounted).is_err() {
            return false;
        }
        let (list, count) = self.tree.edit(address);
        change(&mut list[count - 1]);
        self.totals.add(&list[count - 1], bytes);
        self.tree.rebalance(address);
        true
    }
}
