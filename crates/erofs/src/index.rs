//! The indexes of a compressed file: one for each part of it that has the size of a block, or
//! several. The first of a cluster says where that begins, the others how far away its first is.

use crate::format::ClusterIndex;
use crate::inode::Compressed;
use crate::{Device, Error, Fs, Inode, Result};

/// The bit of a distance that makes it a number of blocks.
const BLOCKS: u32 = 1 << 11;

/// What an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first of a cluster that is not compressed.
    Plain,
    /// The first of a compressed one.
    Head1,
    /// Another.
    NotHead,
    /// The first of one that is compressed otherwise.
    Head2,
}

impl Kind {
    fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Kind::Plain,
            1 => Kind::Head1,
            2 => Kind::NotHead,
            _ => Kind::Head2,
        }
    }
}

/// An index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub kind: Kind,
    /// Of the first: where in this part its cluster begins.
    pub offset: u32,
    /// Of the first: the cluster's block.
    pub block: u32,
    /// Of the first: whether only a part of what it decompresses to is meant.
    pub shared: bool,
    /// Of another: how many parts before it the first is; and how many after it the next.
    pub back: u32,
    /// As above; may be 0.
    pub forth: u32,
    /// Of the second: how many blocks the cluster has, or 0.
    pub blocks: u32,
}

impl Index {
    fn head(kind: Kind, offset: u32, block: u32, shared: bool) -> Self {
        Self {
            kind,
            offset,
            block,
            shared,
            back: 0,
            forth: 0,
            blocks: 0,
        }
    }

    fn other(back: u32, forth: u32, big: bool) -> Result<Self> {
        let counts = back & BLOCKS != 0;
        if counts && !big {
            return Err(Error::Corrupt("blocks of a cluster"));
        }
        Ok(Self {
            kind: Kind::NotHead,
            offset: 0,
            block: 0,
            shared: false,
            back: if counts { 1 } else { back },
            forth,
            blocks: if counts { back & !BLOCKS } else { 0 },
        })
    }
}

/// Indexes that share a block number, as compact ones do: each has a type and a number of few bits.
struct Pack {
    bytes: [u8; 32],
    /// Its bytes, and how many indexes it has.
    length: usize,
    count: usize,
    /// Bits of a number.
    bits: u32,
}

impl Pack {
    /// The type and the number of an index.
    fn get(&self, at: usize) -> (Kind, u32) {
        let each = (self.length - 4) * 8 / self.count;
        let bit = each * at;
        let mut word = [0; 4];
        let start = bit / 8;
        let end = (start + 4).min(self.bytes.len());
        word[..end - start].copy_from_slice(&self.bytes[start..end]);
        let value = u32::from_le_bytes(word) >> (bit % 8);
        (Kind::of(value >> self.bits), value & ((1 << self.bits) - 1))
    }

    /// The block number that they share.
    fn base(&self) -> u32 {
        let end = self.length;
        let word = [0, 1, 2, 3].map(|byte| self.bytes[end - 4 + byte]);
        u32::from_le_bytes(word)
    }

    /// How many parts after an index the next first one is.
    fn forth(&self, at: usize) -> u32 {
        let next = (at..self.count).find(|&at| self.get(at).0 != Kind::NotHead);
        if let Some(next) = next {
            return (next - at) as u32;
        }
        // The last has the distance to the next in place of that to its own.
        let last = self.get(self.count - 1).1;
        let to_end = (self.count - at) as u32;
        match last & BLOCKS {
            0 => to_end + last.saturating_sub(1),
            _ => to_end,
        }
    }

    /// How many parts before an index the first of its cluster is.
    fn back(&self, at: usize) -> u32 {
        let own = self.get(at).1;
        if at + 1 != self.count || own & BLOCKS != 0 {
            return own;
        }
        match at.checked_sub(1).map(|before| self.get(before)) {
            Some((Kind::NotHead, before)) if before & BLOCKS != 0 => 2,
            Some((Kind::NotHead, before)) => before + 1,
            _ => 1,
        }
    }

    /// How many blocks the clusters before index `at` have that begin in this pack, where each may
    /// have several.
    fn blocks_before(&self, at: usize, big: bool) -> Result<u32> {
        let (mut at, mut blocks) = (at as i64, u32::from(!big));
        while at > 0 {
            at -= 1;
            let (kind, number) = self.get(at as usize);
            if kind != Kind::NotHead {
                blocks += 1;
            } else if !big {
                at -= i64::from(number);
                blocks += u32::from(at >= 0);
            } else if number & BLOCKS != 0 {
                at -= 1;
                blocks += number & !BLOCKS;
            } else if number > 1 {
                at -= i64::from(number) - 2;
            } else {
                return Err(Error::Corrupt("distance to a cluster"));
            }
        }
        Ok(blocks)
    }
}

impl<D: Device> Fs<D> {
    /// The index of part `number` of a file.
    pub(crate) fn index(&self, inode: &Inode, number: u64, map: &Compressed) -> Result<Index> {
        let index = match map.compact {
            true => self.compact_index(inode, number, map)?,
            false => self.full_index(number, map)?,
        };
        match index.offset >> map.bits {
            0 => Ok(index),
            _ => Err(Error::Corrupt("beginning of a cluster")),
        }
    }

    fn full_index(&self, number: u64, map: &Compressed) -> Result<Index> {
        // Eight bytes are left out before them.
        let at = number.saturating_mul(8).saturating_add(map.indexes + 8);
        let raw: ClusterIndex = self.load(at)?;
        let (advise, place) = (u32::from(raw.advise.get()), raw.place.get());
        match Kind::of(advise) {
            Kind::NotHead => Index::other(place & 0xffff, place >> 16, map.big != [false; 2]),
            kind => {
                let offset = u32::from(raw.offset.get());
                Ok(Index::head(kind, offset, place, advise >> 15 != 0))
            }
        }
    }

    fn compact_index(&self, inode: &Inode, number: u64, map: &Compressed) -> Result<Index> {
        let total = inode.size().div_ceil(self.geometry.block_size() as u64);
        if number >= total || map.bits > 14 {
            return Err(Error::Corrupt("number of an index"));
        }
        let (at, pack) = place(number, total, map)?;
        let start = at - at % pack as u64;
        let mut pack = Pack {
            bytes: [0; 32],
            length: pack,
            count: if pack == 8 { 2 } else { 16 },
            bits: map.bits.max(12),
        };
        self.read_device(start, &mut pack.bytes[..pack.length])?;
        let index = (at - start) as usize / (pack.length / pack.count);
        let (kind, own) = pack.get(index);
        if kind == Kind::NotHead {
            return Index::other(pack.back(index), pack.forth(index), map.big[0]);
        }
        let before = pack.blocks_before(index, map.big[0])?;
        Ok(Index::head(
            kind,
            own,
            pack.base().wrapping_add(before),
            false,
        ))
    }
}

/// Where a compact index is, and how many bytes its pack has: some of four bytes each, up to a
/// multiple of 32, then such of two, and the rest of four again.
fn place(number: u64, total: u64, map: &Compressed) -> Result<(u64, usize)> {
    let first = (32 - map.indexes % 32) / 4 % 8;
    let short = match map.short && first < total {
        true => (total - first) / 16 * 16,
        false => 0,
    };
    let Some(after) = number.checked_sub(first) else {
        return Ok((map.indexes + number * 4, 8));
    };
    let start = map.indexes + first * 4;
    match after.checked_sub(short) {
        Some(rest) => Ok((start + short * 2 + rest * 4, 8)),
        None if map.bits > 12 => Err(Error::Unsupported("compact indexes")),
        None => Ok((start + after * 2, 32)),
    }
}
