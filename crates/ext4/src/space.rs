//! How much space is free, and for which users.

use crate::superblock::{self, Geometry};
use crate::{Device, Fs, Result};

/// What statfs(2) tells, in blocks and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of a block.
    pub block_size: u32,
    /// All blocks.
    pub blocks: u64,
    /// Blocks that are neither metadata of the groups nor the journal (`f_blocks`).
    pub usable: u64,
    /// Free blocks (`f_bfree`).
    pub free_blocks: u64,
    /// Free blocks that all users may take (`f_bavail`).
    pub available: u64,
    /// Of these, blocks that only root may take.
    pub reserved: u64,
    /// All inodes.
    pub inodes: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Name of the file system.
    pub uuid: [u8; 16],
}

/// Whose free blocks an operation may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Those of all.
    User,
    /// Those of root, too.
    Root,
    /// All of them, to finish what was begun.
    Completion,
}

impl Geometry {
    /// Blocks that are left for the maps of files whose data has its place already, as Linux's
    /// `ext4_set_resv_clusters`: a write that was accepted does not fail for want of a block.
    fn kept_for_maps(&self) -> u64 {
        (self.blocks / 50).min(4096)
    }
}

impl<D: Device> Fs<D> {
    /// Free blocks and inodes.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn statistics(&mut self) -> Result<Statistics> {
        let geometry = self.geometry;
        let overhead = self.overhead()?;
        self.read_superblock(|raw| {
            let free_blocks = superblock::free_blocks(raw, &geometry);
            let kept = geometry.reserved.saturating_add(geometry.kept_for_maps());
            Statistics {
                block_size: geometry.block_size as u32,
                blocks: geometry.blocks,
                usable: geometry.blocks.saturating_sub(overhead),
                free_blocks,
                available: free_blocks.saturating_sub(kept),
                reserved: geometry.reserved,
                inodes: geometry.inodes,
                free_inodes: superblock::free_inodes(raw),
                uuid: geometry.uuid,
            }
        })
    }

    /// Blocks of the groups' metadata and of the journal. mke2fs stores their number.
    fn overhead(&mut self) -> Result<u64> {
        let geometry = self.geometry;
        let stored = self.read_superblock(superblock::overhead)?;
        if stored != 0 && stored <= geometry.blocks {
            return Ok(stored);
        }
        let journal = self.inode(geometry.journal).map_or(0, |inode| inode.size());
        let table = geometry.table_blocks() + 2;
        let groups = (0..geometry.groups).map(|group| u64::from(self.base_blocks(group)) + table);
        let blocks = groups.fold(0, u64::saturating_add);
        Ok(geometry.first_block + blocks + journal / geometry.block_size as u64)
    }

    /// Whether the next operations may take the blocks that are reserved for root: the caller is
    /// root, has `CAP_SYS_RESOURCE`, or is the user or group of
    /// [`Geometry::reserved_owner`]. They may from the beginning.
    pub fn set_privileged(&mut self, privileged: bool) {
        self.claim = if privileged { Claim::Root } else { Claim::User };
    }

    /// Free blocks that the running operation must not take.
    pub(crate) fn kept_back(&self) -> u64 {
        let maps = self.geometry.kept_for_maps();
        match self.claim {
            Claim::User => self.geometry.reserved.saturating_add(maps),
            Claim::Root => maps,
            Claim::Completion => 0,
        }
    }

    /// Does an operation that may take all free blocks, because it ends or undoes what was begun.
    pub(crate) fn complete<T>(&mut self, operation: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        let claim = core::mem::replace(&mut self.claim, Claim::Completion);
        let result = self.transact(operation);
        self.claim = claim;
        result
    }
}
