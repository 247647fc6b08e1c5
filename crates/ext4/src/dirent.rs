//! Directory blocks (Documentation/filesystems/ext4/directory.rst): a sequence of entries, with a
//! checksum at the end.

use crate::bytes::{put, put16, put32, u8_at, u16_at, u32_at};
use crate::crc::crc32c;
use crate::superblock::Geometry;
use crate::{Error, Result};

/// The size of an entry before its name in bytes.
pub const HEADER: usize = 8;
/// The size in bytes of the fake entry with a block's checksum.
pub const TAIL: usize = 12;
const TAIL_TYPE: u8 = 0xde;
/// The offset of the index information in the root, after `.` and `..`.
pub const ROOT_INFORMATION: usize = 24;
/// The offset of index entries in the root.
pub const ROOT_ENTRIES: usize = 32;
/// The offset of index entries in other nodes.
pub const NODE_ENTRIES: usize = 8;
/// The maximum length of a name.
pub const LONGEST_NAME: usize = 255;

/// An entry, whether in use or not.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its offset in the block.
    pub at: usize,
    /// Its length in the block.
    pub length: usize,
    /// Its inode, or 0 if it is not in use.
    pub inode: u32,
    /// The file type, which is not a `DT_*` of `struct dirent`: see [`dirent_type`].
    pub kind: u8,
    /// Its name.
    pub name: &'a [u8],
}

/// The minimum length of an entry with a name of this length.
pub fn needed(name: usize) -> usize {
    (HEADER + name).next_multiple_of(4)
}

/// The type in a directory entry for a mode.
pub fn type_of(mode: u16) -> u8 {
    match mode >> 12 {
        0o10 => 1,
        0o04 => 2,
        0o02 => 3,
        0o06 => 4,
        0o01 => 5,
        0o14 => 6,
        0o12 => 7,
        _ => 0,
    }
}

/// `DT_*` of getdents64(2) for the type in a directory entry.
pub fn dirent_type(kind: u8) -> u8 {
    [0, 8, 4, 2, 6, 1, 12, 10]
        .get(usize::from(kind))
        .copied()
        .unwrap_or(0)
}

fn decode_length(raw: u16, block_size: usize) -> usize {
    match usize::from(raw) {
        0 | 0xffff if block_size == 0x1_0000 => block_size,
        length => length,
    }
}

fn encode_length(length: usize) -> u16 {
    length.min(0xffff) as u16
}

/// The entry at `at`, if it is valid.
pub fn entry(block: &[u8], at: usize) -> Option<Entry<'_>> {
    if at + HEADER > block.len() {
        return None;
    }
    let length = decode_length(u16_at(block, at + 4), block.len());
    let name = usize::from(u8_at(block, at + 6));
    let fits = length >= needed(name).max(TAIL) && length.is_multiple_of(4);
    if !fits || at + length > block.len() {
        return None;
    }
    Some(Entry {
        at,
        length,
        inode: u32_at(block, at),
        kind: u8_at(block, at + 7),
        name: &block[at + HEADER..at + HEADER + name],
    })
}

/// The entries from `at` on, up to the first invalid one.
pub fn entries(block: &[u8], mut at: usize) -> impl Iterator<Item = Entry<'_>> {
    core::iter::from_fn(move || {
        let next = entry(block, at)?;
        at += next.length;
        Some(next)
    })
}

/// Stores an entry that takes `length` bytes.
pub fn set_entry(block: &mut [u8], at: usize, length: usize, inode: u32, kind: u8, name: &[u8]) {
    put32(block, at, inode);
    put16(block, at + 4, encode_length(length));
    put(block, at + 6, &[name.len() as u8, kind]);
    put(block, at + HEADER, name);
}

/// Changes the length of an entry.
pub fn set_length(block: &mut [u8], at: usize, length: usize) {
    put16(block, at + 4, encode_length(length));
}

/// Whether the block is an index node other than the root: a fake entry takes all of it.
fn is_node(block: &[u8]) -> bool {
    u32_at(block, 0) == 0 && decode_length(u16_at(block, 4), block.len()) == block.len()
}

/// The offset of the entries in an index node, if the block is one.
pub fn index_entries(block: &[u8], first: bool, indexed: bool) -> Option<usize> {
    if indexed && first {
        Some(ROOT_ENTRIES)
    } else if indexed && is_node(block) && u8_at(block, 6) == 0 {
        Some(NODE_ENTRIES)
    } else {
        None
    }
}

/// The number of entries for which an index node has room.
pub fn index_room(block_size: usize, from: usize, checksums: bool) -> usize {
    (block_size - from) / 8 - usize::from(checksums)
}

/// The number of bytes in a block for entries.
pub fn usable(geometry: &Geometry) -> usize {
    geometry.block_size - if geometry.checksums() { TAIL } else { 0 }
}

fn leaf_sum(block: &[u8], seed: u32) -> u32 {
    crc32c(seed, &block[..block.len() - TAIL])
}

/// The checksum of an index node, whose limit was checked.
fn index_sum(block: &[u8], from: usize, seed: u32) -> (usize, u32) {
    let limit = usize::from(u16_at(block, from));
    let count = usize::from(u16_at(block, from + 2));
    let tail = (from + limit * 8).min(block.len() - 8);
    let used = (from + count * 8).min(tail);
    let sum = crc32c(seed, &block[..used]);
    let sum = crc32c(crc32c(sum, &block[tail..tail + 4]), &[0; 4]);
    (tail + 4, sum)
}

/// Checks a block of a directory. `first`: it is the first block; `indexed`: the directory has an
/// index.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn check(
    block: &[u8],
    geometry: &Geometry,
    seed: u32,
    first: bool,
    indexed: bool,
) -> Result<()> {
    let index = index_entries(block, first, indexed);
    let mut end = 0;
    for entry in entries(block, 0) {
        end = entry.at + entry.length;
        // The fake entry that contains an index crosses it.
        let crosses_tail = index.is_none() && (entry.at + 1..end).contains(&usable(geometry));
        if entry.inode > geometry.inodes
            || (entry.inode != 0 && (entry.name.is_empty() || entry.name.contains(&b'/')))
            || crosses_tail
        {
            return Err(Error::Corrupt("entry of a directory"));
        }
    }
    if end != block.len() {
        return Err(Error::Corrupt("entries of a directory"));
    }
    if let Some(from) = index {
        let room = index_room(block.len(), from, geometry.checksums());
        let count = usize::from(u16_at(block, from + 2));
        if usize::from(u16_at(block, from)) != room || count == 0 || count > room {
            return Err(Error::Corrupt("index of a directory"));
        }
        let (at, sum) = index_sum(block, from, seed);
        if geometry.checksums() && u32_at(block, at) != sum {
            return Err(Error::Corrupt("checksum of a directory's index"));
        }
    } else if geometry.checksums() {
        let at = block.len() - TAIL;
        let is_tail = u32_at(block, at) == 0
            && u16_at(block, at + 4) == TAIL as u16
            && u16_at(block, at + 6) == u16::from(TAIL_TYPE) << 8;
        if !is_tail || u32_at(block, at + 8) != leaf_sum(block, seed) {
            return Err(Error::Corrupt("checksum of a directory"));
        }
    }
    Ok(())
}

/// Stores the checksum of a block with entries.
pub fn seal(block: &mut [u8], seed: u32) {
    let at = block.len() - TAIL;
    set_entry(block, at, TAIL, 0, TAIL_TYPE, &[]);
    let sum = leaf_sum(block, seed);
    put32(block, at + 8, sum);
}

/// Stores the checksum of an index node whose entries begin at `from`.
pub fn seal_index(block: &mut [u8], seed: u32, from: usize) {
    let (at, sum) = index_sum(block, from, seed);
    put32(block, at, sum);
}
