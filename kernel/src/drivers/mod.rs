//! Devices and what describes them.

pub mod rtc;
pub mod virtio_console;
