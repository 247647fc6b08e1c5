//! Interrupts of this hart: software (other CPUs), timer, and external (devices). They are masked
//! whenever the kernel runs, so what is pending is asked for.

use core::arch::asm;

use crossings::Kind;

use super::{cpu, external, smp, time};
pub use crate::arch::interrupted::Interrupted;
use crate::sync::lockdep::NoSleep;
use crate::upcall;

/// Interrupt codes, and bit numbers in `sip` and `sie` (privileged manual, section 12.1.3).
mod code {
    pub const SOFTWARE: usize = 1;
    pub const TIMER: usize = 5;
    pub const EXTERNAL: usize = 9;
}

const ALL: usize = 1 << code::SOFTWARE | 1 << code::TIMER | 1 << code::EXTERNAL;

/// Lets this hart's interrupts through. They are taken when a program runs, or when the kernel
/// asks.
pub(super) fn start_cpu() {
    time::set_deadline(None);
    // SAFETY: interrupts stay masked in the kernel; the entry handles those that come while a
    // program runs.
    unsafe { asm!("csrw sie, {}", in(reg) ALL, options(nostack, preserves_flags)) };
}

fn pending_bits() -> usize {
    let bits: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, sip", out(reg) bits, options(nomem, nostack, preserves_flags)) };
    bits & ALL
}

/// Whether an interrupt waits for this CPU.
#[inline]
pub fn pending() -> bool {
    pending_bits() != 0
}

/// Handles what is pending.
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
    // SAFETY: with interrupts masked the hart goes on where it waited (privileged manual, section
    // 3.3.3).
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
    service(Interrupted::Kernel);
}

/// Handles the interrupt `code` of this hart.
pub(super) fn handle(code: usize, from: Interrupted) {
    let _no_sleep = NoSleep::begin();
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
