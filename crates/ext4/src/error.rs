//! Errors.

use alloc::collections::TryReserveError;

/// Why an operation was not done. Nothing of it has been changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed to read or write.
    Io,
    /// The image contradicts the format or itself; the text says where.
    Corrupt(&'static str),
    /// The image uses a feature that this crate does not have.
    Unsupported(&'static str),
    /// There is no memory.
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
    /// The name is longer than 255 bytes, or a value than fits.
    TooLong,
    /// The inode has as many names as it can have.
    TooManyLinks,
    /// The file would be larger than its map can say.
    TooLarge,
    /// The file system is mounted read-only.
    ReadOnly,
    /// An argument makes no sense.
    Invalid,
    /// One operation changes more blocks than the journal can take at once.
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

/// What operations of this crate return.
pub type Result<T> = core::result::Result<T, Error>;
