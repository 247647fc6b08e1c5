//! Large blocks of the heap for which there are not enough adjacent frames: single frames, mapped
//! contiguously.

extern crate alloc;

use super::{Area, OTHERS, UNMAPPED_STACKS, with};
use crate::arch::KERNEL_STACK_SIZE;
use crate::arch::mmu::{self, Memory, Prot, Pte};
use crate::errno::Result;
use crate::mm::frame::{self, FrameRef, Owner};
use crate::mm::table::{Entry, HUGE_PAGE_SIZE};
use crate::mm::{PAGE_SIZE, PhysAddr, page_up};
use alloc::vec::Vec;
use core::ops::Range;
use translation::owed::{Clear, FillKernel, Owed};

/// The largest block, in bytes.
pub(in crate::mm) const LARGEST: usize = 64 << 20;

/// The number of bytes mapped or unmapped before others may lock the area. Interrupts wait for the
/// whole block, since the allocator may be called under a spin lock.
const PART: usize = UNMAPPED_STACKS * KERNEL_STACK_SIZE;

/// Allocates a block of `len` bytes that begins at a page boundary, with arbitrary content; none if
/// there is not enough memory.
pub(in crate::mm) fn take(len: usize) -> Option<usize> {
    let len = page_up(len);
    if !mmu::MAPS_VMALLOC || len > LARGEST || !frame::has_ample(len / PAGE_SIZE) {
        return None;
    }
    // One page more, which stays unmapped.
    let start = with(|area| area.take(len + PAGE_SIZE, OTHERS)).ok()?;
    for part in parts(start..start + len) {
        if with(|area| area.map_frames(part.clone())).is_err() {
            release(start..part.end);
            return None;
        }
    }
    Some(start)
}

/// Whether a block of the heap is one of these.
pub(in crate::mm) fn contains(block: usize) -> bool {
    mmu::MAPS_VMALLOC && mmu::VMALLOC.contains(&block)
}

/// Frees a block.
///
/// # Safety
/// `block` came from `take(len)`, is freed once, and nobody uses it any more.
pub(in crate::mm) unsafe fn give(block: usize, len: usize) {
    release(block..block + page_up(len));
}

/// Frees the frames of the `mapped` part of a block, and then its addresses.
fn release(mapped: Range<usize>) {
    let start = mapped.start;
    for part in parts(mapped) {
        with(|area| area.unmap_frames(part));
    }
    with(|area| area.give(start));
}

/// The parts of a range, each in one table.
fn parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut next = range.start;
    core::iter::from_fn(move || {
        let start = next;
        let table = start - start % HUGE_PAGE_SIZE;
        next = (start + PART).min(table + HUGE_PAGE_SIZE).min(range.end);
        (start < next).then_some(start..next)
    })
}

/// Creates the PTE of a new frame for the kernel, which holds the frame's handle.
fn new_page() -> Result<Pte> {
    let frame = FrameRef::new(Owner::Kernel)?.into_phys();
    Ok(Pte::leaf(frame.0, Prot::KERNEL_DATA, Memory::Normal))
}

/// Empties an entry, and adds its frame, if any, to those that are freed later.
fn take_page(entry: &Entry, frames: &mut Vec<FrameRef>) -> Owed<Clear> {
    let (pte, owed) = entry.take();
    if pte.valid() {
        // SAFETY: `new_page` left this frame's handle in the PTE, which is gone now.
        frames.push(unsafe { FrameRef::from_phys(PhysAddr(pte.phys())) });
    }
    owed
}

impl Area {
    /// Maps new frames in a part, or in its beginning if memory runs out.
    fn map_frames(&mut self, part: Range<usize>) -> Result<()> {
        let leaf = self.table.make(part.start, &mut mmu::publish_table)?;
        let mut owed = Owed::new();
        let mut entries = leaf.from(part.start)[..part.len() / PAGE_SIZE].iter();
        let mapped = entries.try_for_each(|entry| {
            owed.join(entry.fill(new_page()?));
            Ok(())
        });
        mmu::publish_kernel(owed, part);
        mapped
    }

    /// Unmaps a part, and frees its frames after no CPU can use them.
    fn unmap_frames(&mut self, part: Range<usize>) {
        let (frames, mut owed) = (&mut self.frames, Owed::new());
        self.table.visit(part.clone(), &mut |_, entries| {
            for entry in entries {
                owed.join(take_page(entry, frames));
            }
        });
        mmu::flush_kernel(owed, part);
        self.frames.clear();
    }

    /// Maps a new frame for the kernel; not yet published to other CPUs.
    pub(super) fn map_frame(&mut self, address: usize) -> Result<Owed<FillKernel>> {
        let leaf = self.table.make(address, &mut mmu::publish_table)?;
        Ok(leaf.entry(address).fill(new_page()?))
    }

    /// Unmaps a page, and keeps its frame, if any, until no CPU can use it.
    pub(super) fn take_frame(&mut self, address: usize) -> Owed<Clear> {
        match self.table.find(address) {
            Some(entry) => take_page(entry, &mut self.frames),
            None => Owed::new(),
        }
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_block_beyond_the_buddy_allocator_is_memory_and_comes_back() {
        const WORDS: usize = 9 << 20 >> 3;
        let allocate = || {
            let mut words: Vec<usize> = Vec::new();
            words.try_reserve_exact(WORDS).unwrap();
            words
        };
        // The tables stay.
        drop(allocate());
        let before = frame::free_count();
        let (mut first, mut second) = (allocate(), allocate());
        first.extend(0..WORDS);
        second.extend((0..WORDS).map(|word| !word));
        assert!(first.iter().zip(&second).all(|(one, other)| *one == !*other));
        assert!(contains(first.as_ptr().addr()));
        drop(first);
        assert!(second.iter().enumerate().all(|(at, word)| at == !*word));
        drop(second);
        assert!(before.abs_diff(frame::free_count()) < 1000, "the frames did not come back");
    }
}
