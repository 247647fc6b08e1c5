//! Memory shared with virtio devices. The devices use physical addresses, and their accesses are
//! coherent with the CPUs' (QEMU `virt` and every board whose device tree says `dma-coherent`).

use core::ptr::NonNull;

use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE as VIRTIO_PAGE, PhysAddr as DeviceAddr};

use super::{PAGE_SIZE, PhysAddr, frame};
use crate::arch;

/// The hooks that crate virtio-drivers asks of a kernel.
pub struct KernelHal;

fn order(pages: usize) -> usize {
    (pages * VIRTIO_PAGE)
        .div_ceil(PAGE_SIZE)
        .next_power_of_two()
        .trailing_zeros() as usize
}

// SAFETY: blocks of frames are exclusive and zeroed; buffers are shared by their physical address,
// which the linear map provides for the heap and for these blocks.
unsafe impl Hal for KernelHal {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (DeviceAddr, NonNull<u8>) {
        let block = frame::take_block(order(pages));
        let address = block.map_or(0, |block| block.linear());
        let Some(start) = NonNull::new(address as *mut u8) else {
            return (0, NonNull::dangling());
        };
        // SAFETY: the block is exclusively ours, and at least this long.
        unsafe { start.write_bytes(0, pages * VIRTIO_PAGE) };
        (block.map_or(0, |block| block.0 as DeviceAddr), start)
    }

    unsafe fn dma_dealloc(address: DeviceAddr, _start: NonNull<u8>, pages: usize) -> i32 {
        // SAFETY: `dma_alloc` took the block for this many pages; the driver no longer uses it.
        unsafe { frame::give_block(PhysAddr(address as usize), order(pages)) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: DeviceAddr, _size: usize) -> NonNull<u8> {
        unreachable!("the PCI transport alone asks for this: {address:#x}")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> DeviceAddr {
        arch::mmu::virt_to_phys(buffer.cast::<u8>().as_ptr() as usize) as DeviceAddr
    }

    unsafe fn unshare(_address: DeviceAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}
