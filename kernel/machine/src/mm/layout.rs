//! The layout of a program's stack and heap, and how they grow.

use core::ops::Range;

use super::asid::Context;
use super::large::is_large;
use super::map::{MapRequest, Place};
use super::space::{AddressSpace, Space};
use super::totals::Limits;
use super::vma::{Flags, Label, Rights, Source, Vma};
use super::vmas::Removed;
use super::{PAGE_SIZE, aslr, page_up};
use crate::arch::MAP_WINDOW;
use crate::errno::Result;

/// The initial size of the stack's VMA, in bytes.
const STACK_START: usize = 132 << 10;

impl AddressSpace {
    /// Sets the maximum size of the stack, in bytes.
    pub fn set_stack_limit(&self, limit: usize) {
        self.lock().stack_limit = limit;
    }

    /// The end of the program's addresses, and whether its parts begin at random.
    fn bounds(&self) -> (usize, bool) {
        let space = self.read_lock();
        (space.end, space.random)
    }

    /// Maps the main stack, which grows down from a top that is random unless `norandmaps` is set;
    /// returns the top. `limit` is its maximum size, in bytes.
    pub fn map_stack(&self, limit: usize, executable: bool) -> Result<usize> {
        let (end, random) = self.bounds();
        let whole = end.min(MAP_WINDOW);
        let top = aslr::stack_top(whole, random);
        let rights = Rights::READ.union(Rights::WRITE);
        self.map(
            MapRequest {
                rights: if executable {
                    rights.union(Rights::EXECUTE)
                } else {
                    rights
                },
                flags: Flags::GROWS_DOWN,
                label: Label::Stack,
                ..MapRequest::anonymous(Place::Fixed(top - STACK_START), STACK_START)
            },
            &mut Removed::new(),
        )?;
        let mut space = self.lock();
        space.stack_limit = limit;
        space.mmap_top = top - limit.clamp(128 << 20, whole / 6 * 5) - aslr::MMAP_GAP;
        space.mmap_top -= aslr::mmap_offset(whole, random);
        Ok(top)
    }

    /// Selects bottom-up mappings, Linux's legacy layout.
    pub fn map_upwards(&self) {
        let mut space = self.lock();
        space.mmap_bottom = Some(aslr::mmap_bottom(space.end, space.random));
    }

    /// Disables randomization for this space.
    pub fn fix_places(&self) {
        self.lock().random = false;
    }

    /// Sets the start of the heap of `brk`: at or above `end`, the end of the program's data.
    pub fn set_heap_start(&self, end: usize) {
        let mut space = self.lock();
        let start = page_up(end) + aslr::heap_offset(space.end, space.random);
        space.heap = start..start;
    }

    /// The start of the heap.
    pub fn heap_start(&self) -> usize {
        self.read_lock().heap.start
    }

    /// The end of the heap.
    pub fn heap_end(&self) -> usize {
        self.read_lock().heap.end
    }

    /// Moves the end of the heap, whose new parts get `rights`; returns the resulting end. Files
    /// that were mapped there go to `gone`.
    ///
    /// # Errors
    /// A large range that must be unmapped first, which may sleep.
    pub fn set_heap_end(
        &self,
        end: usize,
        rights: Rights,
        limits: &Limits,
        gone: &mut Removed,
    ) -> core::result::Result<usize, Range<usize>> {
        let Ok(mut space) = self.lock_to_change() else {
            return Ok(self.heap_end());
        };
        let cut = page_up(end.clamp(space.heap.start, space.heap.end))..page_up(space.heap.end);
        if is_large(&cut) && space.vmas.touching(cut.clone()).next().is_some() {
            return Err(cut);
        }
        let locked = self.locks_new();
        Ok(space.set_heap_end(&self.context, end, (rights, locked), limits, gone))
    }
}

impl Space {
    fn set_heap_end(
        &mut self,
        context: &Context,
        end: usize,
        kind: (Rights, Flags),
        limits: &Limits,
        gone: &mut Removed,
    ) -> usize {
        let Range { start, end: old } = self.heap.clone();
        let (old_top, top) = (page_up(old), page_up(end.min(self.end)));
        if end < start || end - start > limits.data || end > self.end {
            return old;
        }
        let moved = if top < old_top {
            self.unmap(context, top..old_top, gone).is_ok()
        } else if top > old_top {
            self.grow_heap(old_top, top, kind, limits)
        } else {
            true
        };
        if moved {
            self.heap.end = end;
        }
        self.heap.end
    }

    fn grow_heap(
        &mut self,
        from: usize,
        to: usize,
        (rights, locked): (Rights, Flags),
        limits: &Limits,
    ) -> bool {
        // As on Linux, leave a page free before the next mapping.
        let free = self.vmas.is_room(from..to + PAGE_SIZE);
        let flags = Flags::ACCOUNT.union(locked);
        let check = || self.vmas.totals().check((flags, rights), to - from, limits);
        let allowed = !self.vmas.is_full() && check().is_ok();
        if !free || !allowed || self.vmas.commit(to - from).is_err() {
            return false;
        }
        let heap = Vma {
            start: from,
            end: to,
            rights,
            label: Label::Heap,
            flags,
            source: Source::Anonymous,
        };
        self.vmas.insert(heap).is_ok()
    }
}
