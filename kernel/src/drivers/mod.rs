//! Devices and what describes them.

pub mod fdt;
pub mod rtc;
pub mod uart;
pub mod virtio_console;
