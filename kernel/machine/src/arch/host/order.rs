//! Accesses to devices among those to memory: there are no devices.

/// What was written to memory goes before the next write to a device.
pub fn before_device_write() {}

/// The last write to a device goes before what memory is used for next.
pub fn after_device_write() {}

/// The last read of a device goes before what is read next.
pub fn after_device_read() {}
