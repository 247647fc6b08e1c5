//! Ordering of device accesses relative to memory accesses: there are no devices.

/// Orders earlier writes to memory before the next write to a device.
pub fn before_device_write() {}

/// Orders the last write to a device before later memory accesses.
pub fn after_device_write() {}

/// Orders the last read of a device before later reads.
pub fn after_device_read() {}
