//! Reads extent trees (Documentation/filesystems/ext4/ifork.rst).

use alloc::vec::Vec;

use crate::bytes::{push, put16, put32, u16_at, u32_at};
use crate::inode::Inode;
use crate::seal::is_sealed_node;
use crate::store::Kind;
use crate::superblock::Geometry;
use crate::zones::Zones;
use crate::{Device, Error, Fs, Result};

pub(crate) const MAGIC: u16 = 0xf30a;
/// The maximum number of levels below the root of a tree.
pub(crate) const MOST_DEPTH: u16 = 5;
/// The size of a header and of an entry in bytes.
pub(crate) const ENTRY: usize = 12;
/// Added to the length of an extent that is not written yet.
const UNWRITTEN: u16 = 0x8000;
/// The maximum number of blocks in a written extent.
pub(crate) const LONGEST: u32 = 0x8000;
/// The maximum number of blocks in an extent that is not written yet.
pub(crate) const LONGEST_UNWRITTEN: u32 = 0x7fff;

/// Consecutive blocks of a file that are consecutive on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block in the file.
    pub logical: u32,
    /// The number of blocks.
    pub length: u32,
    /// The first block on disk.
    pub physical: u64,
    /// Whether the blocks have content; if not, they read as zeroes.
    pub written: bool,
}

impl Extent {
    /// The first block after it.
    pub fn end(&self) -> u32 {
        self.logical + self.length
    }
}

/// A node: the root in the inode, or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Root,
    Block(u64),
}

/// A node on the path from the root, and the entry that was followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub node: Node,
    pub entry: usize,
}

/// The number of entries in a node.
pub(crate) fn entries(node: &[u8]) -> usize {
    usize::from(u16_at(node, 2))
}

/// The number of entries for which a node has room.
pub(crate) fn room(node: &[u8]) -> usize {
    usize::from(u16_at(node, 4))
}

/// The number of levels below a node.
pub(crate) fn depth(node: &[u8]) -> u16 {
    u16_at(node, 6)
}

/// The first file block of an entry.
pub(crate) fn key(node: &[u8], entry: usize) -> u32 {
    u32_at(node, ENTRY + entry * ENTRY)
}

/// The block that an entry of an inner node refers to.
pub(crate) fn child(node: &[u8], entry: usize) -> u64 {
    let at = ENTRY + entry * ENTRY;
    u64::from(u32_at(node, at + 4)) | u64::from(u16_at(node, at + 8)) << 32
}

/// An entry of a leaf.
pub(crate) fn extent(node: &[u8], entry: usize) -> Extent {
    let at = ENTRY + entry * ENTRY;
    let length = u16_at(node, at + 4);
    let written = length <= UNWRITTEN;
    Extent {
        logical: u32_at(node, at),
        length: u32::from(if written { length } else { length - UNWRITTEN }),
        physical: u64::from(u32_at(node, at + 8)) | u64::from(u16_at(node, at + 6)) << 32,
        written,
    }
}

/// Stores an entry of a leaf.
pub(crate) fn set_extent(node: &mut [u8], entry: usize, extent: &Extent) {
    let at = ENTRY + entry * ENTRY;
    let flag = if extent.written { 0 } else { UNWRITTEN };
    put32(node, at, extent.logical);
    put16(node, at + 4, (extent.length as u16).wrapping_add(flag));
    put16(node, at + 6, (extent.physical >> 32) as u16);
    put32(node, at + 8, extent.physical as u32);
}

/// The last entry whose key is at most `block`, or the first entry.
fn entry_for(node: &[u8], block: u32) -> usize {
    let (mut low, mut high) = (0, entries(node));
    while low < high {
        let middle = (low + high) / 2;
        if key(node, middle) <= block {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.saturating_sub(1)
}

/// Checks whether a node is consistent by itself.
fn check(node: &[u8], geometry: &Geometry, zones: &Zones) -> Result<()> {
    let bad = Err(Error::Corrupt("extent tree"));
    let count = entries(node);
    if u16_at(node, 0) != MAGIC
        || room(node) == 0
        || count > room(node)
        || ENTRY + room(node) * ENTRY > node.len()
        || depth(node) > MOST_DEPTH
        || (depth(node) > 0 && count == 0)
    {
        return bad;
    }
    let mut end = 0u64;
    for entry in 0..count {
        let start = u64::from(key(node, entry));
        let (length, first) = if depth(node) > 0 {
            (1, child(node, entry))
        } else {
            let extent = extent(node, entry);
            (u64::from(extent.length), extent.physical)
        };
        if length == 0
            || start < end
            // The end of an extent must also fit in 32 bits.
            || start + length > u64::from(u32::MAX)
            || first <= geometry.first_block
            || first + length > geometry.blocks
            || zones.overlap(first, length)
        {
            return bad;
        }
        end = start + length;
    }
    Ok(())
}

/// The offset of a node's checksum.
pub(crate) fn checksum_place(node: &[u8]) -> usize {
    ENTRY + room(node) * ENTRY
}

/// Checks whether a node in a block is consistent, including its checksum.
fn check_block(node: &[u8], geometry: &Geometry, zones: &Zones, seed: u32) -> Result<()> {
    check(node, geometry, zones)?;
    if geometry.checksums() && !is_sealed_node(node, seed) {
        return Err(Error::Corrupt("checksum of an extent tree"));
    }
    Ok(())
}

impl<D: Device> Fs<D> {
    /// A node of an inode's tree.
    pub(crate) fn extent_node<'a>(&'a mut self, inode: &'a Inode, node: Node) -> Result<&'a [u8]> {
        match node {
            Node::Root => {
                check(inode.map(), &self.geometry, &self.zones)?;
                Ok(inode.map())
            }
            Node::Block(block) => {
                let (geometry, zones) = (&self.geometry, &self.zones);
                let seed = inode.seed(geometry);
                self.store.checked(block, Kind::Extents(seed), |node| {
                    check_block(node, geometry, zones, seed)
                })
            }
        }
    }

    /// The path from the root to the leaf that contains, or would contain, a block of the file.
    pub(crate) fn extent_path(&mut self, inode: &Inode, block: u32) -> Result<Vec<Step>> {
        let mut path = Vec::new();
        let mut at = Node::Root;
        let mut expected = None;
        loop {
            let node = self.extent_node(inode, at)?;
            let (depth, entry) = (depth(node), entry_for(node, block));
            let (next, first) = (child(node, entry), key(node, entry));
            // Each node is one level below the previous one, so this ends. Each must begin where
            // the entry above it says, which keeps entries from sharing a node.
            if let Some((level, start)) = expected
                && (level != depth || (entries(node) > 0 && key(node, 0) != start))
            {
                return Err(Error::Corrupt("depth or start of an extent tree's node"));
            }
            push(&mut path, Step { node: at, entry })?;
            if depth == 0 {
                return Ok(path);
            }
            expected = Some((depth - 1, first));
            at = Node::Block(next);
        }
    }

    /// The extent that contains a block of the file, or else the first one that begins after it.
    pub(crate) fn find_extent(&mut self, inode: &Inode, block: u32) -> Result<Option<Extent>> {
        let path = self.extent_path(inode, block)?;
        let Some(leaf) = path.last() else {
            return Ok(None);
        };
        let node = self.extent_node(inode, leaf.node)?;
        for entry in leaf.entry..entries(node).min(leaf.entry + 2) {
            let extent = extent(node, entry);
            if extent.end() > block {
                return Ok(Some(extent));
            }
        }
        self.next_leaf(inode, &path, block)
    }

    /// The first extent of the leaf after the one at the end of `path`.
    fn next_leaf(&mut self, inode: &Inode, path: &[Step], block: u32) -> Result<Option<Extent>> {
        for step in path.iter().rev().skip(1) {
            let node = self.extent_node(inode, step.node)?;
            if step.entry + 1 < entries(node) {
                let next = key(node, step.entry + 1);
                if next <= block {
                    return Err(Error::Corrupt("order of an extent tree"));
                }
                let path = self.extent_path(inode, next)?;
                let Some(leaf) = path.last() else {
                    return Ok(None);
                };
                let node = self.extent_node(inode, leaf.node)?;
                if entries(node) == 0 {
                    return Err(Error::Corrupt("extent tree"));
                }
                let found = extent(node, leaf.entry);
                if found.end() <= block {
                    return Err(Error::Corrupt("order of an extent tree"));
                }
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
