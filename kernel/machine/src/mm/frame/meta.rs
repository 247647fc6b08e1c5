//! The metadata of each frame.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering::*};

use super::FETCHED;
use crate::arch;
use crate::mm::buddy::ORDERS;
use crate::mm::{PAGE_SHIFT, PhysAddr};
use crate::upcall::cond_resched;

/// The holder of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Owner {
    /// Firmware, the image or a hole: never allocated.
    Reserved,
    /// In a list of the buddy allocator (recorded only in a block's first frame).
    Free,
    /// The kernel: page tables, stacks, large heap blocks.
    Kernel,
    /// The heap, cut into objects.
    Slab,
    /// A page of a file, or one shared with a device or between processes.
    File,
    /// Private memory of user programs.
    Anonymous,
}

/// The metadata of a frame. Fields other than `refs` change only under the owner's lock, or while
/// one CPU has exclusive use of the frame.
#[repr(C)]
pub struct Meta {
    pub(super) refs: AtomicU32,
    owner: AtomicU8,
    order: AtomicU8,
    spare: AtomicU16,
    links: [AtomicU32; 2],
}

impl Meta {
    /// The owner.
    pub fn owner(&self) -> Owner {
        match self.owner.load(Relaxed) {
            1 => Owner::Free,
            2 => Owner::Kernel,
            3 => Owner::Slab,
            4 => Owner::File,
            5 => Owner::Anonymous,
            _ => Owner::Reserved,
        }
    }

    /// Changes the owner.
    pub(in crate::mm) fn set_owner(&self, owner: Owner) {
        self.owner.store(owner as u8, Relaxed);
    }

    /// Whether the frame is private memory of user programs.
    pub fn is_anonymous(&self) -> bool {
        self.owner.load(Relaxed) == Owner::Anonymous as u8
    }

    /// The order of a free block, or a small number private to the owner.
    pub fn order(&self) -> usize {
        self.order.load(Relaxed).into()
    }

    /// Changes the order.
    pub(in crate::mm) fn set_order(&self, order: usize) {
        self.order.store(order as u8, Relaxed);
    }

    /// A number private to the owner.
    pub fn spare(&self) -> u16 {
        self.spare.load(Relaxed)
    }

    /// Changes the owner's number.
    pub(in crate::mm) fn set_spare(&self, value: u16) {
        self.spare.store(value, Relaxed);
    }

    /// Records whether instruction caches agree with the frame, leaving concurrently changed tag
    /// bits intact.
    pub(super) fn set_fetched(&self, fetched: u16) {
        if arch::has_tags() {
            self.set_fetched_only(fetched);
        } else {
            self.set_spare(fetched);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_fetched_only(&self, fetched: u16) {
        if fetched == 0 {
            self.spare.fetch_and(!FETCHED, Relaxed);
        } else {
            self.spare.fetch_or(FETCHED, Relaxed);
        }
    }

    /// Sets bits of the owner's number; returns the previous value.
    pub(super) fn spare_bits(&self, set: u16) -> u16 {
        self.spare.fetch_or(set, AcqRel)
    }

    /// Clears bits of the owner's number; true.
    pub(super) fn clear_spare_bits(&self, clear: u16) -> bool {
        self.spare.fetch_and(!clear, Relaxed);
        true
    }

    /// The owner's number, with acquire ordering.
    pub(super) fn spare_acquire(&self) -> u16 {
        self.spare.load(Acquire)
    }

    /// The previous and the next frame in the owner's list.
    pub fn links(&self) -> (u32, u32) {
        (self.links[0].load(Relaxed), self.links[1].load(Relaxed))
    }

    /// The next frame in the owner's list.
    pub fn next(&self) -> u32 {
        self.links[1].load(Relaxed)
    }

    /// Changes the list's links.
    pub(in crate::mm) fn set_links(&self, previous: u32, next: u32) {
        self.links[0].store(previous, Relaxed);
        self.links[1].store(next, Relaxed);
    }

    /// Whether the frame is private memory of user programs, held by a single handle or
    /// translation.
    pub fn is_anonymous_unique(&self) -> bool {
        self.is_anonymous() && self.refs() == 1
    }

    /// Adds a handle or translation.
    #[inline]
    pub(super) fn hold(&self) {
        if self.refs.fetch_add(1, Relaxed) >= MOST_REFS {
            self.keep_for_ever();
        }
    }

    /// Saturates the count, as Linux's refcount_t does: the frame leaks, but is never freed while
    /// somebody holds it.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_for_ever(&self) {
        self.refs.store(KEPT, Relaxed);
    }

    /// Overrides the number of holders.
    #[cfg(feature = "selftest")]
    pub fn set_refs(&self, refs: u32) {
        self.refs.store(refs, Relaxed);
    }

    /// Number of handles and translations that hold the frame.
    pub fn refs(&self) -> u32 {
        self.refs.load(Acquire)
    }
}

/// The metadata of all frames from the first to the last of memory.
pub struct Frames {
    /// The address that the metadata of frame 0 would have.
    pub(super) biased: AtomicUsize,
    pub(super) first: AtomicU32,
    pub(super) end: AtomicU32,
    pub(super) total: AtomicUsize,
}

/// The only frame table.
pub(in crate::mm) static FRAMES: Frames = Frames {
    biased: AtomicUsize::new(0),
    first: AtomicU32::new(0),
    end: AtomicU32::new(0),
    total: AtomicUsize::new(0),
};

impl Frames {
    /// Returns the metadata of a frame of memory; [`Frames::get`] takes any number. Only for the
    /// memory management, which takes its numbers from a handle, a valid PTE, a list or [`span`].
    pub(in crate::mm) fn meta(&self, frame: u32) -> &'static Meta {
        debug_assert!((self.first.load(Relaxed)..self.end.load(Relaxed)).contains(&frame));
        let address = self
            .biased
            .load(Relaxed)
            .wrapping_add(frame as usize * size_of::<Meta>());
        // SAFETY: the number lies in the table. No check and no type ensures it, because a page
        // fault calls this several times; but no number enters `mm` from outside. `setup` fills the
        // buddy allocator with frames of the table. From there they go into handles, page tables
        // and lists (their heads and the links in the metadata), all of which are private to `mm`,
        // and come back unchanged; 0, which ends a list, is tested for. Debug assertions check it.
        // The array is never freed, is aligned, and consists of atomics for which any bit pattern
        // is valid.
        unsafe { &*(address as *const Meta) }
    }

    /// Returns the metadata of the frame at an address of memory.
    pub(in crate::mm) fn at(&self, address: PhysAddr) -> &'static Meta {
        self.meta((address.0 >> PAGE_SHIFT) as u32)
    }

    /// Returns the metadata of any frame number, if it is memory.
    pub(in crate::mm) fn get(&self, frame: u32) -> Option<&'static Meta> {
        (self.first.load(Relaxed)..self.end.load(Relaxed))
            .contains(&frame)
            .then(|| self.meta(frame))
    }
}

/// A frame with more holders than this is kept forever: its count is reset to the middle of the
/// remaining range.
pub(super) const MOST_REFS: u32 = 1 << 31;
const KEPT: u32 = 3 << 30;

/// The first frame number and the one after the last, including frames that the allocator does not
/// manage.
pub fn span() -> Range<usize> {
    FRAMES.first.load(Relaxed) as usize..FRAMES.end.load(Relaxed) as usize
}

/// Number of frames that the allocator manages.
pub fn total() -> usize {
    FRAMES.total.load(Relaxed)
}

/// Number of frames in use, by owner.
#[derive(Default)]
pub struct Held {
    /// Files' pages.
    pub file: usize,
    /// Private memory of programs.
    pub anonymous: usize,
    /// Objects of the kernel.
    pub slab: usize,
}

/// Counts the frames in use by scanning the frame table, so that only reports pay for it. May
/// sleep.
pub fn held() -> Held {
    const STRETCH: usize = 1 << 12;
    let mut held = Held::default();
    let (mut frame, end) = (FRAMES.first.load(Relaxed), FRAMES.end.load(Relaxed));
    let mut looked = 0;
    while frame < end {
        looked += 1;
        if looked % STRETCH == 0 {
            cond_resched();
        }
        let meta = FRAMES.meta(frame);
        match meta.owner() {
            // The whole block is free. Its order may have been overwritten by a new owner
            // meanwhile.
            Owner::Free => frame += (1 << meta.order().min(ORDERS - 1)) - 1,
            Owner::File if meta.refs() > 0 => held.file += 1,
            Owner::Anonymous if meta.refs() > 0 => held.anonymous += 1,
            Owner::Slab if meta.refs() > 0 => held.slab += 1,
            _ => {}
        }
        frame += 1;
    }
    held
}
