//! What a file system needs of a block device.

use crate::Result;

/// A block device. Writes may reach the medium in any order until [`Device::flush`].
pub trait Device {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Reads `into.len()` bytes from byte `at`, both multiples of 1024.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes `from` at byte `at`, both multiples of 1024.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn write(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Returns when all that was written before is on the medium.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn flush(&mut self) -> Result<()>;
}
