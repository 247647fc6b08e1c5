//! The superblock (Documentation/filesystems/ext4/super.rst): reads and checks the geometry.

use crate::bytes::{put16, put32, split_at, u8_at, u16_at, u32_at};
use crate::crc::crc32c;
use crate::features::{Compatible, Features, Incompatible, ReadOnly};
use crate::{Error, Errors, ROOT, Result};

/// The offset of the superblock on the device.
pub const OFFSET: u64 = 1024;
/// Its size in bytes.
pub const SIZE: usize = 1024;
const MAGIC: u16 = 0xef53;
const CHECKSUM: usize = 0x3fc;
const STATE: usize = 0x3a;
const HAS_ERRORS: u16 = 2;
const LAST_ORPHAN: usize = 0xe8;
const COMPATIBLE: usize = 0x5c;
const INCOMPATIBLE: usize = 0x60;
const READ_ONLY: usize = 0x64;

/// The geometry of a file system; it does not change while mounted.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// The features that it uses.
    pub features: Features,
    /// The size of a block in bytes, from 1024 to 65536.
    pub block_size: usize,
    /// The number of blocks.
    pub blocks: u64,
    /// The number of blocks that only root may take.
    pub reserved: u64,
    /// A user and a group that may also take them.
    pub reserved_owner: (u16, u16),
    /// The block of the superblock, at the start of group 0.
    pub first_block: u64,
    /// The number of blocks in a group.
    pub group_blocks: u32,
    /// The number of inodes in a group.
    pub group_inodes: u32,
    /// The number of groups.
    pub groups: u32,
    /// The number of inodes.
    pub inodes: u32,
    /// The first inode that is not reserved.
    pub first_inode: u32,
    /// The size of an inode on disk in bytes.
    pub inode_size: usize,
    /// The size in bytes of the fields of a new inode beyond the first 128.
    pub extra_size: u16,
    /// The size of a group descriptor in bytes.
    pub descriptor_size: usize,
    /// The number of reserved blocks after the group descriptors, for more of them.
    pub reserved_descriptors: u32,
    /// The first block of descriptors that is inside its groups (`META_BG`).
    pub first_meta_group: u32,
    /// The groups with copies of the superblock (`SPARSE_SUPER2`).
    pub backups: [u32; 2],
    /// The inode of the journal.
    pub journal: u32,
    /// The reaction to damage.
    pub errors: Errors,
    /// The inode of the orphan file, or 0.
    pub orphan_file: u32,
    /// The seed of the hashes of names in directories.
    pub hash_seed: [u32; 4],
    /// The hash version of a new index.
    pub hash_version: u8,
    /// Whether the hash treats characters as unsigned.
    pub hash_unsigned: bool,
    /// The UUID of the file system.
    pub uuid: [u8; 16],
    /// The seed of metadata checksums.
    pub seed: u32,
}

impl Geometry {
    /// Parses and checks `block`, the superblock of a device of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Unsupported`].
    pub fn parse(block: &[u8], size: u64) -> Result<Self> {
        if u16_at(block, 0x38) != MAGIC {
            return Err(Error::Corrupt("magic number of the superblock"));
        }
        let features = Features {
            compatible: Compatible::from_bits_retain(u32_at(block, COMPATIBLE)),
            incompatible: Incompatible::from_bits_retain(u32_at(block, INCOMPATIBLE)),
            read_only: ReadOnly::from_bits_retain(u32_at(block, READ_ONLY)),
        };
        if u32_at(block, 0x4c) == 0 {
            return Err(Error::Unsupported("revision 0"));
        }
        features.check_reading()?;
        let checksums = features.read_only.contains(ReadOnly::METADATA_CSUM);
        if checksums && u32_at(block, CHECKSUM) != crc32c(!0, &block[..CHECKSUM]) {
            return Err(Error::Corrupt("checksum of the superblock"));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&block[0x68..0x78]);
        let shift = u32_at(block, 0x18);
        if shift > 6 {
            return Err(Error::Corrupt("size of a block"));
        }
        let wide = features.incompatible.contains(Incompatible::BIT64);
        let high = |at| if wide { at } else { SIZE };
        let block_size = 1024usize << shift;
        let mut this = Self {
            features,
            block_size,
            blocks: split_at(block, 0x4, high(0x150)),
            reserved: split_at(block, 0x8, high(0x154)),
            reserved_owner: (u16_at(block, 0x50), u16_at(block, 0x52)),
            first_block: u64::from(u32_at(block, 0x14)),
            group_blocks: u32_at(block, 0x20),
            group_inodes: u32_at(block, 0x28),
            groups: 0,
            inodes: u32_at(block, 0),
            first_inode: u32_at(block, 0x54),
            inode_size: usize::from(u16_at(block, 0x58)),
            extra_size: u16_at(block, 0x15e).max(u16_at(block, 0x15c)),
            descriptor_size: if wide {
                usize::from(u16_at(block, 0xfe))
            } else {
                32
            },
            reserved_descriptors: u32::from(u16_at(block, 0xce)),
            first_meta_group: u32_at(block, 0x104),
            backups: [u32_at(block, 0x24c), u32_at(block, 0x250)],
            journal: u32_at(block, 0xe0),
            errors: Errors::from_superblock(u16_at(block, 0x3c)),
            orphan_file: u32_at(block, 0x280),
            hash_seed: [0, 1, 2, 3].map(|word| u32_at(block, 0xec + word * 4)),
            hash_version: u8_at(block, 0xfc),
            hash_unsigned: u32_at(block, 0x160) & 2 != 0,
            uuid,
            seed: if features.incompatible.contains(Incompatible::CSUM_SEED) {
                u32_at(block, 0x270)
            } else {
                crc32c(!0, &uuid)
            },
        };
        this.check(size)?;
        Ok(this)
    }

    fn check(&mut self, size: u64) -> Result<()> {
        let bits = self.block_size as u32 * 8;
        let wide = self.features.incompatible.contains(Incompatible::BIT64);
        let least = if wide { 64 } else { 32 };
        let sizes = self.first_block == u64::from(self.block_size == 1024)
            && self.inode_size.is_power_of_two()
            && (128..=self.block_size).contains(&self.inode_size)
            && (least..=self.block_size.min(1024)).contains(&self.descriptor_size)
            && self.descriptor_size.is_power_of_two()
            // mke2fs never makes fewer; this limits what is kept per group.
            && (256..=bits).contains(&self.group_blocks)
            && (1..=bits).contains(&self.group_inodes)
            && self.group_blocks.is_multiple_of(8)
            && self.group_inodes.is_multiple_of(8)
            && self.first_inode >= 11
            && self.reserved_descriptors as usize <= self.block_size / 4;
        if !sizes || self.blocks <= self.first_block || self.blocks > 1 << 48 {
            return Err(Error::Corrupt("geometry"));
        }
        if self.blocks > size / self.block_size as u64 {
            return Err(Error::Corrupt("more blocks than the device has"));
        }
        let groups = (self.blocks - self.first_block).div_ceil(u64::from(self.group_blocks));
        self.groups = u32::try_from(groups).map_err(|_| Error::Corrupt("number of groups"))?;
        if u64::from(self.groups) * u64::from(self.group_inodes) != u64::from(self.inodes)
            || self.first_inode > self.inodes
        {
            return Err(Error::Corrupt("number of inodes"));
        }
        // Linux gives new inodes the fields that it knows, whatever the superblock requests.
        let room = self.inode_size.saturating_sub(128);
        self.extra_size = self.extra_size.max(32).min(room as u16) & !3;
        Ok(())
    }

    /// Whether metadata has CRC-32C checksums.
    pub fn checksums(&self) -> bool {
        self.features.read_only.contains(ReadOnly::METADATA_CSUM)
    }

    /// Whether group descriptors have checksums, and with them flags and counts of what was never
    /// used.
    pub fn checks_groups(&self) -> bool {
        let either = ReadOnly::METADATA_CSUM | ReadOnly::GDT_CSUM;
        self.features.read_only.intersects(either)
    }

    /// The block of the superblock, and the offset in it.
    pub fn superblock(&self) -> (u64, usize) {
        (
            OFFSET / self.block_size as u64,
            (OFFSET % self.block_size as u64) as usize,
        )
    }

    /// Whether a directory may have a name for an inode: for the root, and for inodes that are not
    /// reserved.
    pub fn may_be_named(&self, inode: u32) -> bool {
        let special = inode == self.journal || inode == self.orphan_file;
        inode == ROOT || (inode >= self.first_inode && !special)
    }

    /// The number of blocks of a group's inode table.
    pub fn table_blocks(&self) -> u64 {
        (self.group_inodes as usize * self.inode_size).div_ceil(self.block_size) as u64
    }

    /// The first block of a group.
    pub fn group_start(&self, group: u32) -> u64 {
        self.first_block + u64::from(group) * u64::from(self.group_blocks)
    }

    /// The number of blocks in a group: the last one may have fewer.
    pub fn blocks_in(&self, group: u32) -> u32 {
        (self.blocks - self.group_start(group)).min(u64::from(self.group_blocks)) as u32
    }

    /// The group of a block, and its index in the group.
    pub fn group_of(&self, block: u64) -> Result<(u32, u32)> {
        if block < self.first_block || block >= self.blocks {
            return Err(Error::Corrupt("number of a block"));
        }
        let from = block - self.first_block;
        let size = u64::from(self.group_blocks);
        Ok(((from / size) as u32, (from % size) as u32))
    }

    /// Whether a group has a copy of the superblock.
    pub fn has_superblock(&self, group: u32) -> bool {
        if self.features.compatible.contains(Compatible::SPARSE_SUPER2) {
            return group == 0 || self.backups.contains(&group);
        }
        if group <= 1 || !self.features.read_only.contains(ReadOnly::SPARSE_SUPER) {
            return true;
        }
        [3u32, 5, 7].into_iter().any(|base| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        })
    }

    /// The number of descriptors in a block.
    pub fn descriptors_in_block(&self) -> u32 {
        (self.block_size / self.descriptor_size) as u32
    }

    /// Whether a block of descriptors is inside its groups.
    pub fn in_meta_group(&self, descriptor_block: u32) -> bool {
        self.features.incompatible.contains(Incompatible::META_BG)
            && descriptor_block >= self.first_meta_group
    }
}

/// Stores the checksum.
pub fn seal(block: &mut [u8], geometry: &Geometry) {
    if geometry.checksums() {
        let sum = crc32c(!0, &block[..CHECKSUM]);
        put32(block, CHECKSUM, sum);
    }
}

/// The number of free blocks.
pub fn free_blocks(block: &[u8], geometry: &Geometry) -> u64 {
    let wide = geometry.features.incompatible.contains(Incompatible::BIT64);
    split_at(block, 0xc, if wide { 0x158 } else { SIZE })
}

/// Sets the number of free blocks.
pub fn set_free_blocks(block: &mut [u8], geometry: &Geometry, free: u64) {
    put32(block, 0xc, free as u32);
    if geometry.features.incompatible.contains(Incompatible::BIT64) {
        put32(block, 0x158, (free >> 32) as u32);
    }
}

/// The number of blocks that files cannot use, or 0 if that is not stored.
pub fn overhead(block: &[u8]) -> u64 {
    u64::from(u32_at(block, 0x248))
}

/// The number of free inodes.
pub fn free_inodes(block: &[u8]) -> u32 {
    u32_at(block, 0x10)
}

/// Sets the number of free inodes.
pub fn set_free_inodes(block: &mut [u8], free: u32) {
    put32(block, 0x10, free);
}

/// The first inode of the list of orphans, or 0.
pub fn last_orphan(block: &[u8]) -> u32 {
    u32_at(block, LAST_ORPHAN)
}

/// Sets the first inode of the list of orphans.
pub fn set_last_orphan(block: &mut [u8], inode: u32) {
    put32(block, LAST_ORPHAN, inode);
}

/// Records that damage was found at `time`, in seconds since 1970: the next check is a full one.
pub fn count_error(block: &mut [u8], time: u32) {
    put16(block, STATE, u16_at(block, STATE) | HAS_ERRORS);
    let errors = u32_at(block, 0x194);
    if errors == 0 {
        put32(block, 0x198, time);
    }
    put32(block, 0x194, errors.saturating_add(1));
    put32(block, 0x1cc, time);
}

/// Whether damage was found since the last check.
pub fn has_errors(block: &[u8]) -> bool {
    u16_at(block, STATE) & HAS_ERRORS != 0
}

/// Whether the journal must be replayed.
pub fn needs_recovery(block: &[u8]) -> bool {
    u32_at(block, INCOMPATIBLE) & Incompatible::RECOVER.bits() != 0
}

/// Records whether the journal must be replayed.
pub fn set_recovery(block: &mut [u8], needed: bool) {
    let others = u32_at(block, INCOMPATIBLE) & !Incompatible::RECOVER.bits();
    let flag = if needed {
        Incompatible::RECOVER.bits()
    } else {
        0
    };
    put32(block, INCOMPATIBLE, others | flag);
}

/// Records that the orphan file is empty.
pub fn clear_orphan_present(block: &mut [u8]) {
    let others = u32_at(block, READ_ONLY) & !ReadOnly::ORPHAN_PRESENT.bits();
    put32(block, READ_ONLY, others);
}

/// Records that there are files of 2 GiB and more.
pub fn set_large_file(block: &mut [u8]) {
    let with = u32_at(block, READ_ONLY) | ReadOnly::LARGE_FILE.bits();
    put32(block, READ_ONLY, with);
}

/// Whether the superblock declares that inodes have attributes.
pub fn has_attributes(block: &[u8]) -> bool {
    u32_at(block, COMPATIBLE) & Compatible::ATTRIBUTES.bits() != 0
}

/// Records that inodes have attributes.
pub fn set_attributes(block: &mut [u8]) {
    let with = u32_at(block, COMPATIBLE) | Compatible::ATTRIBUTES.bits();
    put32(block, COMPATIBLE, with);
}

/// Counts a mount at `time`, in seconds since 1970.
pub fn count_mount(block: &mut [u8], time: u32) {
    put32(block, 0x2c, time);
    let mounts = u16_at(block, 0x34).wrapping_add(1);
    put16(block, 0x34, mounts);
}
