//! Looks names up in the index of a directory, the htree
//! (Documentation/filesystems/ext4/directory.rst, "Hash Tree Directories").

use alloc::vec::Vec;

use crate::bytes::{push, u8_at, u16_at, u32_at};
use crate::directory::Found;
use crate::dirent::{NODE_ENTRIES, ROOT_ENTRIES, ROOT_INFORMATION};
use crate::features::Incompatible;
use crate::hash::Hasher;
use crate::inode::Inode;
use crate::{Device, Error, Fs, Result};

/// A node on the path from the root of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Its block in the directory.
    pub block: u32,
    /// The offset of its entries.
    pub from: usize,
    /// The entry that was followed.
    pub entry: usize,
}

/// The number of entries in a node.
pub(crate) fn count(node: &[u8], from: usize) -> usize {
    usize::from(u16_at(node, from + 2))
}

/// The lowest hash of an entry; the first has none.
pub(crate) fn hash_of(node: &[u8], from: usize, entry: usize) -> u32 {
    if entry == 0 {
        0
    } else {
        u32_at(node, from + entry * 8)
    }
}

/// The block that an entry refers to.
pub(crate) fn block_of(node: &[u8], from: usize, entry: usize) -> u32 {
    u32_at(node, from + entry * 8 + 4) & 0x0fff_ffff
}

/// The last entry whose hash is at most `hash`.
fn entry_for(node: &[u8], from: usize, hash: u32) -> usize {
    let (mut low, mut high) = (1, count(node, from));
    while low < high {
        let middle = (low + high) / 2;
        if hash_of(node, from, middle) <= hash {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low - 1
}

impl<D: Device> Fs<D> {
    /// The hasher of a directory's index, and the number of levels below its root.
    pub(crate) fn index_root(&mut self, directory: &Inode) -> Result<(Hasher, u8)> {
        let physical = self.directory_block(directory, 0)?;
        let root = self.store.get(physical)?;
        let version = u8_at(root, ROOT_INFORMATION + 4);
        let length = u8_at(root, ROOT_INFORMATION + 5);
        let levels = u8_at(root, ROOT_INFORMATION + 6);
        if usize::from(length) != ROOT_ENTRIES - ROOT_INFORMATION || levels > self.most_levels() {
            return Err(Error::Corrupt("root of a directory's index"));
        }
        let geometry = &self.geometry;
        Ok((
            Hasher::new(version, geometry.hash_seed, geometry.hash_unsigned)?,
            levels,
        ))
    }

    /// The maximum number of levels below the root of an index.
    pub(crate) fn most_levels(&self) -> u8 {
        let large = self
            .geometry
            .features
            .incompatible
            .contains(Incompatible::LARGE_DIR);
        if large { 2 } else { 1 }
    }

    /// The path from the root to the node whose entry refers to the leaf of `hash`.
    pub(crate) fn index_path(
        &mut self,
        directory: &Inode,
        levels: u8,
        hash: u32,
    ) -> Result<Vec<Step>> {
        let mut path = Vec::new();
        let (mut block, mut from) = (0, ROOT_ENTRIES);
        for _ in 0..=levels {
            let node = self.index_node(directory, block, from)?;
            let entry = entry_for(node, from, hash);
            let next = block_of(node, from, entry);
            push(&mut path, Step { block, from, entry })?;
            (block, from) = (next, NODE_ENTRIES);
        }
        Ok(path)
    }

    /// A node of an index.
    pub(crate) fn index_node(
        &mut self,
        directory: &Inode,
        block: u32,
        from: usize,
    ) -> Result<&[u8]> {
        if block == 0 && from != ROOT_ENTRIES {
            return Err(Error::Corrupt("index of a directory"));
        }
        let physical = self.directory_block(directory, block)?;
        let node = self.store.get(physical)?;
        let is_node = crate::dirent::index_entries(node, block == 0, true) == Some(from);
        if !is_node || count(node, from) == 0 || from + count(node, from) * 8 > node.len() {
            return Err(Error::Corrupt("index of a directory"));
        }
        Ok(node)
    }

    /// The leaf that the path leads to.
    pub(crate) fn index_leaf(&mut self, directory: &Inode, path: &[Step]) -> Result<u32> {
        let step = path.last().ok_or(Error::Corrupt("index of a directory"))?;
        let node = self.index_node(directory, step.block, step.from)?;
        Ok(block_of(node, step.from, step.entry))
    }

    /// Moves to the next leaf, if there is one, and returns its lowest hash. Its lowest bit tells
    /// that the leaf before it ends with the same hash.
    pub(crate) fn next_leaf_of_index(
        &mut self,
        directory: &Inode,
        path: &mut [Step],
    ) -> Result<Option<u32>> {
        let mut level = path.len();
        let hash = loop {
            let Some(above) = level.checked_sub(1) else {
                return Ok(None);
            };
            level = above;
            let step = path[level];
            let node = self.index_node(directory, step.block, step.from)?;
            if step.entry + 1 < count(node, step.from) {
                path[level].entry += 1;
                break hash_of(node, step.from, step.entry + 1);
            }
        };
        for level in level..path.len() - 1 {
            let step = path[level];
            let node = self.index_node(directory, step.block, step.from)?;
            let block = block_of(node, step.from, step.entry);
            path[level + 1] = Step {
                block,
                from: NODE_ENTRIES,
                entry: 0,
            };
        }
        Ok(Some(hash))
    }

    /// The place of a name in a directory with an index.
    pub(crate) fn find_by_index(
        &mut self,
        directory: &Inode,
        name: &[u8],
    ) -> Result<Option<Found>> {
        let (hasher, levels) = self.index_root(directory)?;
        let hash = hasher.hash(name);
        let mut path = self.index_path(directory, levels, hash)?;
        // A damaged index may lead to the same leaf again and again, but a valid one has no more
        // leaves than the directory has blocks.
        for _ in 0..self.directory_blocks(directory)? {
            let leaf = self.index_leaf(directory, &path)?;
            if leaf == 0 {
                return Err(Error::Corrupt("index of a directory"));
            }
            if let Some(found) = self.find_in(directory, leaf, name)? {
                return Ok(Some(found));
            }
            if self.next_leaf_of_index(directory, &mut path)? != Some(hash | 1) {
                return Ok(None);
            }
        }
        Err(Error::Corrupt("index of a directory"))
    }
}
