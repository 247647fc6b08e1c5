//! The VMAs that a child inherits on fork.

use super::{Vmas, no_memory};
use crate::errno::Result;
use crate::mm::vma::Vma;
use crate::mm::{PAGE_SIZE, heap};

impl Vmas {
    /// Copies the VMAs that a child inherits.
    pub fn for_child(&self) -> Result<Vmas> {
        heap::check_room_for(self.tree.len() * size_of::<Vma>())?;
        let mut child = Vmas::new();
        let mut largest = 0;
        let tree = self.tree.try_copy(Vma::is_inherited, |vma| {
            let vma = vma.inherited();
            child.totals.add(&vma, vma.end - vma.start);
            largest = largest.max(vma.accounted(&vma.range()));
            vma
        });
        child.tree = tree.map_err(no_memory)?;
        let (pages, mapped) = (
            child.totals.accounted / PAGE_SIZE,
            self.totals.all / PAGE_SIZE,
        );
        child.commitment.raise(pages, largest / PAGE_SIZE, mapped)?;
        Ok(child)
    }

    /// Commits the memory of a child that inherits these VMAs by [`Vmas::inherit`].
    ///
    /// # Errors
    /// ENOMEM.
    #[cold]
    pub fn promise_child(&self, child: &mut Vmas) -> Result<()> {
        heap::check_room_for(self.tree.len() * size_of::<Vma>())?;
        let (mut all, mut largest) = (0, 0);
        for vma in self.iter().filter(|vma| vma.is_inherited()) {
            let bytes = vma.accounted(&vma.range());
            (all, largest) = (all + bytes, largest.max(bytes));
        }
        let [all, largest, mapped] = [all, largest, self.totals.all].map(|bytes| bytes / PAGE_SIZE);
        child.commitment.raise(all, largest, mapped)
    }

    /// Copies the next VMAs that a child inherits, some of those that end above `address`, the end
    /// of the last one that `child` has so far; calls `see` with each. Returns the end of the last
    /// one copied; none after the very last.
    ///
    /// # Errors
    /// ENOMEM, and those of `see`.
    #[cold]
    pub fn inherit(
        &self,
        child: &mut Vmas,
        address: usize,
        see: impl Fn(&Vma) -> Result<()>,
    ) -> Result<Option<usize>> {
        /// Number of lists of the tree that are copied while the space is locked.
        const AT_ONCE: usize = 8;
        let (mut end, mut seen) = (Some(address), Ok(()));
        for _ in 0..AT_ONCE {
            let Some(address) = end else { break };
            let copy = |vma: &Vma| {
                let vma = vma.inherited();
                child.totals.add(&vma, vma.end - vma.start);
                seen = seen.and_then(|()| see(&vma));
                vma
            };
            let copied =
                (self.tree).try_copy_list(address, &mut child.tree, Vma::is_inherited, copy);
            end = copied.map_err(no_memory)?;
            seen?;
        }
        Ok(end)
    }
}
