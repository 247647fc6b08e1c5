//! Ordering of device accesses relative to memory accesses. The hart orders the two only by a fence
//! that names both (unprivileged manual, "RVWMO Explanatory Material", "I/O Ordering"); devices see
//! accesses in program order.

use core::arch::asm;

/// Orders earlier writes to memory before the next write to a device, which may trigger a DMA read.
#[inline(always)]
pub fn before_device_write() {
    // SAFETY: a fence.
    unsafe { asm!("fence w, o", options(nostack, preserves_flags)) };
}

/// Orders the last write to a device before later memory accesses: a lock may pass the device on to
/// another hart.
#[inline(always)]
pub fn after_device_write() {
    // SAFETY: a fence.
    unsafe { asm!("fence o, rw", options(nostack, preserves_flags)) };
}

/// Orders the last read of a device before later reads: it may report that data has arrived.
#[inline(always)]
pub fn after_device_read() {
    // SAFETY: a fence.
    unsafe { asm!("fence i, ir", options(nostack, preserves_flags)) };
}
