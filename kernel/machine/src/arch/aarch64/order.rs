//! Accesses to devices among those to memory. The CPU orders the two kinds as it likes but for a
//! barrier (Arm ARM, B2.3 "Definition of the Arm memory model"); a device sees those to it in
//! program order, as they are of type nGnRE.

use core::arch::asm;

/// Orders earlier writes to memory before the next write to a device, which may trigger a DMA read.
#[inline(always)]
pub fn before_device_write() {
    // SAFETY: orders, no more.
    unsafe { asm!("dmb oshst", options(nostack, preserves_flags)) };
}

/// The last write to a device goes before a lock is passed on: its release orders both kinds
/// already.
#[inline(always)]
pub fn after_device_write() {}

/// The last read of a device goes before what is read next: it may say that something has come.
#[inline(always)]
pub fn after_device_read() {
    // SAFETY: orders, no more.
    unsafe { asm!("dmb oshld", options(nostack, preserves_flags)) };
}
