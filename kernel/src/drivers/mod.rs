//! Devices and what describes them.

pub mod fdt;
pub mod uart;
