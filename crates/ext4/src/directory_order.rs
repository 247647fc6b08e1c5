//! Directories in the order of their hashes. A program that reads a part, and continues after
//! others have changed the directory, gets each name that existed throughout exactly once: a split
//! of the index moves entries, but does not change this order. Linux does the same, with the same
//! positions: the hash, followed by a second hash for names that share the first.

use alloc::vec::Vec;

use crate::bytes::push;
use crate::directory::{DirectoryEntry, told_as};
use crate::dirent::{self, entries};
use crate::features::Compatible;
use crate::hash::Hasher;
use crate::inode::Inode;
use crate::{Device, Error, Fs, Result};

/// The number of entries that are sorted at once. More have the same hash only if somebody has
/// chosen the names for that.
const BATCH: usize = 4096;
/// `.` and `..` are at positions 0 and 1.
const FIRST: u64 = 2;

/// The place and the position of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    position: u64,
    block: u64,
    at: usize,
}

/// The lowest entries at or after `from`.
struct Batch {
    from: u64,
    places: Vec<Place>,
    /// Whether higher ones were left out.
    cut: bool,
}

impl Batch {
    fn add(&mut self, place: Place) -> Result<()> {
        if place.position < self.from {
            return Ok(());
        }
        if self.places.len() >= 2 * BATCH {
            heapsort::sort(&mut self.places);
            self.places.truncate(BATCH);
            self.cut = true;
        }
        push(&mut self.places, place)
    }
}

impl<D: Device> Fs<D> {
    /// The hasher for reading a directory in hash order: for a directory that has an index, or will
    /// get one when its first block is full.
    pub(crate) fn order_of(&mut self, directory: &Inode) -> Result<Option<Hasher>> {
        if self.is_indexed(directory) {
            return Ok(Some(self.index_root(directory)?.0));
        }
        let geometry = &self.geometry;
        let will = geometry.features.compatible.contains(Compatible::DIR_INDEX);
        let (version, unsigned) = (geometry.hash_version, geometry.hash_unsigned);
        let hasher = Hasher::new(version, geometry.hash_seed, unsigned).ok();
        Ok(hasher.filter(|_| will && self.directory_blocks(directory) == Ok(1)))
    }

    /// Passes on the entries from position `from` on in the order of `hasher`.
    pub(crate) fn read_in_order(
        &mut self,
        directory: &Inode,
        hasher: &Hasher,
        mut from: u64,
        mut visit: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let root = self.directory_block(directory, 0)?;
        if !self.is_indexed(directory) {
            let mut batch = Batch::new(from);
            self.gather(root, hasher, &mut batch)?;
            self.tell(&mut batch, &mut visit)?;
            return Ok(());
        }
        let mut batch = Batch::new(from);
        let parents = entries(self.store.get(root)?, 0).take(2);
        for entry in parents.filter(|entry| matches!(entry.name, b"." | b"..")) {
            batch.add(place(&entry, root, hasher))?;
        }
        if !self.tell(&mut batch, &mut visit)? {
            return Ok(());
        }
        from = from.max(FIRST);
        while let Some(next) = self.read_leaves(directory, hasher, from, &mut visit)? {
            from = next;
        }
        Ok(())
    }

    /// Passes on the entries of one leaf after another, from the one that contains `from` on.
    /// Returns the position to start again from if too many entries had the same hash to be sorted.
    fn read_leaves(
        &mut self,
        directory: &Inode,
        hasher: &Hasher,
        from: u64,
        visit: &mut impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<Option<u64>> {
        let (_, levels) = self.index_root(directory)?;
        let hash = ((from >> 32) as u32) << 1;
        let mut path = self.index_path(directory, levels, hash)?;
        let mut batch = Batch::new(from);
        for _ in 0..self.directory_blocks(directory)? {
            let leaf = self.index_leaf(directory, &path)?;
            let block = self.directory_block(directory, leaf)?;
            self.gather(block, hasher, &mut batch)?;
            let next = self.next_leaf_of_index(directory, &mut path)?;
            // The leaf's last hash continues in the next leaf, whose names may come first.
            if next.is_some_and(|hash| hash & 1 == 1) {
                continue;
            }
            let last = batch.places.iter().map(|place| place.position).max();
            let cut = batch.cut;
            if !self.tell(&mut batch, visit)? || next.is_none() && !cut {
                return Ok(None);
            }
            if cut {
                return Ok(last.map(|last| last + 1));
            }
        }
        Err(Error::Corrupt("index of a directory"))
    }

    /// Adds the entries of a block.
    fn gather(&mut self, block: u64, hasher: &Hasher, batch: &mut Batch) -> Result<()> {
        let inodes = self.geometry.inodes;
        for entry in entries(self.store.get(block)?, 0) {
            if entry.inode != 0 && entry.inode <= inodes {
                batch.add(place(&entry, block, hasher))?;
            }
        }
        Ok(())
    }

    /// Passes on the entries of a batch, and empties it. Returns whether `visit` wants more.
    fn tell(
        &mut self,
        batch: &mut Batch,
        visit: &mut impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<bool> {
        heapsort::sort(&mut batch.places);
        for place in batch.places.drain(..) {
            let content = self.store.get(place.block)?;
            if let Some(entry) = dirent::entry(content, place.at)
                && !visit(told_as(&entry, place.position + 1))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Batch {
    fn new(from: u64) -> Self {
        Self {
            from,
            places: Vec::new(),
            cut: false,
        }
    }
}

fn place(entry: &dirent::Entry<'_>, block: u64, hasher: &Hasher) -> Place {
    let position = match entry.name {
        b"." => 0,
        b".." => 1,
        name => hasher.position(name).max(FIRST),
    };
    Place {
        position,
        block,
        at: entry.at,
    }
}
