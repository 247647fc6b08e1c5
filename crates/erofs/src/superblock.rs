//! The superblock: what an image is like as a whole.

use alloc::vec::Vec;

use crc::{CRC_32_ISCSI, Crc};
use zerocopy::{FromZeros, IntoBytes};

use crate::format::{Compatible, DeviceSlot, Incompatible, MAGIC, SUPERBLOCK, Superblock};
use crate::fs::{load, read_at, zeroes};
use crate::{Device, Error, Result};

static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The size of a page, in which Linux looks for the superblock and its extension.
const PAGE: u64 = 4096;

/// What an image is like.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Its superblock.
    pub(crate) superblock: Superblock,
    /// Its features.
    pub(crate) incompatible: Incompatible,
    /// A block's size, as a shift.
    pub(crate) block_bits: u32,
    /// The first blocks of further devices, which follow on the same.
    pub(crate) devices: Vec<u32>,
    /// Blocks of all devices.
    blocks: u64,
}

impl Geometry {
    /// Reads it.
    pub(crate) fn read<D: Device>(device: &D) -> Result<Self> {
        let superblock: Superblock = load(device, SUPERBLOCK)?;
        if superblock.magic.get() != MAGIC {
            return Err(Error::Invalid("no magic number"));
        }
        let block_bits = u32::from(superblock.block_bits);
        if !(9..=12).contains(&block_bits) {
            return Err(Error::Invalid("size of a block"));
        }
        if superblock.directory_bits != 0 {
            return Err(Error::Invalid("size of a directory's block"));
        }
        check_sum(device, &superblock)?;
        let incompatible = Incompatible::from_bits(superblock.incompatible.get())
            .ok_or(Error::Invalid("unknown features"))?;
        let size = 128 + u64::from(superblock.extension_slots) * 16;
        if size > PAGE - SUPERBLOCK {
            return Err(Error::Invalid("size of the superblock"));
        }
        if !superblock.name.contains(&0) {
            return Err(Error::Corrupt("name of the volume"));
        }
        let mut geometry = Self {
            superblock,
            incompatible,
            block_bits,
            devices: Vec::new(),
            blocks: superblock.blocks.get().into(),
        };
        if incompatible.contains(Incompatible::DEVICE_TABLE) {
            geometry.read_devices(device)?;
        }
        Ok(geometry)
    }

    /// Reads where further devices lie on this one.
    fn read_devices<D: Device>(&mut self, device: &D) -> Result<()> {
        let count = usize::from(self.superblock.extra_devices.get());
        let mut at = u64::from(self.superblock.device_table.get()) * 128;
        self.devices.try_reserve_exact(count)?;
        for _ in 0..count {
            let slot: DeviceSlot = load(device, at)?;
            self.devices.push(slot.mapped.get());
            self.blocks += u64::from(slot.blocks.get());
            at += 128;
        }
        Ok(())
    }

    /// Bytes of a block: 512 to 4096.
    pub fn block_size(&self) -> usize {
        1 << self.block_bits
    }

    /// All blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How many inodes there are.
    pub fn inodes(&self) -> u64 {
        self.superblock.inodes.get()
    }

    /// The UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.superblock.uuid
    }

    /// The byte where a block begins.
    pub(crate) fn byte_of(&self, block: u32) -> u64 {
        u64::from(block) << self.block_bits
    }
}

/// Compares the checksum, if there is one, which covers the first block from the superblock on; or,
/// where a block is no larger than what is before it, as many bytes as a block has.
fn check_sum<D: Device>(device: &D, superblock: &Superblock) -> Result<()> {
    let compatible = Compatible::from_bits_retain(superblock.compatible.get());
    if !compatible.contains(Compatible::CHECKSUM) {
        return Ok(());
    }
    let block = 1usize << superblock.block_bits;
    let length = match block as u64 > SUPERBLOCK {
        true => block - SUPERBLOCK as usize,
        false => block,
    };
    let mut bytes = zeroes(length)?;
    read_at(device, SUPERBLOCK, &mut bytes)?;
    let mut summed = *superblock;
    summed.checksum.zero();
    let head = size_of::<Superblock>();
    bytes[..head].copy_from_slice(summed.as_bytes());
    // The format's sum is not inverted at the end.
    match !CRC32C.checksum(&bytes) == superblock.checksum.get() {
        true => Ok(()),
        false => Err(Error::Checksum),
    }
}
