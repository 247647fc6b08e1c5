//! Markers for a counter outside the machine: instructions that change nothing but carry a tag,
//! which the emulator's plugin sees.

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

/// Nothing counts on other machines.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
macro_rules! marker {
    ($tag:literal) => {
        "nop"
    };
}

macro_rules! start {
    ($job:expr; $($number:literal)*; $last:literal) => {
        match $job {
            // SAFETY: a marker changes nothing.
            $($number => unsafe { asm!(marker!($number), options(nomem, nostack)) },)*
            // SAFETY: as above.
            _ => unsafe { asm!(marker!($last), options(nomem, nostack)) },
        }
    };
}

/// The program of a job starts; the first has the number 1, which is its tag. From the eighth on
/// they have one in common.
pub fn start(job: usize) {
    start!(job; 1 2 3 4 5 6 7; 8);
}

/// It has ended.
pub fn end() {
    // SAFETY: a marker changes nothing.
    unsafe { asm!(marker!(0), options(nomem, nostack)) };
}
