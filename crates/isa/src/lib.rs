//! RISC-V extensions from a device tree: those of each hart, of the system, and for programs.
//!
//! A hart's node lists its extensions in one of two ways (Linux,
//! `Documentation/devicetree/bindings/riscv/extensions.yaml`): a list of names,
//! `riscv,isa-extensions` ([`Hart::from_list`]), or the older string `riscv,isa`
//! ([`Hart::from_string`]). The system has the extensions that every hart has
//! ([`Extensions::and`]). Programs see those that the kernel also makes
//! [usable](Extensions::usable), in `AT_HWCAP`, `/proc/cpuinfo` and [`hwprobe`].
#![no_std]
#![forbid(unsafe_code)]

mod extension;
mod hart;
pub mod hwprobe;
mod set;

pub use extension::Extension;
pub use hart::{Hart, Malformed};
pub use set::{Extensions, Usable};
