//! What a file system needs of a block device.

use crate::Result;

/// A block device. It may be read by several at once.
pub trait Device {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Reads `into.len()` bytes from byte `at`, all of them before [`Device::size`].
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::NoMemory`].
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
}
