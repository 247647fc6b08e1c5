//! Checksums of changed metadata, computed when a transaction is committed: a block that is changed
//! a hundred times is summed once.
//!
//! Until then a changed block is known to be valid as its present kind, so its old checksum is not
//! compared. Code that uses the block as another kind has it summed first.

use hashbrown::HashSet;

use crate::bytes::{put32, u32_at};
use crate::crc::crc32c;
use crate::extent::checksum_place;
use crate::{Device, Fs, Result, dirent, superblock};

/// How to compute the checksum of a block that contains it.
#[derive(Clone, Copy)]
pub enum Seal {
    /// Entries of a directory, with this seed.
    Entries(u32),
    /// A node of a directory's index, with this seed, and this offset of its entries.
    Index(u32, usize),
    /// A node of an extent tree, with this seed.
    Extents(u32),
}

impl Seal {
    /// Stores the checksum.
    pub fn apply(self, block: &mut [u8]) {
        match self {
            Seal::Entries(seed) => dirent::seal(block, seed),
            Seal::Index(seed, from) => dirent::seal_index(block, seed, from),
            Seal::Extents(seed) => {
                let at = checksum_place(block);
                if let Some(covered) = block.get(..at) {
                    let sum = crc32c(seed, covered);
                    put32(block, at, sum);
                }
            }
        }
    }
}

/// What the running transaction has changed and whose checksum is elsewhere, or covers a part of a
/// block.
#[derive(Default)]
pub(crate) struct Unsealed {
    inodes: HashSet<u32>,
    /// Inodes that the running operation has added.
    new: alloc::vec::Vec<u32>,
    /// Groups with a changed bitmap; an unnecessary one does no harm.
    groups: HashSet<u32>,
}

impl Unsealed {
    /// Whether the inode in its block has no valid checksum yet.
    pub fn has_inode(&self, number: u32) -> bool {
        self.inodes.contains(&number)
    }

    /// Records that the inode was changed.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub fn add_inode(&mut self, number: u32) -> Result<()> {
        if !self.inodes.contains(&number) {
            self.inodes.try_reserve(1)?;
            crate::bytes::push(&mut self.new, number)?;
            self.inodes.insert(number);
        }
        Ok(())
    }

    /// Records that a bitmap of the group was changed.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub fn add_group(&mut self, group: u32) -> Result<()> {
        self.groups.try_reserve(1)?;
        self.groups.insert(group);
        Ok(())
    }

    /// Keeps the changes of the running operation.
    pub fn keep(&mut self) {
        self.new.clear();
    }

    /// Undoes the changes of the running operation.
    pub fn undo(&mut self) {
        for number in self.new.drain(..) {
            self.inodes.remove(&number);
        }
    }

    /// Called after the transaction was committed.
    pub fn clear(&mut self) {
        self.inodes.clear();
        self.groups.clear();
    }
}

impl<D: Device> Fs<D> {
    /// Computes the checksums of everything that the running transaction has changed, all of which
    /// is already part of it. This can be repeated.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`], [`crate::Error::Io`].
    pub(crate) fn seal_changes(&mut self) -> Result<()> {
        if !self.geometry.checksums() {
            return Ok(());
        }
        let unsealed = core::mem::take(&mut self.unsealed);
        let mut groups = unsealed.groups.iter();
        let sealed = groups
            .try_for_each(|&group| self.seal_bitmaps(group))
            .and_then(|()| {
                let mut inodes = unsealed.inodes.iter();
                inodes.try_for_each(|&number| self.seal_inode(number))
            });
        self.unsealed = unsealed;
        let (block, at) = self.geometry.superblock();
        if let Some(block) = self.store.running_block(block) {
            superblock::seal(&mut block[at..at + superblock::SIZE], &self.geometry);
        }
        sealed
    }
}

/// Whether the checksum of a node of an extent tree is correct.
pub(crate) fn is_sealed_node(node: &[u8], seed: u32) -> bool {
    let at = checksum_place(node);
    at + 4 <= node.len() && u32_at(node, at) == crc32c(seed, &node[..at])
}
