//! Physical frames: metadata for each, reference-counted handles, and per-CPU caches of free frames
//! in front of the buddy allocator.

mod meta;
mod pool;
mod run;
mod setup;

use core::num::NonZeroU32;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};

pub(super) use meta::FRAMES;
pub use meta::{Held, Meta, Owner, held, span, total};
#[cfg(feature = "selftest")]
pub(super) use pool::CHAINS;
pub use pool::{
    Cache, above_reserve, free_blocks, free_count, has_beside_reserve, is_ample, is_scarce,
    min_free_kbytes, set_min_free_kbytes, watermarks,
};
pub(super) use pool::{give_block, give_private, has_ample, take_block, take_private};
pub use run::FrameRun;
pub(super) use run::zeroed_run;
pub(super) use setup::{add, init};

use super::fault_inject::should_fail;
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, alloc_info};
use crate::arch;
use crate::errno::{Errno, Result};
use meta::MOST_REFS;
use pool::{give_one, low, take_kernel, take_one};

/// Bit of `spare`: instruction caches agree with the frame.
const FETCHED: u16 = 1;
/// Bit of `spare`: the tags are valid; they were cleared when the frame was first mapped with tags.
const TAGGED: u16 = 2;
/// Bit of `spare`: the tags are being cleared.
const TAGS_COME: u16 = 4;
/// Bits of `spare` of a file's page: it was used; it was used again since reclaim last examined it.
const REFERENCED: u16 = 8;
const ACTIVE: u16 = 16;

/// The number of bytes that share a tag.
pub const TAG_GRANULE: usize = 16;

/// A reference-counted handle of a frame.
#[repr(transparent)]
pub struct FrameRef(NonZeroU32);

impl FrameRef {
    /// Allocates a frame for `owner` with arbitrary content. Fails while a reserve for the kernel
    /// remains.
    pub fn new(owner: Owner) -> Result<FrameRef> {
        if should_fail() {
            return Err(Errno::ENOMEM);
        }
        take_one(low, owner)
    }

    /// Allocates a zeroed frame for `owner`. Fails as [`FrameRef::new`] does.
    pub fn zeroed(owner: Owner) -> Result<FrameRef> {
        let frame = Self::new(owner)?;
        frame.zero_new();
        Ok(frame)
    }

    /// Creates the first handle of a free frame.
    #[inline]
    fn first(frame: u32, owner: Owner) -> Result<FrameRef> {
        let meta = FRAMES.meta(frame);
        meta.set_owner(owner);
        meta.set_spare(0);
        meta.refs.store(1, Relaxed);
        alloc_info::FRAMES.add(PAGE_SIZE);
        Self::wrap(frame)
    }

    fn wrap(frame: u32) -> Result<FrameRef> {
        NonZeroU32::new(frame).map(FrameRef).ok_or(Errno::ENOMEM)
    }

    /// Takes the handle back from a translation: the inverse of `into_phys`.
    ///
    /// # Safety
    /// `address` came from `into_phys`, and each such address is taken back at most once.
    pub(super) unsafe fn from_phys(address: PhysAddr) -> FrameRef {
        debug_assert!(
            FRAMES
                .get((address.0 >> PAGE_SHIFT) as u32)
                .is_some_and(|meta| meta.refs() > 0)
        );
        // SAFETY: `into_phys` never gives frame 0.
        FrameRef(unsafe { NonZeroU32::new_unchecked((address.0 >> PAGE_SHIFT) as u32) })
    }

    /// Takes the handle back from a guest's translation, for which a handle was forgotten.
    ///
    /// # Safety
    /// A handle of the frame at `address` was forgotten, and is taken back at most once.
    pub unsafe fn from_mapped(address: u64) -> FrameRef {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::from_phys(PhysAddr(address as usize)) }
    }

    /// Creates another handle of a frame that a translation holds, or of the zero page.
    pub(super) fn clone_phys(address: PhysAddr) -> FrameRef {
        FRAMES.at(address).hold();
        // SAFETY: the count just taken is this handle's own.
        unsafe { FrameRef::from_phys(address) }
    }

    /// Turns the handle into an address that keeps the count, for a translation that holds it from
    /// now on.
    pub(super) fn into_phys(self) -> PhysAddr {
        let address = self.phys();
        core::mem::forget(self);
        address
    }

    /// The frame's physical address.
    pub fn phys(&self) -> PhysAddr {
        PhysAddr((self.0.get() as usize) << PAGE_SHIFT)
    }

    /// The frame's metadata.
    pub fn meta(&self) -> &'static Meta {
        FRAMES.meta(self.0.get())
    }

    /// Whether this handle is the only one.
    pub fn is_unique(&self) -> bool {
        self.meta().refs() == 1
    }

    fn bytes(&self) -> *mut u8 {
        self.phys().linear() as *mut u8
    }

    /// The address of a range inside the frame.
    pub(super) fn range(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset <= PAGE_SIZE && len <= PAGE_SIZE - offset,
            "outside the frame"
        );
        self.bytes().wrapping_add(offset)
    }

    /// Records a use of a file's page (Linux's mark_page_accessed). Writes nothing if it was used
    /// twice already.
    #[inline]
    pub fn mark_accessed(&self) {
        let meta = self.meta();
        let used = meta.spare() & (REFERENCED | ACTIVE);
        if used & ACTIVE == 0 {
            meta.spare_bits(if used == 0 { REFERENCED } else { ACTIVE });
        }
    }

    /// Whether a file's page was used again since the last call, or was used twice.
    pub fn take_active(&self) -> bool {
        let meta = self.meta();
        meta.spare() & ACTIVE != 0 && meta.clear_spare_bits(ACTIVE)
    }

    /// Makes sure that instruction fetches see the frame's content.
    pub(super) fn sync_instructions(&self) {
        if self.meta().spare() & FETCHED == 0 {
            arch::mmu::sync_icache(self.phys().linear(), PAGE_SIZE);
            self.meta().set_fetched(FETCHED);
        }
    }

    /// Records that the kernel is about to write: instruction caches may no longer agree.
    pub(super) fn written(&self) {
        if self.meta().spare() & FETCHED != 0 {
            self.meta().set_fetched(0);
        }
    }

    /// Zeroes the frame, and its tags where they are valid.
    pub fn zero(&self) {
        self.written();
        self.zero_new();
        if self.has_tags() {
            // SAFETY: the handle keeps the frame; its tags change as its bytes do.
            unsafe { arch::clear_page_tags(self.phys().linear()) };
        }
    }

    /// Zeroes a new frame, which is in no instruction cache.
    pub(super) fn zero_new(&self) {
        // SAFETY: the handle keeps the frame; all memory is in the linear map.
        unsafe { arch::mmu::zero_pages(self.bytes(), 1) }
    }

    /// Copies another frame's content into a new one.
    pub fn copy_from(&self, source: &FrameRef) {
        self.copy_from_phys(source.phys());
    }

    /// Copies the content of a frame into a new one. If only a translation holds the frame, the
    /// caller drops the copy where that has changed meanwhile.
    pub(super) fn copy_from_phys(&self, source: PhysAddr) {
        // SAFETY: this handle keeps this frame; the other's bytes are in the linear map, whatever
        // they are by now. See "Frames" in docs/soundness.md.
        unsafe { arch::mmu::copy_page(self.bytes(), source.linear() as *const u8) }
    }

    /// Makes sure that the frame's tags are valid, before it is mapped with tags.
    pub(super) fn sync_tags(&self) {
        if self.has_tags() {
            return;
        }
        let meta = self.meta();
        if meta.spare_bits(TAGS_COME) & (TAGGED | TAGS_COME) == 0 {
            // SAFETY: the handle keeps the frame, and nobody has relied on its tags yet.
            unsafe { arch::clear_page_tags(self.phys().linear()) };
            meta.spare_bits(TAGGED);
        }
        // The other CPU finishes soon: it has interrupts masked.
        while !self.has_tags() {
            core::hint::spin_loop();
        }
    }

    /// Whether the frame's tags are valid.
    pub(super) fn has_tags(&self) -> bool {
        self.meta().spare_acquire() & TAGGED != 0
    }

    /// Copies the tags of a frame that a translation holds into a new one, if they are valid.
    pub(super) fn copy_tags_from_phys(&self, source: PhysAddr) {
        if FRAMES.at(source).spare_acquire() & TAGGED != 0 {
            // SAFETY: this handle keeps this frame, which is new, and the caller the other.
            unsafe { arch::copy_page_tags(self.phys().linear(), source.linear()) };
            self.meta().spare_bits(TAGGED);
        }
    }

    /// Reads the tags from `offset` on, as many as `tags` holds.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub(super) fn read_tags(&self, offset: usize, tags: &mut [u8]) {
        let from = self.range(offset, tags.len() * TAG_GRANULE);
        // SAFETY: the range lies in a frame that the handle keeps.
        unsafe { arch::page_tags(from.addr(), tags) };
    }

    /// Writes the tags from `offset` on.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub(super) fn write_tags(&self, offset: usize, tags: &[u8]) {
        let to = self.range(offset, tags.len() * TAG_GRANULE);
        // SAFETY: as in `read_tags`.
        unsafe { arch::set_page_tags(to.addr(), tags) };
    }

    /// Reads bytes from `offset`. Concurrent writes by a program may tear them.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let source = self.range(offset, target.len());
        // SAFETY: the range lies in a frame that the handle keeps; `target` is exclusive. For
        // concurrent writes by others see "Frames" in docs/soundness.md.
        unsafe { core::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) }
    }

    /// Writes bytes at `offset`.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn write(&self, offset: usize, source: &[u8]) {
        self.written();
        let target = self.range(offset, source.len());
        // SAFETY: the range lies in a frame that the handle keeps, and which holds bytes and no
        // Rust object.
        unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) }
    }

    /// Writes bytes of another frame, from `start` on, at `offset`.
    ///
    /// # Panics
    /// If a range leaves its frame.
    pub fn copy_part(&self, offset: usize, from: &FrameRef, start: usize, len: usize) {
        self.written();
        let (source, target) = (from.range(start, len), self.range(offset, len));
        // SAFETY: the ranges lie in frames that the handles keep, and which hold bytes and no Rust
        // object; they may be the same. For concurrent writes by others see `read`.
        unsafe { core::ptr::copy(source, target, len) }
    }

    /// The frame as words, for data that a program maps and changes at any time; not for
    /// instructions.
    #[inline]
    pub fn words(&self) -> &[AtomicU64; PAGE_SIZE / size_of::<u64>()] {
        // SAFETY: the handle keeps the frame as long as the reference, and all other users treat it
        // as plain memory.
        unsafe { &*self.bytes().cast() }
    }

    /// The frame as 32-bit words, with the same restriction.
    pub fn halves(&self) -> &[AtomicU32; PAGE_SIZE / size_of::<u32>()] {
        // SAFETY: as in `words`.
        unsafe { &*self.bytes().cast() }
    }

    /// Fills a range with one byte.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn fill(&self, range: Range<usize>, byte: u8) {
        self.written();
        let target = self.range(range.start, range.len());
        // SAFETY: as in `write`.
        unsafe { core::ptr::write_bytes(target, byte, range.len()) }
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        self.meta().hold();
        FrameRef(self.0)
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        let meta = self.meta();
        if meta.refs.load(Acquire) == 1 {
            meta.refs.store(0, Relaxed);
        } else {
            match meta.refs.fetch_sub(1, Release) {
                1 => fence(Acquire),
                0..MOST_REFS => return,
                _ => return meta.keep_for_ever(),
            }
        }
        give_one(self.0.get(), meta);
    }
}

/// Allocates a frame for a file or the kernel's own bytes, with arbitrary content.
pub fn alloc() -> Result<FrameRef> {
    FrameRef::new(Owner::File)
}

/// Allocates a frame with arbitrary content, also from the kernel's reserve, to make room when
/// memory is short. It must be freed soon.
pub fn alloc_kernel() -> Result<FrameRef> {
    take_kernel()
}

/// Allocates a zeroed frame for a file or the kernel's own bytes.
pub fn alloc_zeroed() -> Result<FrameRef> {
    FrameRef::zeroed(Owner::File)
}
