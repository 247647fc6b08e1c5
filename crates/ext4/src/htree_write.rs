//! Inserts into a directory with an index, and splits its leaves and nodes.

use alloc::vec::Vec;

use crate::bytes::{copy, push, put, put16, put32};
use crate::dirent::{
    NODE_ENTRIES, ROOT_ENTRIES, ROOT_INFORMATION, entries, index_room, needed, set_entry, usable,
};
use crate::hash::Hasher;
use crate::htree::{Step, count};
use crate::inode::{INDEX, Inode};
use crate::seal::Seal;
use crate::store::Kind;
use crate::superblock::Geometry;
use crate::{Device, Error, Fs, Result};

/// An entry that is moved.
struct Moved {
    hash: u32,
    inode: u32,
    kind: u8,
    name: Vec<u8>,
}

/// The entries of a block, ordered by hash.
fn collect(block: &[u8], from: usize, geometry: &Geometry, hasher: &Hasher) -> Result<Vec<Moved>> {
    let mut list = Vec::new();
    for entry in entries(block, from).take_while(|entry| entry.at < usable(geometry)) {
        if entry.inode != 0 {
            let (hash, name) = (hasher.hash(entry.name), copy(entry.name)?);
            push(
                &mut list,
                Moved {
                    hash,
                    inode: entry.inode,
                    kind: entry.kind,
                    name,
                },
            )?;
        }
    }
    heapsort::sort_by_key(&mut list, |entry| entry.hash);
    Ok(list)
}

/// Fills a block with entries. The last one gets the remaining space.
fn fill(block: &mut [u8], geometry: &Geometry, list: &[Moved]) {
    block.fill(0);
    let end = usable(geometry);
    set_entry(block, 0, end, 0, 0, &[]);
    let mut at = 0;
    for (index, entry) in list.iter().enumerate() {
        let last = index + 1 == list.len();
        let length = if last {
            end - at
        } else {
            needed(entry.name.len())
        };
        set_entry(block, at, length, entry.inode, entry.kind, &entry.name);
        at += length;
    }
}

/// The index at which a list is split into two parts of about the same size.
fn half(list: &[Moved], block_size: usize) -> usize {
    let mut size = 0;
    let taken = list.iter().rev().take_while(|entry| {
        size += needed(entry.name.len());
        size <= block_size / 2
    });
    let moved = taken.count().max(1);
    (list.len() - moved).max(1)
}

impl<D: Device> Fs<D> {
    /// Adds an index to a directory of one block: its entries move to a second block.
    pub(crate) fn make_index(&mut self, directory: &mut Inode) -> Result<()> {
        let geometry = self.geometry;
        let version = geometry.hash_version;
        let hasher = Hasher::new(version, geometry.hash_seed, geometry.hash_unsigned)?;
        let root = self.directory_block(directory, 0)?;
        let content = copy(self.store.get(root)?)?;
        let parent = entries(&content, 0)
            .nth(1)
            .filter(|entry| entry.name == b"..");
        let parent = parent.ok_or(Error::Corrupt("directory without .."))?;
        let list = collect(&content, parent.at + parent.length, &geometry, &hasher)?;
        let (block, leaf) = self.append_block(directory)?;
        directory.set_flags(directory.flags() | INDEX);
        fill(
            self.change_entries(directory, block, leaf)?,
            &geometry,
            &list,
        );
        let (number, size) = (directory.number, geometry.block_size);
        let (kind, seal) = self.index_kind(directory, 0, ROOT_ENTRIES);
        let raw = self.store.change_as(root, kind, seal)?;
        raw.fill(0);
        set_entry(raw, 0, 12, number, 2, b".");
        set_entry(raw, 12, size - 12, parent.inode, 2, b"..");
        put(raw, ROOT_INFORMATION + 4, &[version, 8, 0, 0]);
        let room = index_room(size, ROOT_ENTRIES, geometry.checksums());
        put16(raw, ROOT_ENTRIES, room as u16);
        put16(raw, ROOT_ENTRIES + 2, 1);
        put32(raw, ROOT_ENTRIES + 4, block);
        Ok(())
    }

    /// Adds an entry to a directory with an index.
    pub(crate) fn add_indexed(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        inode: u32,
        kind: u8,
    ) -> Result<()> {
        // Each iteration splits one node; a leaf may be split twice if names are long.
        for _ in 0..8 {
            let (hasher, levels) = self.index_root(directory)?;
            let hash = hasher.hash(name);
            let path = self.index_path(directory, levels, hash)?;
            let leaf = self.index_leaf(directory, &path)?;
            if leaf == 0 {
                return Err(Error::Corrupt("index of a directory"));
            }
            if self.add_in(directory, leaf, name, inode, kind)? {
                return Ok(());
            }
            if self.make_index_room(directory, &path)? {
                self.split_leaf(directory, &path, leaf, &hasher)?;
            }
        }
        Err(Error::NoSpace)
    }

    /// The kind of an index node, and how its checksum is computed.
    fn index_kind(&self, directory: &Inode, block: u32, from: usize) -> (Kind, Option<Seal>) {
        let seal = Seal::Index(directory.seed(&self.geometry), from);
        let seal = self.geometry.checksums().then_some(seal);
        (self.directory_kind(directory, block), seal)
    }

    /// A node of an index, which is to be changed.
    pub(crate) fn change_node_of_index(
        &mut self,
        directory: &Inode,
        block: u32,
        from: usize,
    ) -> Result<&mut [u8]> {
        let physical = self.must_map(directory, block)?;
        let (kind, seal) = self.index_kind(directory, block, from);
        self.store.change_as(physical, kind, seal)
    }

    /// Changes a node of an index.
    fn change_index(
        &mut self,
        directory: &Inode,
        block: u32,
        from: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        change(self.change_node_of_index(directory, block, from)?);
        Ok(())
    }

    /// Adds an entry after the one that was followed at `step`.
    fn insert_index(&mut self, directory: &Inode, step: Step, hash: u32, block: u32) -> Result<()> {
        self.change_index(directory, step.block, step.from, |node| {
            let used = count(node, step.from);
            let (at, end) = (step.from + (step.entry + 1) * 8, step.from + used * 8);
            // Only in a damaged image, its block is also used for something else.
            if at <= end && end + 8 <= node.len() {
                node.copy_within(at..end, at + 8);
                put32(node, at, hash);
                put32(node, at + 4, block);
                put16(node, step.from + 2, used as u16 + 1);
            }
        })
    }

    /// Returns whether the last node of the path has room for an entry; if not, one node was split.
    fn make_index_room(&mut self, directory: &mut Inode, path: &[Step]) -> Result<bool> {
        let (size, checksums) = (self.geometry.block_size, self.geometry.checksums());
        for (level, step) in path.iter().enumerate().rev() {
            let node = self.index_node(directory, step.block, step.from)?;
            if count(node, step.from) < index_room(size, step.from, checksums) {
                match path.get(level + 1) {
                    None => return Ok(true),
                    Some(below) => self.split_node(directory, *step, *below)?,
                }
                return Ok(false);
            }
        }
        self.grow_root(directory, path.len() as u8)?;
        Ok(false)
    }

    /// Makes a new node from entries of another.
    fn new_node(&mut self, directory: &mut Inode, moved: &[u8]) -> Result<u32> {
        let (block, physical) = self.append_block(directory)?;
        let (size, checksums) = (self.geometry.block_size, self.geometry.checksums());
        self.store.change(physical)?.fill(0);
        self.change_index(directory, block, NODE_ENTRIES, |node| {
            set_entry(node, 0, size, 0, 0, &[]);
            put(node, NODE_ENTRIES, moved);
            let room = index_room(size, NODE_ENTRIES, checksums);
            put16(node, NODE_ENTRIES, room as u16);
            put16(node, NODE_ENTRIES + 2, (moved.len() / 8) as u16);
        })?;
        Ok(block)
    }

    /// Gives the root a single entry, for a new node with all that it had.
    fn grow_root(&mut self, directory: &mut Inode, levels: u8) -> Result<()> {
        if levels > self.most_levels() {
            return Err(Error::NoSpace);
        }
        let root = self.index_node(directory, 0, ROOT_ENTRIES)?;
        let used = count(root, ROOT_ENTRIES);
        let moved = copy(&root[ROOT_ENTRIES..ROOT_ENTRIES + used * 8])?;
        let block = self.new_node(directory, &moved)?;
        self.change_index(directory, 0, ROOT_ENTRIES, |root| {
            put16(root, ROOT_ENTRIES + 2, 1);
            put32(root, ROOT_ENTRIES + 4, block);
            put(root, ROOT_INFORMATION + 6, &[levels]);
        })
    }

    /// Moves the second half of a node to a new one.
    fn split_node(&mut self, directory: &mut Inode, above: Step, below: Step) -> Result<()> {
        let node = self.index_node(directory, below.block, below.from)?;
        let used = count(node, below.from);
        let kept = (used / 2).max(1);
        let hash = crate::htree::hash_of(node, below.from, kept);
        let moved = copy(&node[below.from + kept * 8..below.from + used * 8])?;
        let block = self.new_node(directory, &moved)?;
        self.change_index(directory, below.block, below.from, |node| {
            put16(node, below.from + 2, kept as u16);
        })?;
        self.insert_index(directory, above, hash, block)
    }

    /// Moves the entries with the higher hashes of a leaf to a new one.
    fn split_leaf(
        &mut self,
        directory: &mut Inode,
        path: &[Step],
        leaf: u32,
        hasher: &Hasher,
    ) -> Result<()> {
        let geometry = self.geometry;
        let step = *path.last().ok_or(Error::Corrupt("index of a directory"))?;
        let old = self.directory_block(directory, leaf)?;
        let list = collect(self.store.get(old)?, 0, &geometry, hasher)?;
        if list.len() < 2 {
            return Err(Error::NoSpace);
        }
        let kept = half(&list, geometry.block_size);
        let (block, new) = self.append_block(directory)?;
        let content = self.change_entries(directory, leaf, old)?;
        fill(content, &geometry, &list[..kept]);
        let content = self.change_entries(directory, block, new)?;
        fill(content, &geometry, &list[kept..]);
        // The lowest bit tells that the leaf before also has names with this hash.
        let continued = u32::from(list[kept - 1].hash == list[kept].hash);
        self.insert_index(directory, step, list[kept].hash | continued, block)
    }
}
