//! Errors.

use alloc::collections::TryReserveError;

/// Why an operation failed. It has changed nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed to read or write.
    Io,
    /// The image violates the format or contradicts itself; the text names the place.
    Corrupt(&'static str),
    /// The image uses a feature that this crate does not support.
    Unsupported(&'static str),
    /// There is not enough memory.
    NoMemory,
    /// There is no free block or inode.
    NoSpace,
    /// There is no such name or attribute.
    NotFound,
    /// The name or attribute is there already.
    Exists,
    /// A directory was expected.
    NotDirectory,
    /// A directory was not expected.
    IsDirectory,
    /// The directory has entries.
    NotEmpty,
    /// The name is longer than 255 bytes, or a value is too long.
    TooLong,
    /// The inode has the maximum number of names.
    TooManyLinks,
    /// The file would be larger than its map can express.
    TooLarge,
    /// The file system is mounted read-only.
    ReadOnly,
    /// An argument is invalid.
    Invalid,
    /// The operation changes more blocks than the journal can hold at once.
    JournalFull,
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Error::NoMemory
    }
}

impl From<hashbrown::TryReserveError> for Error {
    fn from(_: hashbrown::TryReserveError) -> Self {
        Error::NoMemory
    }
}

/// The result of operations.
pub type Result<T> = core::result::Result<T, Error>;
