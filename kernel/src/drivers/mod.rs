//! Devices and their descriptions.

pub mod rtc;
pub mod virtio_console;
