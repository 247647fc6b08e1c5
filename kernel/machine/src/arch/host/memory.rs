//! The machine's memory: a block that the host lends for ever.

extern crate std;

use core::alloc::Layout;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use super::mmu::PMD_SIZE;

/// Where the memory begins, in physical addresses.
const PHYS: usize = 1 << 30;

/// Address of the memory on the host, less [`PHYS`].
static OFFSET: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Borrows `size` bytes, all zero; returns their physical addresses. Once.
pub fn init(size: usize) -> Range<usize> {
    assert_eq!(SIZE.swap(size, Relaxed), 0, "one machine in a process");
    let layout = Layout::from_size_align(size, PMD_SIZE).expect("a size of memory");
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!start.is_null(), "the host lends {size} bytes");
    OFFSET.store(start.expose_provenance().wrapping_sub(PHYS), Relaxed);
    PHYS..PHYS + size
}

/// Where the root of the kernel's tables lies: the first page, which `boot` keeps back.
pub const ROOT: Range<usize> = PHYS..PHYS + PAGE_SIZE;

/// Where the host has physical memory.
#[inline]
pub fn phys_to_virt(phys: usize) -> usize {
    phys.wrapping_add(OFFSET.load(Relaxed))
}

/// The physical address of an address on the host.
#[inline]
pub fn virt_to_phys(virt: usize) -> usize {
    virt.wrapping_sub(OFFSET.load(Relaxed))
}

/// Whether a physical address is one of memory.
pub fn contains(phys: usize) -> bool {
    (PHYS..PHYS + SIZE.load(Relaxed)).contains(&phys)
}
