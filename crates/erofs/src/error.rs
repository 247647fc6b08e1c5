//! What can go wrong.

use alloc::collections::TryReserveError;

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed to read, or something lies behind its end.
    Io,
    /// There is no EROFS, or one with features that nobody knows; the text says which.
    Invalid(&'static str),
    /// The checksum of the superblock is wrong.
    Checksum,
    /// The image contradicts the format or itself; the text says where.
    Corrupt(&'static str),
    /// The image uses something that this crate does not have.
    Unsupported(&'static str),
    /// There is no memory.
    NoMemory,
    /// There is no such name or attribute.
    NotFound,
    /// A directory was expected.
    NotDirectory,
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Error::NoMemory
    }
}

/// What operations of this crate return.
pub type Result<T> = core::result::Result<T, Error>;
