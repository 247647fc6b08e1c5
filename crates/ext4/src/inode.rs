//! Inodes (Documentation/filesystems/ext4/inodes.rst).

use alloc::vec::Vec;

use crate::bytes::{copy, put, put16, put32, split_at, u16_at, u32_at};
use crate::crc::crc32c;
use crate::features::{Compatible, ReadOnly};
use crate::superblock::Geometry;
use crate::sync::differ_by_times;
use crate::{Device, Error, Fs, Result};

/// The root directory.
pub const ROOT: u32 = 2;
/// The size in bytes of the fields that all inodes have.
pub const BASE: usize = 128;
/// The offset of the map in an inode.
pub const MAP: usize = 0x28;
/// Its size in bytes.
pub const MAP_SIZE: usize = 60;
const FLAGS: usize = 0x20;
const SUM_LOW: usize = 0x7c;
const SUM_HIGH: usize = 0x82;

/// The bits of `mode` with the type.
pub const TYPE: u16 = 0o170000;
/// The type of a directory.
pub const DIRECTORY: u16 = 0o040000;
/// The type of a regular file.
pub const REGULAR: u16 = 0o100000;
/// The type of a symbolic link.
pub const SYMLINK: u16 = 0o120000;

/// The directory has an index.
pub const INDEX: u32 = 0x1000;
/// Blocks are counted in file system blocks.
pub const HUGE_FILE: u32 = 0x40000;
/// The map is a tree of extents.
pub const EXTENTS: u32 = 0x80000;
/// The inode contains the value of an attribute.
const EA_INODE: u32 = 0x20_0000;
/// The content is in the inode.
pub const INLINE_DATA: u32 = 0x1000_0000;
/// Encryption, verity and case folding, which change the meaning of the content.
const FOREIGN: u32 = 0x800 | 0x10_0000 | 0x4000_0000;

/// A time as an inode stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

/// The times of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Last access.
    Access,
    /// Last change of the inode.
    Change,
    /// Last change of the content.
    Modify,
    /// Creation.
    Birth,
}

impl Stamp {
    /// The offsets of the seconds and of the extra bits.
    fn place(self) -> (usize, usize) {
        match self {
            Stamp::Access => (0x8, 0x8c),
            Stamp::Change => (0xc, 0x84),
            Stamp::Modify => (0x10, 0x88),
            Stamp::Birth => (0x90, 0x94),
        }
    }
}

/// A copy of an inode.
#[derive(Debug)]
pub struct Inode {
    /// Its number.
    pub number: u32,
    pub(crate) raw: Vec<u8>,
}

impl Inode {
    /// Type and permissions.
    pub fn mode(&self) -> u16 {
        u16_at(&self.raw, 0)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode() & TYPE == DIRECTORY
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        u32::from(u16_at(&self.raw, 0x2)) | u32::from(u16_at(&self.raw, 0x78)) << 16
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        u32::from(u16_at(&self.raw, 0x18)) | u32::from(u16_at(&self.raw, 0x7a)) << 16
    }

    /// The size of its content in bytes.
    pub fn size(&self) -> u64 {
        split_at(&self.raw, 0x4, 0x6c)
    }

    /// The number of names; 1 for a directory with more than 65,000.
    pub fn links(&self) -> u16 {
        u16_at(&self.raw, 0x1a)
    }

    /// The space that it takes on disk, in units of 512 bytes.
    pub fn sectors(&self, geometry: &Geometry) -> u64 {
        let low = u64::from(u32_at(&self.raw, 0x1c));
        if !geometry.features.read_only.contains(ReadOnly::HUGE_FILE) {
            return low;
        }
        let stored = low | u64::from(u16_at(&self.raw, 0x74)) << 32;
        if self.has(HUGE_FILE) {
            stored * (geometry.block_size as u64 / 512)
        } else {
            stored
        }
    }

    /// The flags that `FS_IOC_GETFLAGS` returns, and internal ones.
    pub fn flags(&self) -> u32 {
        u32_at(&self.raw, FLAGS)
    }

    /// The generation of the inode with this number, for NFS.
    pub fn generation(&self) -> u32 {
        u32_at(&self.raw, 0x64)
    }

    /// One of its times; the creation time is zero if the inode has no room for it.
    pub fn time(&self, stamp: Stamp) -> Time {
        let (low, high) = stamp.place();
        if stamp == Stamp::Birth && !self.fits(low) {
            return Time::default();
        }
        let extra = if self.fits(high) {
            u32_at(&self.raw, high)
        } else {
            0
        };
        let low = u32_at(&self.raw, low) as i32;
        Time {
            seconds: i64::from(low) + (i64::from(extra & 3) << 32),
            nanoseconds: (extra >> 2).min(999_999_999),
        }
    }

    /// The numbers of a device node, as Linux's `new_encode_dev` and `old_encode_dev` store them.
    pub fn device(&self) -> (u32, u32) {
        let (old, new) = (u32_at(&self.raw, MAP), u32_at(&self.raw, MAP + 4));
        if old != 0 {
            (old >> 8 & 0xff, old & 0xff)
        } else {
            (new >> 8 & 0xfff, new & 0xff | new >> 12 & 0xf_ff00)
        }
    }

    /// Whether the four-byte field at `at` is part of this inode.
    fn fits(&self, at: usize) -> bool {
        at + 4 <= self.extra_end()
    }

    /// The offset at which the fields end and attributes begin.
    pub(crate) fn extra_end(&self) -> usize {
        BASE + usize::from(u16_at(&self.raw, BASE))
    }

    /// The range of the inode that has room for attributes. An inode without extra fields has none,
    /// since the first of them gives its start.
    pub(crate) fn attribute_region(&self) -> Option<core::ops::Range<usize>> {
        let start = self.extra_end();
        (start > BASE && start < self.raw.len()).then_some(start..self.raw.len())
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    /// Its map: extents, block numbers, or short content.
    pub(crate) fn map(&self) -> &[u8] {
        &self.raw[MAP..MAP + MAP_SIZE]
    }

    pub(crate) fn map_mut(&mut self) -> &mut [u8] {
        &mut self.raw[MAP..MAP + MAP_SIZE]
    }

    /// The attribute block, or 0.
    pub(crate) fn attribute_block(&self) -> u64 {
        u64::from(u32_at(&self.raw, 0x68)) | u64::from(u16_at(&self.raw, 0x76)) << 32
    }

    pub(crate) fn set_attribute_block(&mut self, block: u64) {
        put32(&mut self.raw, 0x68, block as u32);
        put16(&mut self.raw, 0x76, (block >> 32) as u16);
    }

    pub(crate) fn set_mode(&mut self, mode: u16) {
        put16(&mut self.raw, 0, mode);
    }

    pub(crate) fn set_owner(&mut self, uid: u32, gid: u32) {
        put16(&mut self.raw, 0x2, uid as u16);
        put16(&mut self.raw, 0x78, (uid >> 16) as u16);
        put16(&mut self.raw, 0x18, gid as u16);
        put16(&mut self.raw, 0x7a, (gid >> 16) as u16);
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        put32(&mut self.raw, 0x4, size as u32);
        put32(&mut self.raw, 0x6c, (size >> 32) as u32);
    }

    pub(crate) fn set_links(&mut self, links: u16) {
        put16(&mut self.raw, 0x1a, links);
    }

    pub(crate) fn set_flags(&mut self, flags: u32) {
        put32(&mut self.raw, FLAGS, flags);
    }

    pub(crate) fn set_generation(&mut self, generation: u32) {
        put32(&mut self.raw, 0x64, generation);
    }

    /// The time of deletion, or the next inode in the list of orphans.
    pub(crate) fn deleted(&self) -> u32 {
        u32_at(&self.raw, 0x14)
    }

    pub(crate) fn set_deleted(&mut self, value: u32) {
        put32(&mut self.raw, 0x14, value);
    }

    /// Stores a time, or the nearest possible one: from 1901 to 2446, or to 2038 if the inode has
    /// no room for more.
    pub(crate) fn set_time(&mut self, stamp: Stamp, time: Time) {
        let (low, high) = stamp.place();
        let (first, last) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let last = if self.fits(high) {
            last + (3 << 32)
        } else {
            last
        };
        let time = match time.seconds {
            seconds if (first..=last).contains(&seconds) => time,
            seconds => Time {
                seconds: seconds.clamp(first, last),
                nanoseconds: 0,
            },
        };
        if stamp != Stamp::Birth || self.fits(low) {
            put32(&mut self.raw, low, time.seconds as u32);
        }
        if self.fits(high) {
            let epoch = (time.seconds - i64::from(time.seconds as i32)) >> 32 & 3;
            put32(&mut self.raw, high, epoch as u32 | time.nanoseconds << 2);
        }
    }

    pub(crate) fn set_device(&mut self, major: u32, minor: u32) {
        let (old, new) = if major < 256 && minor < 256 {
            (major << 8 | minor, 0)
        } else {
            (0, minor & 0xff | major << 8 | (minor & !0xff) << 12)
        };
        put32(&mut self.raw, MAP, old);
        put32(&mut self.raw, MAP + 4, new);
    }

    /// Adds `blocks` to the space that it takes on disk.
    pub(crate) fn add_blocks(&mut self, geometry: &Geometry, blocks: i64) -> Result<()> {
        let unit = geometry.block_size as u64 / 512;
        let sectors = self
            .sectors(geometry)
            .checked_add_signed(blocks * unit as i64)
            .ok_or(Error::Corrupt("count of an inode's blocks"))?;
        let huge = sectors > u64::from(u32::MAX);
        if huge && !geometry.features.read_only.contains(ReadOnly::HUGE_FILE) {
            return Err(Error::TooLarge);
        }
        let in_blocks = sectors >= 1 << 48;
        let stored = if in_blocks { sectors / unit } else { sectors };
        let flags = self.flags() & !HUGE_FILE;
        self.set_flags(if in_blocks { flags | HUGE_FILE } else { flags });
        put32(&mut self.raw, 0x1c, stored as u32);
        put16(&mut self.raw, 0x74, (stored >> 32) as u16);
        Ok(())
    }

    /// The seed of the checksums of its blocks.
    pub(crate) fn seed(&self, geometry: &Geometry) -> u32 {
        let sum = crc32c(geometry.seed, &self.number.to_le_bytes());
        crc32c(sum, &self.generation().to_le_bytes())
    }

    /// The checksum, and whether its upper half is stored, too.
    fn checksum(&self, geometry: &Geometry) -> (u32, bool) {
        let wide = self.raw.len() > BASE && self.fits(SUM_HIGH - 2);
        let mut sum = crc32c(self.seed(geometry), &self.raw[..SUM_LOW]);
        sum = crc32c(sum, &[0; 2]);
        sum = crc32c(sum, &self.raw[SUM_LOW + 2..BASE]);
        if self.raw.len() > BASE {
            let rest = if wide { SUM_HIGH + 2 } else { SUM_HIGH };
            sum = crc32c(sum, &self.raw[BASE..SUM_HIGH]);
            if wide {
                sum = crc32c(sum, &[0; 2]);
            }
            sum = crc32c(sum, &self.raw[rest..]);
        }
        (sum, wide)
    }

    fn is_sound(&self, geometry: &Geometry) -> bool {
        let (sum, wide) = self.checksum(geometry);
        u16_at(&self.raw, SUM_LOW) == sum as u16
            && (!wide || u16_at(&self.raw, SUM_HIGH) == (sum >> 16) as u16)
    }

    fn seal(&mut self, geometry: &Geometry) {
        if geometry.checksums() {
            let (sum, wide) = self.checksum(geometry);
            put16(&mut self.raw, SUM_LOW, sum as u16);
            if wide {
                put16(&mut self.raw, SUM_HIGH, (sum >> 16) as u16);
            }
        }
    }
}

impl<D: Device> Fs<D> {
    /// The block of an inode, and the offset in it.
    pub(crate) fn inode_place(&mut self, number: u32) -> Result<(u64, usize)> {
        if number == 0 || number > self.geometry.inodes {
            return Err(Error::Corrupt("number of an inode"));
        }
        let (group, index) = self.inode_group(number);
        let table = self.descriptor(group)?.inode_table();
        let at = index as usize * self.geometry.inode_size;
        let size = self.geometry.block_size;
        // The table of a damaged group may be anywhere; the store rejects invalid blocks.
        Ok((table.saturating_add((at / size) as u64), at % size))
    }

    /// The group of an inode, and its index in the group.
    pub(crate) fn inode_group(&self, number: u32) -> (u32, u32) {
        let from = number - 1;
        (
            from / self.geometry.group_inodes,
            from % self.geometry.group_inodes,
        )
    }

    /// An inode that is in use, or an orphan.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is neither; [`Error::Unsupported`] if its content is encrypted or
    /// the like.
    pub fn inode(&mut self, number: u32) -> Result<Inode> {
        let inode = self.raw_inode(number)?;
        if self.geometry.checksums()
            && !self.unsealed.has_inode(number)
            && !inode.is_sound(&self.geometry)
        {
            return Err(Error::Corrupt("checksum of an inode"));
        }
        let extra = inode.extra_end();
        if inode.raw.len() > BASE && (extra > inode.raw.len() || !extra.is_multiple_of(4)) {
            return Err(Error::Corrupt("length of an inode"));
        }
        if !matches!(
            inode.mode() & TYPE,
            0o010000 | 0o020000 | DIRECTORY | 0o060000
        ) && !matches!(inode.mode() & TYPE, REGULAR | SYMLINK | 0o140000)
        {
            return Err(Error::Corrupt("type of an inode"));
        }
        if inode.has(FOREIGN | EA_INODE) {
            return Err(Error::Unsupported("flags of an inode"));
        }
        let indexes = self
            .geometry
            .features
            .compatible
            .contains(Compatible::DIR_INDEX);
        if self.geometry.checksums() && !indexes && inode.is_directory() && inode.has(INDEX) {
            // Its nodes have other checksums than those of plain directories.
            return Err(Error::Corrupt("index of a directory"));
        }
        if inode.size() > i64::MAX as u64 {
            return Err(Error::Corrupt("size of an inode"));
        }
        Ok(inode)
    }

    /// The inode that a directory entry refers to.
    pub(crate) fn named_inode(&mut self, number: u32) -> Result<Inode> {
        let inode = self.inode(number)?;
        if inode.links() == 0 {
            return Err(Error::Corrupt("name of a deleted inode"));
        }
        Ok(inode)
    }

    /// The content of an inode on disk.
    pub(crate) fn raw_inode(&mut self, number: u32) -> Result<Inode> {
        let (block, at) = self.inode_place(number)?;
        let size = self.geometry.inode_size;
        let raw = copy(&self.store.get(block)?[at..at + size])?;
        Ok(Inode { number, raw })
    }

    /// Stores an inode; the commit computes its checksum.
    pub(crate) fn set_inode(&mut self, inode: &Inode) -> Result<()> {
        let (block, at) = self.inode_place(inode.number)?;
        let more = {
            let before = &self.store.get(block)?[at..at + inode.raw.len()];
            inode.mode() & TYPE != REGULAR || !differ_by_times(before, &inode.raw)
        };
        self.note_change(inode.number, more)?;
        self.unsealed.add_inode(inode.number)?;
        put(self.store.change(block)?, at, &inode.raw);
        Ok(())
    }

    /// Stores the checksum of an inode.
    pub(crate) fn seal_inode(&mut self, number: u32) -> Result<()> {
        let (block, at) = self.inode_place(number)?;
        let mut inode = self.raw_inode(number)?;
        if let Some(block) = self.store.running_block(block) {
            inode.seal(&self.geometry);
            put(block, at, &inode.raw);
        }
        Ok(())
    }
}
