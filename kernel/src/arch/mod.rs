//! The border between the kernel and its hardware: the architectures offer the same names.

pub mod branch;
pub mod cell;
pub mod mmio;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;
