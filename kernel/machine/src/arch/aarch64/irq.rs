//! Interrupt handlers. Interrupts are masked whenever the kernel runs; pending ones are taken on
//! return to a program, in `service`, or when idle.

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use dtoolkit::fdt::FdtNode;

use super::{cpu, gic, sysreg, time};
pub use crate::arch::interrupted::Interrupted;
use crate::fdt;
use crate::mm::fault_inject::NoFail;
use crate::sync::lockdep::NoSleep;
use crate::upcall;
use crossings::Kind;

/// The software-generated interrupt for IPIs between CPUs.
pub(super) const IPI: u32 = 0;
/// The software-generated interrupt that kicks a vCPU out of its guest, without further work.
pub(super) const KICK: u32 = 1;
/// Number of interrupts that can be handled.
const COUNT: usize = 1020;

static HANDLERS: [AtomicPtr<()>; COUNT] = [const { AtomicPtr::new(core::ptr::null_mut()) }; COUNT];

/// Registers `handler` for `interrupt`.
pub fn register(interrupt: u32, handler: fn()) {
    HANDLERS[interrupt as usize].store(handler as *mut (), Release);
}

/// Enables `interrupt`.
pub fn enable(interrupt: u32) {
    gic::enable(interrupt);
}

/// The first interrupt of a device (binding `arm,gic-v3`: kind, number, flags).
pub fn of_node(node: &FdtNode) -> Option<u32> {
    nth_of_node(node, 0)
}

/// Interrupt `n` of a device.
pub(super) fn nth_of_node(node: &FdtNode, n: usize) -> Option<u32> {
    let mut cells = fdt::cells(node, "interrupts").skip(3 * n);
    match (cells.next()?, cells.next()?) {
        (0, number @ 0..988) => Some(32 + number),
        (1, number @ 0..16) => Some(16 + number),
        _ => None,
    }
}

/// Handles all interrupts that are pending on this CPU.
pub fn service(from: Interrupted) {
    while let Some(interrupt) = gic::acknowledge() {
        handle(interrupt, from);
    }
}

/// Handles an interrupt that was acknowledged.
pub(super) fn handle(interrupt: u32, from: Interrupted) {
    let (_no_sleep, _no_fail) = (NoSleep::begin(), NoFail::begin());
    let crossings = cpu::this().crossings();
    if interrupt == IPI {
        crossings.add(Kind::InterruptIpi);
        gic::end(interrupt);
        upcall::ipi();
    } else if interrupt == time::interrupt() {
        crossings.add(Kind::InterruptTimer);
        time::stop();
        gic::end(interrupt);
        upcall::timer_interrupt(from);
    } else {
        crossings.add(Kind::InterruptDevice);
        let handler = HANDLERS[interrupt as usize].load(Acquire);
        if !handler.is_null() {
            // SAFETY: `register` stores only functions of this type.
            let handler: fn() = unsafe { core::mem::transmute(handler) };
            handler();
        }
        gic::end(interrupt);
    }
}

/// Whether an interrupt is pending on this CPU (ISR_EL1.I).
#[inline]
pub fn pending() -> bool {
    sysreg::read!("isr_el1") & 1 << 7 != 0
}

/// Waits until an interrupt is pending, with interrupts masked, and handles it.
pub fn wait() {
    // SAFETY: waiting has no side effects. Earlier writes must complete before it (Arm ARM, "Data
    // Synchronization Barrier (DSB)").
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    service(Interrupted::Kernel);
}
