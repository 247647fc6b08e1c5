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

/// Data of a transfer: part of a frame, and where it is on the device.
pub struct Piece {
    /// The first sector.
    pub sector: u64,
    /// The memory, a multiple of sectors.
    pub part: Part,
}

impl Piece {
    /// The sector after it.
    pub fn end(&self) -> u64 {
        self.sector + (self.part.len / SECTOR) as u64
    }
}

/// A device of sectors that are read and written at any place.
pub trait BlockDevice: Send + Sync {
    /// What it is.
    fn properties(&self) -> &Properties;

    /// Its serial number; empty where it has none.
    fn serial(&self) -> &[u8];

    /// Reads or writes pieces, all at once, and waits until all are done.
    ///
    /// # Errors
    /// EIO: one of them failed, and then nothing is known of the others. ENOMEM.
    fn transfer(&self, write: bool, pieces: &[Piece]) -> Result<()>;

    /// Forgets sectors, a multiple of blocks: what they hold from now on is the device's to choose.
    ///
    /// # Errors
    /// EOPNOTSUPP: the device does not do that. EIO; EINTR: the thread must die.
    fn discard(&self, sectors: Range<u64>) -> Result<()>;

    /// Fills sectors, a multiple of blocks, with zeroes; `unmap`: the device may give up their
    /// place on the medium.
    ///
    /// # Errors
    /// Those of `discard`.
    fn write_zeroes(&self, sectors: Range<u64>, unmap: bool) -> Result<()>;

    /// Returns when all writes that returned before are on the medium.
    ///
    /// # Errors
    /// EIO, ENOMEM.
    fn flush(&self) -> Result<()>;
}

/// Looks for partitions of all disks, and makes the nodes in /dev. May sleep.
pub fn init() {
    virtio_blk::identify();
    for disk in volume::all() {
        if let Err(error) = partitions::scan(&disk) {
            crate::log!("{}: partitions: {error:?}", disk.name());
        }
    }
}
