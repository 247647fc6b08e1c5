//! Other CPUs: there are none.

use crossings::Kind;

use super::cpu;

/// Interrupts a CPU, which would be this one: it looks for work before its program goes on anyway.
pub fn kick(_index: usize) {
    cpu::this().crossings().add(Kind::InterruptIpi);
}

/// Lets the other CPUs run threads.
pub fn start_others() {}
