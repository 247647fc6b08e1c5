//! Memory: frames, the heap, the kernel's vmalloc area, and the address spaces of programs.

mod access_remote;
pub mod active;
mod age;
pub mod alloc_info;
mod archive;
pub(crate) mod asid;
pub mod aslr;
mod buddy;
pub mod commit;
pub mod contpte;
mod dma;
pub mod fault;
pub mod fault_inject;
mod fork;
pub mod frame;
pub mod heap;
pub mod huge_page;
pub mod large;
mod layout;
pub mod map;
mod mmu_gather;
pub mod mmu_notifier;
pub mod number;
mod ordered;
mod paged;
mod program_ranges;
mod protect;
mod remap;
mod rmap;
#[cfg(feature = "selftest")]
mod selftests;
mod send_queue;
pub mod shared;
pub mod shmem_account;
mod smaps;
pub mod space;
pub(crate) mod space_lock;
pub(crate) mod table;
pub mod totals;
mod unmap;
pub mod user;
pub mod virtio;
pub mod virtio_9p;
pub mod virtio_blk;
pub mod virtio_net;
mod virtio_queue;
pub mod vma;
pub mod vmalloc;
pub mod vmas;

pub use active::{Active, deactivate};
pub use archive::Archive;
pub use map::{MapRequest, Place};
pub use program_ranges::ProgramRanges;
pub use remap::{Move, RemapRequest};
pub use rmap::ReverseMap;
pub use smaps::{Size, Usage};
pub use space::{AddressSpace, SpaceUser};
pub use table::EmptyTables;
pub use vma::PageSource;
pub use vmas::Removed;

use core::ops::Range;

use crate::arch;

/// Bytes in a page.
pub use crate::arch::PAGE_SIZE;
/// log2 of the bytes in a page.
pub const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();

/// An address of physical memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub usize);

impl PhysAddr {
    /// The address in the kernel's linear map (only for memory).
    pub fn linear(self) -> usize {
        arch::mmu::phys_to_virt(self.0)
    }
}

/// Rounds an address up to a page.
pub const fn page_up(address: usize) -> usize {
    (address + PAGE_SIZE - 1) & !(PAGE_SIZE - 1)
}

/// Rounds an address down to its page.
pub const fn page_down(address: usize) -> usize {
    address & !(PAGE_SIZE - 1)
}

/// Takes over all memory: `ram` without `reserved`, both in bytes. Returns the initial archive,
/// which lies at `archive`.
///
/// # Safety
/// Called once, on the boot CPU, after the linear map covers all of `ram`, of which only the ranges
/// in `reserved` are in use.
pub(crate) unsafe fn init(
    ram: &[Range<usize>],
    reserved: &[Range<usize>],
    archive: Range<usize>,
) -> Option<Archive> {
    // SAFETY: guaranteed by the caller.
    unsafe { frame::init(ram, reserved) };
    commit::init();
    vmalloc::init(ram);
    fault::init();
    age::init();
    contpte::init();
    huge_page::init();
    aslr::init();
    Archive::find(archive, ram, reserved)
}
