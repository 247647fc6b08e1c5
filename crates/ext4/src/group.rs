//! Group descriptors (Documentation/filesystems/ext4/group_descr.rst).

use crate::bytes::{put16, u16_at, u32_at};
use crate::crc::{crc16, crc32c};
use crate::features::ReadOnly;
use crate::superblock::Geometry;
use crate::zones::Zones;
use crate::{Device, Error, Fs, Result};

/// The inode bitmap was never written: all inodes are free.
pub const INODE_UNINIT: u16 = 1;
/// The block bitmap was never written: only the group's own metadata is in use.
pub const BLOCK_UNINIT: u16 = 2;
const FLAGS: usize = 0x12;
const CHECKSUM: usize = 0x1e;
/// The length of the longest known descriptor in bytes.
const LONGEST: usize = 64;

/// A copy of a descriptor.
#[derive(Clone, Copy)]
pub struct Descriptor {
    raw: [u8; LONGEST],
    wide: bool,
    /// Whether the flags are valid: only together with a checksum.
    flagged: bool,
}

impl Descriptor {
    fn number(&self, low: usize, high: usize) -> u64 {
        let high = if self.wide {
            u32_at(&self.raw, high)
        } else {
            0
        };
        u64::from(u32_at(&self.raw, low)) | u64::from(high) << 32
    }

    fn count(&self, low: usize, high: usize) -> u32 {
        let high = if self.wide {
            u16_at(&self.raw, high)
        } else {
            0
        };
        u32::from(u16_at(&self.raw, low)) | u32::from(high) << 16
    }

    fn set_count(&mut self, low: usize, high: usize, value: u32) {
        put16(&mut self.raw, low, value as u16);
        if self.wide {
            put16(&mut self.raw, high, (value >> 16) as u16);
        }
    }

    /// The block of the block bitmap.
    pub fn block_bitmap(&self) -> u64 {
        self.number(0x0, 0x20)
    }

    /// The block of the inode bitmap.
    pub fn inode_bitmap(&self) -> u64 {
        self.number(0x4, 0x24)
    }

    /// The first block of the inode table.
    pub fn inode_table(&self) -> u64 {
        self.number(0x8, 0x28)
    }

    /// The number of free blocks.
    pub fn free_blocks(&self) -> u32 {
        self.count(0xc, 0x2c)
    }

    /// Sets the number of free blocks.
    pub fn set_free_blocks(&mut self, free: u32) {
        self.set_count(0xc, 0x2c, free);
    }

    /// The number of free inodes.
    pub fn free_inodes(&self) -> u32 {
        self.count(0xe, 0x2e)
    }

    /// Sets the number of free inodes.
    pub fn set_free_inodes(&mut self, free: u32) {
        self.set_count(0xe, 0x2e, free);
    }

    /// The number of directories.
    pub fn directories(&self) -> u32 {
        self.count(0x10, 0x30)
    }

    /// Sets the number of directories.
    pub fn set_directories(&mut self, directories: u32) {
        self.set_count(0x10, 0x30, directories);
    }

    /// The number of inodes at the end of the table that were never used.
    pub fn unused_inodes(&self) -> u32 {
        self.count(0x1c, 0x32)
    }

    /// Sets the number of inodes at the end of the table that were never used.
    pub fn set_unused_inodes(&mut self, unused: u32) {
        self.set_count(0x1c, 0x32, unused);
    }

    /// Whether one of the flags is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flagged && u16_at(&self.raw, FLAGS) & flag != 0
    }

    /// Clears a flag.
    pub fn clear(&mut self, flag: u16) {
        let flags = u16_at(&self.raw, FLAGS) & !flag;
        put16(&mut self.raw, FLAGS, flags);
    }

    /// Whether `sum` is the checksum of the block bitmap.
    pub fn is_block_sum(&self, sum: u32) -> bool {
        self.count(0x18, 0x38) == if self.wide { sum } else { sum & 0xffff }
    }

    /// Sets the checksum of the block bitmap.
    pub fn set_block_sum(&mut self, sum: u32) {
        self.set_count(0x18, 0x38, sum);
    }

    /// Whether `sum` is the checksum of the inode bitmap.
    pub fn is_inode_sum(&self, sum: u32) -> bool {
        self.count(0x1a, 0x3a) == if self.wide { sum } else { sum & 0xffff }
    }

    /// Sets the checksum of the inode bitmap.
    pub fn set_inode_sum(&mut self, sum: u32) {
        self.set_count(0x1a, 0x3a, sum);
    }
}

impl Descriptor {
    /// Stores the descriptor with its checksum.
    fn store(&self, geometry: &Geometry, group: u32, raw: &mut [u8]) {
        let known = raw.len().min(LONGEST);
        raw[..known].copy_from_slice(&self.raw[..known]);
        if let Some(sum) = checksum(geometry, group, raw) {
            put16(raw, CHECKSUM, sum);
        }
    }
}

/// The checksum of `raw`, the descriptor of a group.
fn checksum(geometry: &Geometry, group: u32, raw: &[u8]) -> Option<u16> {
    let (before, after) = (&raw[..CHECKSUM], &raw[CHECKSUM + 2..]);
    if geometry.checksums() {
        let sum = crc32c(geometry.seed, &group.to_le_bytes());
        Some(crc32c(crc32c(crc32c(sum, before), &[0; 2]), after) as u16)
    } else if geometry.features.read_only.contains(ReadOnly::GDT_CSUM) {
        let sum = crc16(crc16(!0, &geometry.uuid), &group.to_le_bytes());
        Some(crc16(crc16(sum, before), after))
    } else {
        None
    }
}

impl<D: Device> Fs<D> {
    /// The block of a group's descriptor, and the offset in it.
    fn descriptor_place(&self, group: u32) -> (u64, usize) {
        let geometry = &self.geometry;
        let in_block = geometry.descriptors_in_block();
        let (index, place) = (group / in_block, group % in_block);
        let block = if geometry.in_meta_group(index) {
            let first = index * in_block;
            geometry.group_start(first) + u64::from(geometry.has_superblock(first))
        } else {
            geometry.first_block + 1 + u64::from(index)
        };
        (block, place as usize * geometry.descriptor_size)
    }

    /// The descriptor of a group that exists.
    pub(crate) fn descriptor(&mut self, group: u32) -> Result<Descriptor> {
        let (block, at) = self.descriptor_place(group);
        let size = self.geometry.descriptor_size.min(LONGEST);
        let mut raw = [0; LONGEST];
        raw[..size].copy_from_slice(&self.store.get(block)?[at..at + size]);
        Ok(Descriptor {
            raw,
            wide: size == LONGEST,
            flagged: self.geometry.checks_groups(),
        })
    }

    /// Stores the descriptor of a group with its checksum.
    pub(crate) fn set_descriptor(&mut self, group: u32, descriptor: &Descriptor) -> Result<()> {
        let (block, at) = self.descriptor_place(group);
        let raw = &mut self.store.change(block)?[at..at + self.geometry.descriptor_size];
        descriptor.store(&self.geometry, group, raw);
        Ok(())
    }

    /// The same for one that the running transaction has changed, with the checksums of bitmaps.
    pub(crate) fn reseal_descriptor(&mut self, group: u32, descriptor: &Descriptor) {
        let (block, at) = self.descriptor_place(group);
        if let Some(block) = self.store.running_block(block) {
            let raw = &mut block[at..at + self.geometry.descriptor_size];
            descriptor.store(&self.geometry, group, raw);
        }
    }

    /// Checks the descriptors of all groups, and records where their metadata is.
    pub(crate) fn check_descriptors(&mut self) -> Result<()> {
        let mut zones = Zones::default();
        let table = self.geometry.table_blocks();
        for group in 0..self.geometry.groups {
            let (block, at) = self.descriptor_place(group);
            let size = self.geometry.descriptor_size;
            let raw = &self.store.get(block)?[at..at + size];
            if checksum(&self.geometry, group, raw).is_some_and(|sum| sum != u16_at(raw, CHECKSUM))
            {
                return Err(Error::Corrupt("checksum of a group descriptor"));
            }
            let descriptor = self.descriptor(group)?;
            let inside = |block: u64, count: u64| {
                block > self.geometry.first_block
                    && block
                        .checked_add(count)
                        .is_some_and(|end| end <= self.geometry.blocks)
            };
            if !inside(descriptor.block_bitmap(), 1)
                || !inside(descriptor.inode_bitmap(), 1)
                || !inside(descriptor.inode_table(), table)
                || descriptor.free_blocks() > self.geometry.group_blocks
                || descriptor.free_inodes() > self.geometry.group_inodes
                || descriptor.unused_inodes() > self.geometry.group_inodes
            {
                return Err(Error::Corrupt("group descriptor"));
            }
            let own = u64::from(self.base_blocks(group));
            zones.add(self.geometry.group_start(group), own)?;
            zones.add(descriptor.block_bitmap(), 1)?;
            zones.add(descriptor.inode_bitmap(), 1)?;
            zones.add(descriptor.inode_table(), table)?;
        }
        zones.finish()?;
        self.zones = zones;
        Ok(())
    }

    /// Changes the superblock; the commit computes the checksum.
    pub(crate) fn change_superblock<T>(
        &mut self,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T> {
        let (block, at) = self.geometry.superblock();
        let raw = &mut self.store.change(block)?[at..at + crate::superblock::SIZE];
        Ok(change(raw))
    }

    /// Reads the superblock.
    pub(crate) fn read_superblock<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (block, at) = self.geometry.superblock();
        Ok(read(
            &self.store.get(block)?[at..at + crate::superblock::SIZE],
        ))
    }
}
