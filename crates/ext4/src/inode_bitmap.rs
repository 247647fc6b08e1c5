//! Inode bitmaps: allocates and frees inodes.

use crate::bitmap::{first_clear, is_set, set};
use crate::bytes::zeroes;
use crate::crc::crc32c;
use crate::group::{BLOCK_UNINIT, Descriptor, INODE_UNINIT};
use crate::store::Kind;
use crate::superblock;
use crate::{Device, Error, Fs, Result};

impl<D: Device> Fs<D> {
    /// The block of a group's inode bitmap, which is created if necessary, and checked.
    fn inode_bitmap(&mut self, group: u32) -> Result<u64> {
        let geometry = self.geometry;
        let mut descriptor = self.descriptor(group)?;
        let block = descriptor.inode_bitmap();
        if descriptor.has(INODE_UNINIT) {
            if descriptor.has(BLOCK_UNINIT) {
                // A group with inodes must have a block bitmap, as in Linux.
                self.make_block_bitmap(group)?;
                descriptor = self.descriptor(group)?;
            }
            let mut bitmap = zeroes(geometry.block_size)?;
            bitmap[geometry.group_inodes as usize / 8..].fill(0xff);
            self.store.create(block)?.copy_from_slice(&bitmap);
            descriptor.clear(INODE_UNINIT);
            self.seal_inode_bitmap(&mut descriptor, &bitmap);
            self.set_descriptor(group, &descriptor)?;
            return Ok(block);
        }
        let bytes = geometry.group_inodes as usize / 8;
        self.store.checked(block, Kind::Bitmap, |bitmap| {
            let sum = crc32c(geometry.seed, &bitmap[..bytes]);
            if geometry.checksums() && !descriptor.is_inode_sum(sum) {
                return Err(Error::Corrupt("checksum of an inode bitmap"));
            }
            Ok(())
        })?;
        Ok(block)
    }

    fn seal_inode_bitmap(&self, descriptor: &mut Descriptor, bitmap: &[u8]) {
        if self.geometry.checksums() {
            let bytes = self.geometry.group_inodes as usize / 8;
            descriptor.set_inode_sum(crc32c(self.geometry.seed, &bitmap[..bytes]));
        }
    }

    /// Allocates an inode, in the group of `near` if possible.
    pub(crate) fn allocate_inode(&mut self, near: u32, directory: bool) -> Result<u32> {
        let (first, _) = self.inode_group(near);
        for turn in 0..self.geometry.groups {
            self.store.device.pause();
            let group = (first + turn) % self.geometry.groups;
            if self.descriptor(group)?.free_inodes() == 0 {
                continue;
            }
            let block = self.inode_bitmap(group)?;
            let bitmap = self.store.get(block)?;
            let start = group * self.geometry.group_inodes;
            let reserved = (self.geometry.first_inode - 1).saturating_sub(start);
            let end = self.geometry.group_inodes;
            if let Some(index) = first_clear(bitmap, &[], reserved, end) {
                self.change_inode(group, index, directory, true)?;
                return Ok(start + index + 1);
            }
        }
        Err(Error::NoSpace)
    }

    /// Whether an inode is marked as used in the bitmap.
    pub(crate) fn is_inode_used(&mut self, number: u32) -> Result<bool> {
        let (group, index) = self.inode_group(number);
        if self.descriptor(group)?.has(INODE_UNINIT) {
            return Ok(false);
        }
        let block = self.inode_bitmap(group)?;
        Ok(is_set(self.store.get(block)?, index))
    }

    /// Frees an inode.
    pub(crate) fn free_inode(&mut self, number: u32, directory: bool) -> Result<()> {
        let (group, index) = self.inode_group(number);
        self.change_inode(group, index, directory, false)
    }

    fn change_inode(&mut self, group: u32, index: u32, directory: bool, used: bool) -> Result<()> {
        let block = self.inode_bitmap(group)?;
        self.unsealed.add_group(group)?;
        let bitmap = self.store.change_as(block, Kind::Bitmap, None)?;
        if is_set(bitmap, index) == used {
            return Err(Error::Corrupt("inode is free already"));
        }
        set(bitmap, index, used);
        let mut descriptor = self.descriptor(group)?;
        let step = |count: u32, up: bool| {
            if up {
                count.checked_add(1)
            } else {
                count.checked_sub(1)
            }
            .ok_or(Error::Corrupt("count of inodes"))
        };
        descriptor.set_free_inodes(step(descriptor.free_inodes(), !used)?);
        if directory {
            descriptor.set_directories(step(descriptor.directories(), used)?);
        }
        let behind = self.geometry.group_inodes - index - 1;
        if used && self.geometry.checks_groups() && descriptor.unused_inodes() > behind {
            descriptor.set_unused_inodes(behind);
        }
        self.set_descriptor(group, &descriptor)?;
        self.change_superblock(|raw| {
            let free = step(superblock::free_inodes(raw), !used)?;
            superblock::set_free_inodes(raw, free);
            Ok(())
        })?
    }
}
