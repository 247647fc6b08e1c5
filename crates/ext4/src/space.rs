//! How much space is free, and for which users.

use crate::superblock::{self, Geometry};
use crate::{Device, Fs, Result};

/// The figures for statfs(2), in blocks and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The size of a block in bytes.
    pub block_size: u32,
    /// The number of all blocks.
    pub blocks: u64,
    /// The number of blocks that are neither metadata of the groups nor the journal (`f_blocks`).
    pub usable: u64,
    /// The number of free blocks (`f_bfree`).
    pub free_blocks: u64,
    /// The number of free blocks that all users may take (`f_bavail`).
    pub available: u64,
    /// The number of free blocks that only root may take.
    pub reserved: u64,
    /// The number of all inodes.
    pub inodes: u32,
    /// The number of free inodes.
    pub free_inodes: u32,
    /// The UUID of the file system.
    pub uuid: [u8; 16],
}

/// The free blocks that an operation may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Those for all users.
    User,
    /// Also those reserved for root.
    Root,
    /// All blocks, to finish what was begun.
    Completion,
}

impl Geometry {
    /// The number of blocks kept for the maps of files whose data is already allocated, as in
    /// Linux's `ext4_set_resv_clusters`: a write that was accepted does not fail for lack of a
    /// block.
    fn kept_for_maps(&self) -> u64 {
        (self.blocks / 50).min(4096)
    }
}

impl<D: Device> Fs<D> {
    /// The numbers of free blocks and inodes.
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

    /// The number of blocks in the groups' metadata and the journal. mke2fs stores it.
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

    /// Sets whether the following operations may take the blocks that are reserved for root: the
    /// caller is root, has `CAP_SYS_RESOURCE`, or is the user or group of
    /// [`Geometry::reserved_owner`]. Initially they may.
    pub fn set_privileged(&mut self, privileged: bool) {
        self.claim = if privileged { Claim::Root } else { Claim::User };
    }

    /// The number of free blocks that the running operation must not take.
    pub(crate) fn kept_back(&self) -> u64 {
        let maps = self.geometry.kept_for_maps();
        match self.claim {
            Claim::User => self.geometry.reserved.saturating_add(maps),
            Claim::Root => maps,
            Claim::Completion => 0,
        }
    }

    /// Performs an operation that may take all free blocks, because it finishes or undoes what was
    /// begun.
    pub(crate) fn complete<T>(&mut self, operation: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        let claim = core::mem::replace(&mut self.claim, Claim::Completion);
        let result = self.transact(operation);
        self.claim = claim;
        result
    }
}
