//! Where the data of an inode is.

use alloc::vec::Vec;

use zerocopy::little_endian::U32;

use crate::format::{ChunkIndex, NO_BLOCK};
use crate::inode::{Chunks, Layout};
use crate::{Cluster, Device, Error, Fs, Inode, Result};

/// A part of an inode's data, from a byte that was asked for on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its bytes, at least one; it may go beyond the end of the data, to that of a block.
    pub length: u64,
    /// Where they are.
    pub place: Place,
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: they are zeroes.
    Hole,
    /// From this byte of the device on. Where a block was asked for, it is whole blocks.
    Device(u64),
    /// From this byte of the device on, among inodes.
    Inline(u64),
    /// From a byte on of what a cluster is, decompressed ([`Fs::decompress`]).
    Cluster(Cluster, usize),
}

impl Extent {
    /// What is left of it behind its first `skipped` bytes, which are fewer than it has.
    pub fn rest(&self, skipped: u64) -> Self {
        Self {
            length: self.length - skipped,
            place: match self.place {
                Place::Hole => Place::Hole,
                Place::Device(at) => Place::Device(at + skipped),
                Place::Inline(at) => Place::Inline(at + skipped),
                Place::Cluster(cluster, at) => Place::Cluster(cluster, at + skipped as usize),
            },
        }
    }
}

impl<D: Device> Fs<D> {
    /// Finds byte `at` of an inode's data. Behind its end there is a hole.
    ///
    /// # Errors
    /// [`Error::Io`]: it would be behind the end of the device. [`Error::Corrupt`],
    /// [`Error::NoMemory`].
    pub fn map(&self, inode: &Inode, at: u64) -> Result<Extent> {
        if at >= inode.size() {
            return Ok(Extent {
                length: u64::MAX - at,
                place: Place::Hole,
            });
        }
        let extent = match inode.layout {
            Layout::Flat(block) => self.map_flat(inode, at, block, 0)?,
            Layout::Inline(block) => self.map_flat(inode, at, block, 1)?,
            Layout::Chunks(chunks) => self.map_chunk(inode, at, chunks)?,
            Layout::Compressed(map) => self.map_cluster(inode, at, &map)?,
        };
        self.check_end(extent)
    }

    /// Of successive blocks, whose last ones (`inlined`) are behind the inode.
    fn map_flat(&self, inode: &Inode, at: u64, block: u32, inlined: u64) -> Result<Extent> {
        let size = self.geometry.block_size() as u64;
        let end = (inode.size().div_ceil(size) - inlined) * size;
        if at < end {
            return Ok(Extent {
                length: end - at,
                place: Place::Device(self.geometry.byte_of(block) + at),
            });
        }
        let (place, length) = (inode.tail() + at % size, inode.size() - at);
        if place % size + length > size {
            return Err(Error::Corrupt("inline data that crosses a block"));
        }
        Ok(Extent {
            length,
            place: Place::Inline(place),
        })
    }

    fn map_chunk(&self, inode: &Inode, at: u64, chunks: Chunks) -> Result<Extent> {
        let number = at >> chunks.bits;
        let (start, inside) = match chunks.indexed {
            true => {
                let index: ChunkIndex = self.load(entry(inode, number, 8))?;
                let device = usize::from(index.device.get()) & self.device_mask();
                (self.place(index.block.get(), device)?, at & mask(chunks))
            }
            false => {
                let block: U32 = self.load(entry(inode, number, 4))?;
                (self.place(block.get(), 0)?, at & mask(chunks))
            }
        };
        let size = self.geometry.block_size() as u64;
        let rest = inode.size().next_multiple_of(size) - at;
        Ok(Extent {
            length: rest.min((1 << chunks.bits) - inside),
            place: match start {
                Some(start) => Place::Device(start + inside),
                None => Place::Hole,
            },
        })
    }

    /// The bits of a chunk's device that count.
    fn device_mask(&self) -> usize {
        match self.geometry.devices.len() {
            0 => 0,
            count => (count + 1).next_power_of_two() - 1,
        }
    }

    /// The byte of a block on one of the devices, or `None` of a hole.
    fn place(&self, block: u32, device: usize) -> Result<Option<u64>> {
        if block == NO_BLOCK {
            return Ok(None);
        }
        let base = match device.checked_sub(1) {
            Some(index) => {
                let mapped = self.geometry.devices.get(index);
                *mapped.ok_or(Error::Corrupt("number of a device"))?
            }
            None => 0,
        };
        let (base, start) = (self.geometry.byte_of(base), self.geometry.byte_of(block));
        Ok(Some(base + start))
    }

    /// Cuts an extent off at the end of the device.
    fn check_end(&self, mut extent: Extent) -> Result<Extent> {
        if let Place::Device(start) = extent.place {
            let rest = self.device.size().saturating_sub(start);
            if rest == 0 {
                return Err(Error::Io);
            }
            extent.length = extent.length.min(rest);
        }
        Ok(extent)
    }

    /// Reads the first bytes of an extent.
    pub(crate) fn read_extent(&self, extent: &Extent, into: &mut [u8]) -> Result<()> {
        match extent.place {
            Place::Hole => {
                into.fill(0);
                Ok(())
            }
            Place::Device(at) | Place::Inline(at) => self.read_device(at, into),
            Place::Cluster(cluster, at) => {
                let mut bytes = Vec::new();
                self.decompress(&cluster, &self.read_cluster(&cluster)?, &mut bytes)?;
                into.copy_from_slice(&bytes[at..at + into.len()]);
                Ok(())
            }
        }
    }
}

/// The byte where the entry of a chunk is, of `unit` bytes.
fn entry(inode: &Inode, number: u64, unit: u64) -> u64 {
    let first = inode.tail().next_multiple_of(unit);
    first.saturating_add(number.saturating_mul(unit))
}

fn mask(chunks: Chunks) -> u64 {
    (1 << chunks.bits) - 1
}
