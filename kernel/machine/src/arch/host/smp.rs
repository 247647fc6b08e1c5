//! Secondary CPUs: there are none.

use crossings::Kind;

use super::cpu;

/// Sends an IPI to a CPU, which is this one: it looks for work before its program continues anyway.
pub fn kick(_index: usize) {
    cpu::this().crossings().add(Kind::InterruptIpi);
}

/// Lets the secondary CPUs run threads.
pub fn start_others() {}
