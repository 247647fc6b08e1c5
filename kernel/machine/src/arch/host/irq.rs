//! Interrupts: only the timer's, when its time has come.

use crossings::Kind;
use dtoolkit::fdt::FdtNode;

use super::{cpu, time};
pub use crate::arch::interrupted::Interrupted;
use crate::mm::fault_inject::NoFail;
use crate::sync::lockdep::NoSleep;
use crate::upcall;

/// Whether an interrupt is pending on this CPU.
pub fn pending() -> bool {
    time::is_due()
}

/// Handles pending interrupts.
pub fn service(from: Interrupted) {
    if pending() {
        let (_no_sleep, _no_fail) = (NoSleep::begin(), NoFail::begin());
        cpu::this().crossings().add(Kind::InterruptTimer);
        time::set_deadline(None);
        upcall::timer_interrupt(from);
    }
}

/// Waits for an interrupt and handles it. Only the timer interrupts, so its time comes at once.
///
/// # Panics
/// If it is not set: then all threads sleep forever.
pub fn wait() {
    time::jump();
    service(Interrupted::Kernel);
}

/// The interrupt source of a device: none.
pub fn of_node(_node: &FdtNode) -> Option<u32> {
    None
}

/// Registers `handler` for source `source`, which never interrupts.
pub fn register(_source: u32, _handler: fn()) {}

/// Enables source `source`.
pub fn enable(_source: u32) {}
