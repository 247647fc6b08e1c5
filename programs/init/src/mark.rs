//! Markers for who counts from outside: instructions that change nothing but carry a tag, which the emulator's plugin
//! sees.

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

/// A job's program starts.
pub fn start() {
    // SAFETY: a marker changes nothing.
    unsafe { asm!(marker!(1), options(nomem, nostack)) };
}

/// It has ended.
pub fn end() {
    // SAFETY: a marker changes nothing.
    unsafe { asm!(marker!(0), options(nomem, nostack)) };
}
