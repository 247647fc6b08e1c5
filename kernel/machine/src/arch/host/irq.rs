//! Interrupts: the timer's, when time has come so far.

use crossings::Kind;
use dtoolkit::fdt::FdtNode;

use super::{cpu, time};
pub use crate::arch::interrupted::Interrupted;
use crate::sync::lockdep::NoSleep;
use crate::upcall;

/// Whether an interrupt waits for this CPU.
pub fn pending() -> bool {
    time::is_due()
}

/// Handles what is pending.
pub fn service(from: Interrupted) {
    if pending() {
        let _no_sleep = NoSleep::begin();
        cpu::this().crossings().add(Kind::InterruptTimer);
        time::set_deadline(None);
        upcall::timer_interrupt(from);
    }
}

/// Waits for an interrupt and handles it. Nothing but the timer interrupts, so that its time comes
/// at once.
///
/// # Panics
/// If nobody set it: then all threads sleep for ever.
pub fn wait() {
    time::jump();
    service(Interrupted::Kernel);
}

/// The source of a device's interrupts: none.
pub fn of_node(_node: &FdtNode) -> Option<u32> {
    None
}

/// Calls `handler` when source `source` interrupts: it does not.
pub fn register(_source: u32, _handler: fn()) {}

/// Lets source `source` interrupt.
pub fn enable(_source: u32) {}
