//! The machine's memory: a block of the host's memory that is never freed.

extern crate std;

use core::alloc::Layout;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use super::mmu::PMD_SIZE;

/// The physical address of the memory.
const PHYS: usize = 1 << 30;

/// The host's address of the memory, minus [`PHYS`].
static OFFSET: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Allocates `size` zeroed bytes; returns their physical addresses. Once.
pub fn init(size: usize) -> Range<usize> {
    assert_eq!(SIZE.swap(size, Relaxed), 0, "one machine in a process");
    let layout = Layout::from_size_align(size, PMD_SIZE).expect("a size of memory");
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!start.is_null(), "the host lends {size} bytes");
    OFFSET.store(start.expose_provenance().wrapping_sub(PHYS), Relaxed);
    PHYS..PHYS + size
}

/// The root of the kernel's tables: the first page, which `boot` reserves.
pub const ROOT: Range<usize> = PHYS..PHYS + PAGE_SIZE;

/// The host's address of physical memory.
#[inline]
pub fn phys_to_virt(phys: usize) -> usize {
    phys.wrapping_add(OFFSET.load(Relaxed))
}

/// The physical address of a host address.
#[inline]
pub fn virt_to_phys(virt: usize) -> usize {
    virt.wrapping_sub(OFFSET.load(Relaxed))
}

/// Whether a physical address is in memory.
pub fn contains(phys: usize) -> bool {
    (PHYS..PHYS + SIZE.load(Relaxed)).contains(&phys)
}
