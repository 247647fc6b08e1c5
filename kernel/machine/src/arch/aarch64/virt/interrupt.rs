//! Interrupts while a guest runs: those that concern guests are handled without leaving it for the
//! host.

use super::super::{gic, irq};
use super::timer;
use crate::arch::interrupted::Interrupted;

/// The reason for an interrupt of a guest.
pub enum Interrupt {
    /// Another CPU has changed its state, or its list registers need maintenance.
    Look,
    /// A timer of the guest, whose interrupt stays active until the guest deactivates it.
    Timer(u32),
    /// An interrupt of the host.
    Hosts(Hosts),
}

/// An acknowledged interrupt for the host.
#[must_use = "it stays active until it is handled"]
pub struct Hosts(u32);

impl Hosts {
    /// Handles it, after the host's context is restored.
    pub fn handle(self) {
        irq::handle(self.0, Interrupted::Program);
    }
}

/// Acknowledges the interrupt for which a guest was left.
pub fn take() -> Interrupt {
    match gic::acknowledge() {
        Some(timer @ (timer::VIRTUAL | timer::PHYSICAL)) => {
            gic::hand_over(timer);
            Interrupt::Timer(timer)
        }
        Some(own) if own == irq::KICK || Some(own) == gic::maintenance() => {
            gic::end(own);
            Interrupt::Look
        }
        Some(other) => Interrupt::Hosts(Hosts(other)),
        None => Interrupt::Look,
    }
}
