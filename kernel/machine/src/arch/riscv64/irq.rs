//! This hart's interrupts: software (from other CPUs), timer, and external (from devices). They are
//! masked whenever the kernel runs, which polls for pending ones.

use core::arch::asm;

use crossings::Kind;

use super::{cpu, external, smp, time};
pub use crate::arch::interrupted::Interrupted;
use crate::mm::fault_inject::NoFail;
use crate::sync::lockdep::NoSleep;
use crate::upcall;

/// Interrupt codes, and bit numbers in `sip` and `sie` (privileged manual, section 12.1.3).
mod code {
    pub const SOFTWARE: usize = 1;
    pub const TIMER: usize = 5;
    pub const EXTERNAL: usize = 9;
}

const ALL: usize = 1 << code::SOFTWARE | 1 << code::TIMER | 1 << code::EXTERNAL;

/// Enables this hart's interrupts. They are taken while a program runs, or when the kernel polls.
pub(super) fn start_cpu() {
    time::set_deadline(None);
    // SAFETY: interrupts stay masked in the kernel; the entry handles those that are taken while a
    // program runs.
    unsafe { asm!("csrw sie, {}", in(reg) ALL, options(nostack, preserves_flags)) };
}

fn pending_bits() -> usize {
    let bits: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, sip", out(reg) bits, options(nomem, nostack, preserves_flags)) };
    bits & ALL
}

/// Whether an interrupt is pending on this CPU.
#[inline]
pub fn pending() -> bool {
    pending_bits() != 0
}

/// Handles pending interrupts.
pub fn service(from: Interrupted) {
    let bits = pending_bits();
    for code in [code::SOFTWARE, code::TIMER, code::EXTERNAL] {
        if bits & 1 << code != 0 {
            handle(code, from);
        }
    }
}

/// Waits for an interrupt and handles it; may return early.
pub fn wait() {
    // SAFETY: with interrupts masked, the hart continues after the instruction (privileged manual,
    // section 3.3.3).
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
    service(Interrupted::Kernel);
}

/// Handles the interrupt with code `code` of this hart.
pub(super) fn handle(code: usize, from: Interrupted) {
    let (_no_sleep, _no_fail) = (NoSleep::begin(), NoFail::begin());
    let count = |kind| cpu::this().crossings().add(kind);
    match code {
        code::SOFTWARE => {
            count(Kind::InterruptIpi);
            smp::acknowledge();
            upcall::ipi();
        }
        code::TIMER => {
            count(Kind::InterruptTimer);
            time::set_deadline(None);
            upcall::timer_interrupt(from);
        }
        _ => {
            count(Kind::InterruptDevice);
            external::handle();
        }
    }
}

pub use external::{enable, of_node, register};
