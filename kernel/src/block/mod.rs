//! Block devices: disks and their partitions, each with a page cache of its own.
//!
//! A driver provides a [`BlockDevice`], [`volume`] makes a disk and its partitions from it, and
//! [`file`] is what open(2) returns for one of them.

mod direct;
mod extent;
pub mod file;
mod ioctl;
mod nodes;
mod partitions;
pub mod volume;

pub use volume::add_disk;

use crate::drivers::virtio_blk;
use crate::errno::Result;
use crate::mm::virtio_blk::{Part, Properties, SECTOR};
use core::ops::Range;

/// A piece of a transfer: part of a frame, and its place on the device.
pub struct Piece {
    /// The first sector.
    pub sector: u64,
    /// The memory; its length is a multiple of the sector size.
    pub part: Part,
}

impl Piece {
    /// The sector after it.
    pub fn end(&self) -> u64 {
        self.sector + (self.part.len / SECTOR) as u64
    }
}

/// A device whose sectors can be read and written in any order.
pub trait BlockDevice: Send + Sync {
    /// The device's properties.
    fn properties(&self) -> &Properties;

    /// Its serial number; empty if it has none.
    fn serial(&self) -> &[u8];

    /// Reads or writes all pieces at once, and waits until all are done.
    ///
    /// # Errors
    /// EIO: one of them failed; the state of the others is unknown. ENOMEM.
    fn transfer(&self, write: bool, pieces: &[Piece]) -> Result<()>;

    /// Discards sectors, in whole blocks: afterwards their content is undefined.
    ///
    /// # Errors
    /// EOPNOTSUPP: the device does not support it. EIO; EINTR: the thread was killed.
    fn discard(&self, sectors: Range<u64>) -> Result<()>;

    /// Fills sectors, in whole blocks, with zeroes. `unmap`: the device may release their space on
    /// the medium.
    ///
    /// # Errors
    /// The same as for `discard`.
    fn write_zeroes(&self, sectors: Range<u64>, unmap: bool) -> Result<()>;

    /// Returns when all writes that have completed before are on the medium.
    ///
    /// # Errors
    /// EIO, ENOMEM.
    fn flush(&self) -> Result<()>;
}

/// Reads the partition tables of all disks, and creates the nodes in /dev. May sleep.
pub fn init() {
    virtio_blk::identify();
    for disk in volume::all() {
        if let Err(error) = partitions::scan(&disk) {
            crate::log!("{}: partitions: {error:?}", disk.name());
        }
    }
}
