//! The partitions of a disk, as Linux finds them: GPT (UEFI 2.10, 5.3), or the PC's table with its
//! logical partitions. Every number of a table is checked against the disk.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod gpt;
mod mbr;

use alloc::vec::Vec;

/// The size of a sector, in which disks are measured, in bytes.
pub const SECTOR: usize = 512;
/// The maximum number of partitions that are read, as on Linux.
pub const MOST: u32 = 256;

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, counted from 1; numbers may have gaps.
    pub number: u32,
    /// The first sector.
    pub start: u64,
    /// The number of sectors.
    pub len: u64,
}

/// Reads bytes of a disk from a sector on.
trait Read<E>: FnMut(u64, &mut [u8]) -> Result<(), E> {}
impl<E, F: FnMut(u64, &mut [u8]) -> Result<(), E>> Read<E> for F {}

/// The partitions of a disk of `sectors` with logical blocks of `block` bytes; None if there is no
/// table. `read` reads bytes from a sector on.
///
/// # Errors
/// The errors of `read`.
pub fn read<E>(
    sectors: u64,
    block: usize,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<Partition>, E> {
    let scale = (block / SECTOR).max(1) as u64;
    // A disk that is too small for a table has none.
    if sectors < 2 * scale {
        return Ok(Vec::new());
    }
    let disk = Disk { sectors, scale };
    let Some(first) = mbr::read(&mut read, 0)? else {
        return Ok(Vec::new());
    };
    if mbr::is_protective(&first)
        && let Some(found) = gpt::read(&disk, &mut read)?
    {
        return Ok(found);
    }
    mbr::partitions(&disk, &first, &mut read)
}

/// The disk, against which tables are checked.
struct Disk {
    sectors: u64,
    /// The number of sectors in a logical block, the unit of tables.
    scale: u64,
}

impl Disk {
    /// A partition of `len` blocks from block `start` on, if it lies on the disk.
    fn partition(&self, number: u32, start: u64, len: u64) -> Option<Partition> {
        let (start, len) = (start.checked_mul(self.scale)?, len.checked_mul(self.scale)?);
        let fits = len > 0 && start.checked_add(len)? <= self.sectors;
        fits.then_some(Partition { number, start, len })
    }
}
