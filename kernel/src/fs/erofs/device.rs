//! The disk of a file system, for what is read by bytes: through its page cache.

use crate::block::volume::Volume;
use crate::errno::Errno;
use alloc::sync::Arc;
use erofs::{Device, Error, Result};

/// A disk or partition.
pub struct Disk(pub Arc<Volume>);

impl Device for Disk {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let read = self.0.mapping().read_bytes(at, into);
        read.map_err(|errno| match errno {
            Errno::ENOMEM => Error::NoMemory,
            _ => Error::Io,
        })
    }
}
