//! A virtio device whose register and memory accesses are ordered as in the driver. The fences of
//! crate virtio-drivers order memory accesses only.

use virtio_drivers::Result;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arch::order;

/// A device's registers.
pub struct Ordered(pub(super) MmioTransport<'static>);

impl Ordered {
    fn write(&mut self, act: impl FnOnce(&mut MmioTransport<'static>)) {
        order::before_device_write();
        act(&mut self.0);
        order::after_device_write();
    }
}

fn read<T>(value: T) -> T {
    order::after_device_read();
    value
}

impl Transport for Ordered {
    fn device_type(&self) -> DeviceType {
        self.0.device_type()
    }

    fn read_device_features(&mut self) -> u64 {
        self.0.read_device_features()
    }

    fn write_driver_features(&mut self, features: u64) {
        self.0.write_driver_features(features);
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.0.max_queue_size(queue)
    }

    fn notify(&mut self, queue: u16) {
        self.write(|device| device.notify(queue));
    }

    fn get_status(&self) -> DeviceStatus {
        read(self.0.get_status())
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.write(|device| device.set_status(status));
    }

    fn set_guest_page_size(&mut self, size: u32) {
        self.0.set_guest_page_size(size);
    }

    fn requires_legacy_layout(&self) -> bool {
        self.0.requires_legacy_layout()
    }

    fn queue_set(&mut self, queue: u16, size: u32, descriptors: u64, driver: u64, device: u64) {
        self.write(|registers| registers.queue_set(queue, size, descriptors, driver, device));
    }

    fn queue_unset(&mut self, queue: u16) {
        self.write(|device| device.queue_unset(queue));
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.queue_used(queue)
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        let status = self.0.ack_interrupt();
        order::after_device_write();
        read(status)
    }

    fn read_config_generation(&self) -> u32 {
        self.0.read_config_generation()
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        self.0.read_config_space(offset)
    }

    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        offset: usize,
        value: T,
    ) -> Result<()> {
        self.0.write_config_space(offset, value)
    }
}
