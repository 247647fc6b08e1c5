//! Blocks of the heap for which there are not enough adjacent frames: of single ones, mapped in a
//! row.

use super::{Area, with};
use crate::arch::mmu::{self, Memory, Prot, Pte};
use crate::errno::Result;
use crate::mm::frame::{self, FrameRef, Owner};
use crate::mm::{PAGE_SIZE, PhysAddr, page_up};
use core::ops::Range;
use translation::owed::{FillKernel, Owed};

/// The largest block, in bytes: it is mapped, and freed, without a pause.
pub(in crate::mm) const LARGEST: usize = 64 << 20;

/// Allocates a block of `len` bytes that begins on a page, with arbitrary content; none if there is
/// no memory, or none to spare.
pub(in crate::mm) fn take(len: usize) -> Option<usize> {
    let len = page_up(len);
    if !mmu::MAPS_VMALLOC || len > LARGEST || !frame::has_ample(len / PAGE_SIZE) {
        return None;
    }
    with(|area| area.take_block(len))
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
    with(|area| area.give_block(block..block + page_up(len)));
}

impl Area {
    /// Takes addresses, and a page more that stays unmapped, and maps frames there.
    fn take_block(&mut self, len: usize) -> Option<usize> {
        let start = self.take(len + PAGE_SIZE, PAGE_SIZE).ok()?;
        let mut owed = Owed::new();
        for address in (start..start + len).step_by(PAGE_SIZE) {
            let Ok(also) = self.map_frame(address) else {
                owed.held_by_nobody();
                self.unmap_frames(start..address);
                self.give(start..start + len + PAGE_SIZE);
                return None;
            };
            owed.join(also);
        }
        mmu::publish_kernel(owed, start..start + len);
        Some(start)
    }

    fn give_block(&mut self, block: Range<usize>) {
        self.unmap_frames(block.clone());
        self.give(block.start..block.end + PAGE_SIZE);
    }

    /// Maps a new frame of the kernel's; not yet published to other CPUs.
    pub(super) fn map_frame(&mut self, address: usize) -> Result<Owed<FillKernel>> {
        let frame = FrameRef::new(Owner::Kernel)?;
        let pte = Pte::leaf(frame.phys().0, Prot::KERNEL_DATA, Memory::Normal);
        let owed = self.map(address, pte)?;
        frame.into_phys();
        Ok(owed)
    }

    /// Unmaps what `map_frame` mapped in `range`, and frees the frames once no CPU can use them.
    fn unmap_frames(&mut self, range: Range<usize>) {
        let at_once = self.frames.capacity() * PAGE_SIZE;
        for start in range.clone().step_by(at_once) {
            let part = start..range.end.min(start + at_once);
            let mut owed = Owed::new();
            for address in part.clone().step_by(PAGE_SIZE) {
                owed.join(self.take_frame(address));
            }
            mmu::flush_kernel(owed, part);
            self.frames.clear();
        }
    }

    /// Unmaps a page, and keeps its frame, if it has one, until all CPUs forgot it.
    pub(super) fn take_frame(&mut self, address: usize) -> Owed<translation::owed::Clear> {
        let (pte, owed) = self.unmap(address);
        if pte.valid() {
            // SAFETY: `map_frame` left this frame's handle in the PTE, which is gone now.
            self.frames
                .push(unsafe { FrameRef::from_phys(PhysAddr(pte.phys())) });
        }
        owed
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_block_beyond_the_buddy_allocator_is_memory_and_comes_back() {
        const WORDS: usize = 9 << 20 >> 3;
        let allocate = || {
            let mut words: alloc::vec::Vec<usize> = alloc::vec::Vec::new();
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
