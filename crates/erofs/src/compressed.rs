//! Compressed files: their data is cut into clusters of at most 8000 KiB, each of which is
//! compressed for itself and begins with a block of the device.

use alloc::vec::Vec;

use zerocopy::little_endian::U16;

use crate::format::{Incompatible, MapHeader};
use crate::fs::zeroes;
use crate::index::{Index, Kind};
use crate::inode::Compressed;
use crate::{Device, Error, Extent, Fs, Inode, Place, Result};

/// Bytes of a cluster at most, compressed and not. The latter is as many as mkfs.erofs puts into
/// one; Linux reads up to 12 MiB.
const MOST_COMPRESSED: u64 = 1 << 20;
const MOST: u64 = 8000 << 10;
/// LZ4 makes no more bytes of one than this.
const MOST_OF_ONE: u64 = 256;

/// Flags of a file: compact indexes of two bytes, clusters of several blocks of each kind.
const BIG: [u16; 2] = [0x2, 0x4];
/// Those of which this crate does not know what they mean: an end beside the inode, or in another.
const UNKNOWN: u16 = !(0x1 | BIG[0] | BIG[1]);

/// A compressed part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Where it begins on the device.
    at: u64,
    /// How many bytes it has there.
    compressed: u32,
    /// How many bytes it has.
    size: u32,
    /// Whether it is compressed.
    packed: bool,
}

impl Cluster {
    /// How many bytes it has, decompressed.
    pub fn size(&self) -> usize {
        self.size as usize
    }
}

impl<D: Device> Fs<D> {
    /// Reads how a file is compressed, from what follows its inode.
    pub(crate) fn read_compressed(&self, tail: u64, compact: bool) -> Result<Compressed> {
        if !self
            .geometry
            .incompatible
            .contains(Incompatible::ZERO_PADDING)
        {
            return Err(Error::Unsupported("compression without padding"));
        }
        let header = tail.next_multiple_of(8);
        let map: MapHeader = self.load(header)?;
        let flags = map.flags.get();
        if flags & UNKNOWN != 0 || map.cluster_bits & 0x80 != 0 {
            return Err(Error::Unsupported("ends of compressed files"));
        }
        // Both kinds of clusters are of LZ4, whose number is 0.
        if map.algorithms != 0 {
            return Err(Error::Unsupported("algorithm of compression"));
        }
        let big = BIG.map(|flag| flags & flag != 0);
        let configured = Incompatible::CONFIGURATIONS;
        if big != [false; 2] && !self.geometry.incompatible.contains(configured)
            || compact && big[0] != big[1]
        {
            return Err(Error::Corrupt("large clusters"));
        }
        Ok(Compressed {
            compact,
            short: flags & 1 != 0,
            big,
            bits: self.geometry.block_bits + u32::from(map.cluster_bits & 0xf),
            indexes: header + size_of::<MapHeader>() as u64,
        })
    }

    /// Finds the cluster of byte `at`.
    pub(crate) fn map_cluster(&self, inode: &Inode, at: u64, map: &Compressed) -> Result<Extent> {
        let (number, head) = self.head(inode, at, map)?;
        let start = (number << map.bits) + u64::from(head.offset);
        let end = self.end(inode, number, map)?;
        if end <= at {
            return Err(Error::Corrupt("order of clusters"));
        }
        if end - start > MOST {
            return Err(Error::Unsupported("size of a cluster"));
        }
        let blocks = self.compressed_blocks(inode, number, &head, map)?;
        let compressed = u64::from(blocks) << self.geometry.block_bits;
        if compressed > MOST_COMPRESSED {
            return Err(Error::Unsupported("size of a cluster"));
        }
        let packed = head.kind != Kind::Plain;
        if packed && !self.has_lz4() {
            return Err(Error::Corrupt("algorithm of compression"));
        }
        let most = if packed { MOST_OF_ONE } else { 1 };
        if end - start > compressed * most {
            return Err(Error::Corrupt("size of a cluster"));
        }
        Ok(Extent {
            length: end - at,
            place: Place::Cluster(
                Cluster {
                    at: self.geometry.byte_of(head.block),
                    compressed: compressed as u32,
                    size: (end - start) as u32,
                    packed,
                },
                (at - start) as usize,
            ),
        })
    }

    /// The first index of the cluster of byte `at`, and its number.
    fn head(&self, inode: &Inode, at: u64, map: &Compressed) -> Result<(u64, Index)> {
        let first = at >> map.bits;
        let mut index = self.index(inode, first, map)?;
        let mut number = first;
        if index.kind != Kind::NotHead && at & ((1 << map.bits) - 1) < u64::from(index.offset) {
            // The cluster before it goes on up to there.
            index.kind = Kind::NotHead;
            index.back = 1;
        }
        while index.kind == Kind::NotHead {
            let back = u64::from(index.back);
            number = match number.checked_sub(back) {
                Some(before) if back > 0 => before,
                _ => return Err(Error::Corrupt("distance to a cluster")),
            };
            if (first - number) << map.bits > MOST {
                return Err(Error::Unsupported("size of a cluster"));
            }
            index = self.index(inode, number, map)?;
        }
        match index.shared {
            true => Err(Error::Unsupported("shared parts of clusters")),
            false => Ok((number, index)),
        }
    }

    /// Where a cluster ends: where the next one begins, or with the file.
    fn end(&self, inode: &Inode, head: u64, map: &Compressed) -> Result<u64> {
        let mut number = head + 1;
        while number << map.bits < inode.size() {
            if (number - head) << map.bits > MOST {
                return Err(Error::Unsupported("size of a cluster"));
            }
            let index = self.index(inode, number, map)?;
            if index.kind != Kind::NotHead {
                let end = (number << map.bits) + u64::from(index.offset);
                return Ok(end.min(inode.size()));
            }
            // Old programs have written 0.
            number += u64::from(index.forth.max(1));
        }
        Ok(inode.size())
    }

    /// How many blocks a cluster has, which the index after its first says.
    fn compressed_blocks(
        &self,
        inode: &Inode,
        head: u64,
        index: &Index,
        map: &Compressed,
    ) -> Result<u32> {
        let big = map.big[usize::from(index.kind != Kind::Head1)];
        if !big || (head + 1) << map.bits >= inode.size() {
            return Ok(1);
        }
        let next = self.index(inode, head + 1, map)?;
        match next.kind {
            Kind::NotHead if next.back != 1 => Err(Error::Corrupt("blocks of a cluster")),
            Kind::NotHead => Ok(next.blocks.max(1)),
            _ => Ok(1),
        }
    }

    /// Reads a cluster as it is on the device.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`].
    pub fn read_cluster(&self, cluster: &Cluster) -> Result<Vec<u8>> {
        let mut packed = zeroes(cluster.compressed as usize)?;
        self.read_device(cluster.at, &mut packed)?;
        Ok(packed)
    }

    /// Decompresses a cluster that was read, in place of what is in `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NoMemory`]. What `bytes` has then is unspecified.
    pub fn decompress(&self, cluster: &Cluster, packed: &[u8], bytes: &mut Vec<u8>) -> Result<()> {
        bytes.try_reserve_exact(cluster.size().saturating_sub(bytes.len()))?;
        bytes.resize(cluster.size(), 0);
        if !cluster.packed {
            bytes.copy_from_slice(&packed[..cluster.size()]);
            return Ok(());
        }
        // What is compressed ends with the last block.
        let first = &packed[..packed.len().min(self.geometry.block_size())];
        let start = first.iter().position(|byte| *byte != 0);
        let start = start.ok_or(Error::Corrupt("compressed data"))?;
        match lz4_flex::block::decompress_into(&packed[start..], bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            _ => Err(Error::Corrupt("compressed data")),
        }
    }

    /// Whether clusters may be compressed by LZ4, whose bit is the first.
    fn has_lz4(&self) -> bool {
        let configured = Incompatible::CONFIGURATIONS;
        let algorithms = self.geometry.superblock.algorithms.get();
        !self.geometry.incompatible.contains(configured) || algorithms & 1 != 0
    }

    /// Checks the configurations of algorithms, which follow the superblock.
    pub(crate) fn check_algorithms(&self) -> Result<()> {
        let superblock = &self.geometry.superblock;
        let algorithms = superblock.algorithms.get();
        let configured = Incompatible::CONFIGURATIONS;
        if !self.geometry.incompatible.contains(configured) || algorithms == 0 {
            return Ok(());
        }
        // LZ4 alone.
        if algorithms != 1 {
            return Err(Error::Unsupported("algorithm of compression"));
        }
        let extension = u64::from(superblock.extension_slots) * 16;
        let at = crate::format::SUPERBLOCK + 128 + extension;
        let [length, _, most]: [U16; 3] = self.load(at)?;
        let blocks = MOST_COMPRESSED >> self.geometry.block_bits;
        match length.get() {
            1..14 => Err(Error::Invalid("configuration of LZ4")),
            _ if u64::from(most.get()) > blocks => Err(Error::Invalid("blocks of a cluster")),
            _ => Ok(()),
        }
    }
}
