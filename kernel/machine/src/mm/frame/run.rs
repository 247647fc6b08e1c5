//! Contiguous frames: for pages of files that are filled together, and for private memory.

use core::array;

use super::{FrameRef, Owner, alloc, take_private};
use crate::arch::mmu;
use crate::errno::Result;
use crate::mm::contpte::{self, PAGES};
use crate::mm::{PAGE_SIZE, PhysAddr};

const ORDER: usize = PAGES.trailing_zeros() as usize;

/// The zeroed frames of a run of private memory; none where there is no such block.
pub(in crate::mm) fn zeroed_run() -> Option<[FrameRef; PAGES]> {
    let block = take_private(ORDER, Owner::Anonymous)?;
    // SAFETY: the frames of the block, to which nobody else has a handle yet.
    unsafe { mmu::zero_pages(block.linear() as *mut u8, PAGES) };
    // SAFETY: `take_private` made one handle of each frame.
    let frame = |place| unsafe { FrameRef::from_phys(PhysAddr(block.0 + place * PAGE_SIZE)) };
    Some(array::from_fn(frame))
}

/// The frames of a run of a file's pages that are still to be handed out.
#[derive(Default)]
pub struct FrameRun {
    /// The index of the run's first page in the file, and the address of its frame.
    first: usize,
    block: PhysAddr,
    /// A bit for each frame that is still here.
    left: u16,
}

impl FrameRun {
    /// A frame with arbitrary content for the page `index` of a file, of which `count` pages from
    /// this one on are about to be filled: one of a run, if they are all of it and there is such
    /// memory.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline(never)]
    pub fn frame(&mut self, index: usize, count: usize) -> Result<FrameRef> {
        let place = index % PAGES;
        if place == 0 && count >= PAGES && contpte::is_on() {
            self.begin(index);
        }
        match self.first == index - place {
            true => self.take(place).map_or_else(alloc, Ok),
            false => alloc(),
        }
    }

    fn begin(&mut self, first: usize) {
        self.drop_rest();
        if let Some(block) = take_private(ORDER, Owner::File) {
            (self.first, self.block, self.left) = (first, block, u16::MAX);
        }
    }

    fn take(&mut self, place: usize) -> Option<FrameRef> {
        if self.left >> place & 1 == 0 {
            return None;
        }
        self.left &= !(1 << place);
        let address = PhysAddr(self.block.0 + place * PAGE_SIZE);
        // SAFETY: `take_private` made one handle of each frame, and this one's bit was still set.
        Some(unsafe { FrameRef::from_phys(address) })
    }

    #[cold]
    fn drop_rest(&mut self) {
        (0..PAGES).for_each(|place| drop(self.take(place)));
    }
}

impl Drop for FrameRun {
    fn drop(&mut self) {
        if self.left != 0 {
            self.drop_rest();
        }
    }
}
