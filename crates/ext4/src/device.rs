//! The interface of a block device that a file system needs.

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
    /// [`crate::Error::Io`]; [`crate::Error::NoMemory`]: of one block nothing is written.
    fn write(&mut self, at: u64, from: &[u8]) -> Result<()>;

    /// Writes several parts, each at its byte: in any order, and side by side where it can.
    ///
    /// # Errors
    /// Those of [`Device::write`].
    fn write_all(&mut self, parts: &[(u64, &[u8])]) -> Result<()> {
        parts
            .iter()
            .try_for_each(|(at, from)| self.write(*at, from))
    }

    /// Called between operations of a long work, so that others get their turn.
    fn pause(&mut self) {}

    /// Returns when all that was written before is on the medium.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; no lack of memory.
    fn flush(&mut self) -> Result<()>;
}
