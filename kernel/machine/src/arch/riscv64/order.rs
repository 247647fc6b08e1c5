//! Accesses to devices among those to memory. The hart orders the two kinds as it likes but for a
//! fence that names both (unprivileged manual, "RVWMO Explanatory Material", "I/O Ordering");
//! devices themselves see accesses in program order.

use core::arch::asm;

/// Orders earlier writes to memory before the next write to a device, which may trigger a DMA read.
#[inline(always)]
pub fn before_device_write() {
    // SAFETY: orders, no more.
    unsafe { asm!("fence w, o", options(nostack, preserves_flags)) };
}

/// The last write to a device goes before what memory is used for next: a lock may pass on whose
/// turn it is at the device.
#[inline(always)]
pub fn after_device_write() {
    // SAFETY: orders, no more.
    unsafe { asm!("fence o, rw", options(nostack, preserves_flags)) };
}

/// The last read of a device goes before what is read next: it may say that something has come.
#[inline(always)]
pub fn after_device_read() {
    // SAFETY: orders, no more.
    unsafe { asm!("fence i, ir", options(nostack, preserves_flags)) };
}
