//! Device drivers.

pub mod rtc;
pub mod virtio_9p;
pub mod virtio_blk;
pub mod virtio_console;
pub mod virtio_net;

use crate::arch::irq;
use crate::fdt;
use crate::mm::virtio::{Device, DeviceType};

/// Starts the virtio devices in the device tree.
pub fn init() {
    for node in fdt::find(fdt::tree(), &["virtio,mmio"]) {
        if let (Some(interrupt), Some(range)) = (irq::of_node(&node), fdt::regions(node).next())
            && let Some(device) = Device::find(range.start, range.len())
        {
            match device.device_type() {
                DeviceType::Console => virtio_console::start(device, interrupt),
                DeviceType::_9P => virtio_9p::start(device, interrupt),
                DeviceType::Block => virtio_blk::start(device, interrupt),
                DeviceType::Network => virtio_net::start(device, interrupt),
                _ => {}
            }
        }
    }
}
