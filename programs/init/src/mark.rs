//! Markers for a counter outside the machine: instructions that have no effect but carry a tag,
//! which QEMU's plugin sees.

use std::arch::asm;

#[cfg(target_arch = "aarch64")]
macro_rules! marker {
    ($tag:literal) => {
        concat!("movz xzr, #", $tag)
    };
}

#[cfg(target_arch = "riscv64")]
macro_rules! marker {
    ($tag:literal) => {
        concat!("slti x0, x0, ", $tag)
    };
}

/// Other machines have no counter.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
macro_rules! marker {
    ($tag:literal) => {
        "nop"
    };
}

macro_rules! start {
    ($job:expr; $($number:literal)*; $last:literal) => {
        match $job {
            // SAFETY: a marker has no effect.
            $($number => unsafe { asm!(marker!($number), options(nomem, nostack)) },)*
            // SAFETY: as above.
            _ => unsafe { asm!(marker!($last), options(nomem, nostack)) },
        }
    };
}

/// Marks the start of a job's program. Jobs are numbered from 1, and the number is the tag; from
/// the eighth on they share one tag.
pub fn start(job: usize) {
    start!(job; 1 2 3 4 5 6 7; 8);
}

/// Marks the end of a job's program.
pub fn end() {
    // SAFETY: a marker has no effect.
    unsafe { asm!(marker!(0), options(nomem, nostack)) };
}
