//! Interrupts that come while a guest runs: those that concern guests are dealt with without
//! leaving it for the host.

use super::super::{gic, irq};
use super::timer;

/// Why a guest was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// Another CPU has something for it, or its list registers want attention.
    Look,
    /// A timer of its own, which stays active until the guest has deactivated its interrupt.
    Timer(u32),
    /// One of the host's, which [`irq::handle`](super::super::irq::handle) is owed.
    Hosts(u32),
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
        Some(other) => Interrupt::Hosts(other),
        None => Interrupt::Look,
    }
}
