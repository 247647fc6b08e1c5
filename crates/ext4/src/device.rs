//! The interface to the block device of a file system.

use crate::Result;

/// A block device. Writes may reach the medium in any order until [`Device::flush`].
pub trait Device {
    /// Its size in bytes.
    fn size(&self) -> u64;

    /// Reads `into.len()` bytes from byte `at`, both multiples of 1024.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::NoMemory`].
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes `from` at byte `at`, both multiples of 1024.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; [`crate::Error::NoMemory`]: if it is one block, nothing was written.
    fn write(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Writes several parts, each at its byte address, in any order, and concurrently if possible.
    ///
    /// # Errors
    /// Those of [`Device::write`].
    fn write_all(&mut self, parts: &[(u64, &[u8])]) -> Result<()> {
        parts
            .iter()
            .try_for_each(|(at, from)| self.write(*at, from))
    }

    /// Called between the steps of long operations, so that others can run.
    fn pause(&mut self) {}

    /// Returns when everything written before is on the medium.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; it must not fail for lack of memory.
    fn flush(&mut self) -> Result<()>;
}
