//! Reverse mapping: from a file's pages to the address spaces that map them, for truncation.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;

use super::asid::Context;
use super::large::{PART, Parts, VMAS};
use super::mmu_gather::Gather;
use super::space::{AddressSpace, Space};
use super::space_lock::WriteGuard;
use super::vma::{Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::upcall::cond_resched;

/// The address spaces that map a file, including dead ones and ones that no longer map it. A field
/// of the file.
pub struct ReverseMap(Mutex<List>);

struct List {
    /// Sorted by number.
    spaces: Vec<Mapper>,
    /// The next number.
    next: u64,
    /// The length at which dead entries are swept.
    sweep: usize,
    /// The pages that are being unmapped everywhere.
    losing: Option<Truncated>,
}

/// An address space that may map the file.
struct Mapper {
    space: Weak<AddressSpace>,
    /// Smaller than that of a child that inherits its mapping.
    number: u64,
}

/// Pages that the file no longer has.
#[derive(Clone)]
struct Truncated {
    pages: Range<usize>,
    /// Whether private copies made by copy on write are lost, too.
    copies: bool,
}

/// The minimum number of entries for a sweep.
const SWEEP: usize = 16;

impl List {
    /// Removes dead spaces, and later entries of a space that is listed twice, as happens when two
    /// processes map the file in turn.
    fn sweep(&mut self) {
        self.spaces
            .retain(|mapper| mapper.space.strong_count() != 0);
        let key = |mapper: &Mapper| (mapper.space.as_ptr(), mapper.number);
        heapsort::sort_by_key(&mut self.spaces, key);
        self.spaces.dedup_by(|a, b| a.space.ptr_eq(&b.space));
        heapsort::sort_by_key(&mut self.spaces, |mapper| mapper.number);
        self.sweep = (2 * self.spaces.len()).max(SWEEP);
    }
}

impl ReverseMap {
    /// No spaces.
    pub const fn new() -> Self {
        ReverseMap(Mutex::new(List {
            spaces: Vec::new(),
            next: 0,
            sweep: SWEEP,
            losing: None,
        }))
    }

    /// Adds a space. Returns whether pages of the file are being unmapped: then a space that
    /// inherits PTEs must drop them first ([`AddressSpace::drop_truncated`]).
    pub(super) fn add(&self, space: &Weak<AddressSpace>) -> Result<bool> {
        let mut list = self.0.lock();
        let losing = list.losing.is_some();
        let last = list.spaces.last();
        if last.is_some_and(|last| last.space.ptr_eq(space)) {
            return Ok(losing);
        }
        if list.spaces.len() >= list.sweep {
            list.sweep();
        }
        list.spaces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let number = list.next;
        list.next += 1;
        list.spaces.push(Mapper {
            space: space.clone(),
            number,
        });
        Ok(losing)
    }

    /// Unmaps the pages `lost` of the file wherever they are mapped; with `copies`, private copies
    /// of them, too. The file no longer has them, and loses no others until this returns.
    /// Reschedules.
    pub fn unmap(&self, lost: Range<usize>, copies: bool) {
        let lost = Truncated {
            pages: lost,
            copies,
        };
        self.0.lock().losing = Some(lost.clone());
        self.any(|space| {
            let mut next = Some(0);
            while let Some(from) = next {
                let mut locked = space.lock();
                let (rest, taken) = self.unmap_part(&locked, space.context(), from, &lost);
                locked.taken += taken;
                next = rest;
                drop(locked);
                cond_resched();
            }
            false
        });
        self.0.lock().losing = None;
    }

    /// Whether any mapping may write the file, now or after mprotect.
    pub fn may_write(&self) -> bool {
        let writes = |vma: &Vma| vma.is_shared() && !vma.never_writes() && self.is_mapped_by(vma);
        self.any(|space| space.lock().vmas.iter().any(writes))
    }

    /// Whether `f` holds for any of the spaces that were listed when this began. Spaces added later
    /// have only pages that one of these had, and see the seals.
    fn any(&self, f: impl Fn(&Arc<AddressSpace>) -> bool) -> bool {
        let (mut next, end) = (0, self.0.lock().next);
        loop {
            // Lock order: the address spaces' locks come first, so this one is released in between.
            let space = {
                let list = self.0.lock();
                let index = list.spaces.partition_point(|mapper| mapper.number < next);
                match list.spaces.get(index) {
                    Some(mapper) if mapper.number < end => {
                        next = mapper.number + 1;
                        mapper.space.upgrade()
                    }
                    _ => return false,
                }
            };
            if space.is_some_and(|space| f(&space)) {
                return true;
            }
            cond_resched();
        }
    }

    /// Unmaps lost pages from a part, which begins at `from`, of a locked space. Returns the start
    /// of the next part, if there is one, and the number of pages that the space has lost.
    fn unmap_part(
        &self,
        space: &Space,
        context: &Context,
        from: usize,
        lost: &Truncated,
    ) -> (Option<usize>, usize) {
        let next = self.part_end(space, from, lost);
        let end = next.unwrap_or(usize::MAX);
        let walk = |gather: &mut Gather| {
            for vma in space.vmas.touching(from..end) {
                if let Some(range) = self.truncated_part(vma, lost, from..end) {
                    space.unfold_ends(context, &range);
                    space.gather_runs(gather, &range);
                    space
                        .table
                        .visit(range, &mut |start, entries| match lost.copies {
                            true => gather.take_all(start, entries),
                            false => gather.take_shared(start, entries),
                        });
                }
            }
        };
        let mut gather = Gather::new(context);
        walk(&mut gather);
        let mut rest = Gather::dead();
        let second = gather.flush(None);
        if second {
            walk(&mut rest);
        }
        (next, gather.taken(second.then_some(&rest)))
    }

    /// The end of a part that contains as many VMAs, or tables with lost pages, as are changed at
    /// once; none if the rest is smaller.
    fn part_end(&self, space: &Space, from: usize, lost: &Truncated) -> Option<usize> {
        let mut tables = PART;
        for (count, vma) in space.vmas.touching(from..usize::MAX).enumerate() {
            if count == VMAS || tables == 0 {
                return Some(vma.start);
            }
            if let Some(range) = self.truncated_part(vma, lost, from..usize::MAX) {
                let end = space.table.part_end(range.clone(), &mut tables);
                if end < range.end {
                    return Some(end);
                }
            }
        }
        None
    }

    /// The addresses within `limits` at which a VMA maps lost pages of this file.
    fn truncated_part(
        &self,
        vma: &Vma,
        lost: &Truncated,
        limits: Range<usize>,
    ) -> Option<Range<usize>> {
        let range = self.part(vma, &lost.pages)?;
        let range = range.start.max(limits.start)..range.end.min(limits.end);
        (range.start < range.end).then_some(range)
    }

    fn is_mapped_by(&self, vma: &Vma) -> bool {
        vma.reverse_map()
            .is_some_and(|reverse_map| core::ptr::eq(reverse_map, self))
    }

    /// The addresses at which a VMA maps the lost pages of this file.
    fn part(&self, vma: &Vma, lost: &Range<usize>) -> Option<Range<usize>> {
        let Source::File { offset, .. } = &vma.source else {
            return None;
        };
        if !self.is_mapped_by(vma) {
            return None;
        }
        let first = offset >> PAGE_SHIFT;
        let end = first + (vma.end - vma.start) / PAGE_SIZE;
        let lost = lost.start.max(first)..lost.end.min(end);
        let address = |page: usize| vma.start + (page - first) * PAGE_SIZE;
        (lost.start < lost.end).then(|| address(lost.start)..address(lost.end))
    }
}

impl Space {
    /// Drops pages that files are just losing from a part of a range; returns the start of the next
    /// part, if there is one.
    #[cold]
    pub(super) fn drop_truncated_part(
        &mut self,
        context: &Context,
        range: Range<usize>,
    ) -> Option<usize> {
        let vma = self.vmas.touching(range.clone()).next()?;
        let lost = vma
            .reverse_map()
            .and_then(|file| Some((file, file.0.lock().losing.clone()?)));
        let (next, taken) = lost.map_or((None, 0), |(file, lost)| {
            file.unmap_part(self, context, range.start, &lost)
        });
        let next = next.map_or(vma.end, |next| next.min(vma.end));
        self.taken += taken;
        Some(next)
    }

    /// As [`Space::drop_truncated_part`], for a whole range at once.
    #[cold]
    pub(super) fn drop_truncated(&mut self, context: &Context, mut range: Range<usize>) {
        while !range.is_empty()
            && let Some(next) = self.drop_truncated_part(context, range.clone())
        {
            range.start = next;
        }
    }
}

impl AddressSpace {
    /// Drops pages that files are just losing from a range of this space before it is moved, or
    /// copied for a child: the truncating thread may already have passed the destination. Proceeds
    /// in parts.
    #[cold]
    pub(super) fn drop_truncated<'a>(
        &'a self,
        mut space: WriteGuard<'a, Space>,
        range: Range<usize>,
        parts: &mut Parts<'a>,
    ) -> WriteGuard<'a, Space> {
        let mut from = range.start;
        while from < range.end
            && let Some(next) = space.drop_truncated_part(self.context(), from..range.end)
        {
            from = next;
            space = parts.pause(space);
        }
        space
    }
}
