//! Ordering of device accesses relative to memory accesses. The CPU orders the two only by barriers
//! (Arm ARM, "Definition of the Arm memory model"); accesses to one device are in program order, as
//! its memory type is nGnRE.

use core::arch::asm;

/// Orders earlier writes to memory before the next write to a device, which may trigger a DMA read.
#[inline(always)]
pub fn before_device_write() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb oshst", options(nostack, preserves_flags)) };
}

/// Orders the last write to a device before the release of a lock, which already orders both kinds.
#[inline(always)]
pub fn after_device_write() {}

/// Orders the last read of a device before later reads: it may report that data has arrived.
#[inline(always)]
pub fn after_device_read() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb oshld", options(nostack, preserves_flags)) };
}
