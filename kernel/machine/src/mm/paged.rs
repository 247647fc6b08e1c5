//! Files whose pages may not be in memory yet, and which must be notified before each page is first
//! written, since they write it back to a device. The usual fault path does not handle them: it
//! fails, and the fault is resolved here.

extern crate alloc;

use alloc::sync::Arc;

use translation::owed::{Owed, Widen};

use super::asid::Context;
use super::fault::{Access, Failure};
use super::space::{AddressSpace, Space};
use super::vma::{PageSource, Rights, Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, page_down};
use crate::arch::mmu::Pte;
use crate::errno::{Errno, Result};

/// A page of a file.
pub struct FilePage {
    mapping: Arc<dyn PageSource>,
    index: usize,
    /// The page is to be written through a mapping that notifies the file.
    write: bool,
}

impl FilePage {
    /// Waits until the file has the page in memory, and has prepared for a write if that is needed.
    ///
    /// # Errors
    /// Those of [`PageSource::load`].
    pub fn load(&self) -> Result<()> {
        self.mapping.load(self.index, self.write)
    }
}

impl AddressSpace {
    /// Resolves a fault that [`AddressSpace::fault`] could not, because the page is absent or a
    /// write must be notified ([`Failure::Absent`], [`Failure::Denied`]). May sleep.
    pub fn fault_paged(&self, address: usize, access: Access) -> core::result::Result<(), Failure> {
        loop {
            let page = {
                let mut space = self.lock();
                if space.must_wait(&(address..address + 1), access) {
                    return Err(Failure::Paused);
                }
                match space.resolve_paged(self.context(), address, access) {
                    Err(Failure::Absent) => space.file_page(address, access),
                    done => return done,
                }
            };
            page.ok_or(Failure::Unmapped)?.load().map_err(Failure::of)?;
        }
    }
}

impl Space {
    /// The file's page that is mapped at an address, for an access to it.
    pub(super) fn file_page(&self, address: usize, access: Access) -> Option<FilePage> {
        let vma = self.vmas.find(page_down(address))?;
        let Source::File { mapping, .. } = &vma.source else {
            return None;
        };
        Some(FilePage {
            index: index(vma, address),
            mapping: mapping.clone(),
            write: access == Access::Write && vma.rights.contains(Rights::NOTIFY),
        })
    }

    /// As [`Space::resolve_alone`], also if the file must be notified of the write.
    pub(super) fn resolve_paged(
        &mut self,
        context: &Context,
        address: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let page = page_down(address);
        let notified = |vma: &Vma| vma.rights.contains(Rights::NOTIFY);
        if access != Access::Write || !self.vmas.find(page).is_some_and(notified) {
            return self.resolve_alone(context, address, access);
        }
        self.resolve_alone(context, address, Access::Read)?;
        self.notify_write(context, page).map_err(Failure::of)
    }

    /// Allows writes to a page that is mapped, after the file was notified.
    fn notify_write(&self, context: &Context, page: usize) -> Result<()> {
        let vma = self.vmas.find(page).ok_or(Errno::EFAULT)?;
        let Source::File { mapping, .. } = &vma.source else {
            return Ok(());
        };
        self.unfold(context, page..page + PAGE_SIZE);
        let Some(leaf) = self.table.leaf(page) else {
            return Ok(());
        };
        let (entry, mut owed) = (leaf.entry(page), None);
        mapping.write_mapped(index(vma, page), &mut |frame| {
            let old = entry.load();
            // Only if this is still the file's page; the entry of another one is removed.
            if old != Pte::EMPTY && PhysAddr(old.phys()) == frame.phys() {
                let new = old.with_writable(true).with_young(true);
                owed = entry.replace::<Widen>(old, new).ok();
            }
        })?;
        let range = page..page + PAGE_SIZE;
        context.pay(owed.unwrap_or_else(Owed::<Widen>::new), range);
        context.recover(page);
        Ok(())
    }
}

/// The index of the page that `vma` maps at an address.
fn index(vma: &Vma, address: usize) -> usize {
    let offset = match &vma.source {
        Source::File { offset, .. } => *offset,
        Source::Anonymous => 0,
    };
    (offset + page_down(address) - vma.start) >> PAGE_SHIFT
}
