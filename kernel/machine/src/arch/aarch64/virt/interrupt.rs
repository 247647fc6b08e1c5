//! Interrupts that come while a guest runs: those that concern guests are dealt with without
//! leaving it for the host.

use super::super::{gic, irq};
use super::timer;
use crate::arch::interrupted::Interrupted;

/// Why a guest was interrupted.
pub enum Interrupt {
    /// Another CPU has something for it, or its list registers want attention.
    Look,
    /// A timer of its own, which stays active until the guest has deactivated its interrupt.
    Timer(u32),
    /// One of the host's.
    Hosts(Hosts),
}

/// An interrupt of the host's, which was acknowledged.
#[must_use = "it stays active until it is handled"]
pub struct Hosts(u32);

impl Hosts {
    /// Handles it, once the host's context is back.
    pub fn handle(self) {
        irq::handle(self.0, Interrupted::Program);
    }
}

/// Takes the interrupt that a guest was left for.
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
