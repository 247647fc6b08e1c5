//! The machine layer below the upper kernel: CPUs, memory, locks and the console. It contains all
//! of the kernel's `unsafe` code.
#![no_std]
#![allow(clippy::disallowed_methods, reason = "it leaks what stays for ever")]

extern crate alloc;

pub mod arch;
pub mod backtrace;
pub mod errno;
pub mod fdt;
pub mod kallsyms;
pub mod log;
pub mod mm;
pub mod panic;
pub mod params;
pub mod random;
pub mod selftest;
pub mod sync;
pub mod uart;
pub mod upcall;
