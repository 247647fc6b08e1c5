//! From a file's pages to the address spaces that map them: for pages that the file loses.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;

use super::mmu_gather::Gather;
use super::space::{AddressSpace, Space};
use super::vma::{Flags, Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;

/// The address spaces that map a file, some of them dead or no longer doing so. A field of the
/// file.
pub struct ReverseMap(Mutex<List>);

struct List {
    spaces: Vec<Weak<AddressSpace>>,
    /// Length at which the dead are looked for.
    sweep: usize,
    /// How often they were, which moves the others.
    sweeps: usize,
}

/// The fewest entries that are swept.
const SWEEP: usize = 16;

impl List {
    /// Forgets the dead, and who is there twice: two processes that map the file in turn.
    fn sweep(&mut self) {
        self.spaces.retain(|space| space.strong_count() != 0);
        self.spaces.sort_unstable_by_key(Weak::as_ptr);
        self.spaces.dedup_by(|a, b| a.ptr_eq(b));
        self.sweep = (2 * self.spaces.len()).max(SWEEP);
        self.sweeps += 1;
    }
}

impl ReverseMap {
    /// None.
    pub const fn new() -> Self {
        ReverseMap(Mutex::new(List {
            spaces: Vec::new(),
            sweep: SWEEP,
            sweeps: 0,
        }))
    }

    /// Adds a space.
    pub(super) fn add(&self, space: &Weak<AddressSpace>) -> Result<()> {
        let mut list = self.0.lock();
        if list.spaces.last().is_some_and(|last| last.ptr_eq(space)) {
            return Ok(());
        }
        if list.spaces.len() >= list.sweep {
            list.sweep();
        }
        list.spaces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.spaces.push(space.clone());
        Ok(())
    }

    /// Unmaps the pages `lost` of the file wherever they are mapped; with `copies`, what was copied
    /// from them on write too. The file no longer has them.
    pub fn unmap(&self, lost: Range<usize>, copies: bool) {
        self.any(|space| {
            self.unmap_from(space, &lost, copies);
            false
        });
    }

    /// Whether a mapping somewhere may write the file, now or after mprotect.
    pub fn may_write(&self) -> bool {
        let everywhere = 0..usize::MAX;
        let writes = |vma: &Vma| {
            vma.is_shared()
                && !vma.flags.has(Flags::NEVER_WRITE)
                && self.part(vma, &everywhere).is_some()
        };
        self.any(|space| space.lock().vmas.iter().any(writes))
    }

    /// Whether `f` says so of any of the spaces; some are asked twice.
    fn any(&self, f: impl Fn(&Arc<AddressSpace>) -> bool) -> bool {
        let (mut done, mut sweeps) = (0, self.0.lock().sweeps);
        loop {
            // The address spaces' locks come before this one, so it is let go of in between.
            let next = {
                let list = self.0.lock();
                if list.sweeps != sweeps {
                    (done, sweeps) = (0, list.sweeps);
                }
                list.spaces.get(done).map(Weak::upgrade)
            };
            match next {
                None => return false,
                Some(Some(space)) if f(&space) => return true,
                Some(_) => done += 1,
            }
        }
    }

    fn unmap_from(&self, space: &Arc<AddressSpace>, lost: &Range<usize>, copies: bool) {
        let mut locked = space.lock();
        let walk = |locked: &Space, gather: &mut Gather| {
            for vma in locked.vmas.iter() {
                if let Some(range) = self.part(vma, lost) {
                    locked
                        .table
                        .visit(range, &mut |start, entries| match copies {
                            true => gather.take_all(start, entries),
                            false => gather.take_shared(start, entries),
                        });
                }
            }
        };
        let mut gather = Gather::new(space.context());
        walk(&locked, &mut gather);
        let mut rest = Gather::dead();
        let second = gather.settle(None);
        if second {
            walk(&locked, &mut rest);
        }
        locked.taken += gather.taken(second.then_some(&rest));
    }

    /// The addresses of a VMA that show the lost pages of this file.
    fn part(&self, vma: &Vma, lost: &Range<usize>) -> Option<Range<usize>> {
        let Source::File { mapping, offset } = &vma.source else {
            return None;
        };
        if !mapping
            .reverse_map()
            .is_some_and(|reverse_map| core::ptr::eq(reverse_map, self))
        {
            return None;
        }
        let first = offset >> PAGE_SHIFT;
        let end = first + (vma.end - vma.start) / PAGE_SIZE;
        let lost = lost.start.max(first)..lost.end.min(end);
        let address = |page: usize| vma.start + (page - first) * PAGE_SIZE;
        (lost.start < lost.end).then(|| address(lost.start)..address(lost.end))
    }
}
