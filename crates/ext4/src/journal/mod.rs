//! The journal, JBD2 (Documentation/filesystems/ext4/journal.rst). Its numbers are big-endian.

mod commit;
mod replay;

use alloc::vec::Vec;

use crate::bytes::{be32_at, copy, push, put_be32, u8_at, zeroes};
use crate::crc::crc32c;
use crate::extent::Extent;
use crate::features::Incompatible;
use crate::inode::{REGULAR, TYPE};
use crate::{Device, Error, Fs, Result};

const MAGIC: u32 = 0xc03b_3998;
/// The size in bytes of the header of every block except data.
const HEADER: usize = 12;
/// The size of the checksum at the end of blocks in bytes.
const TAIL: usize = 4;
const UUID: usize = 16;
/// The size of the journal's superblock in bytes.
const SUPERBLOCK: usize = 1024;
const SUPERBLOCK_SUM: usize = 0xfc;
/// The offset of the number of the error that ended its use.
const FAILURE: usize = 0x20;
const CHECKSUM_TYPE: usize = 0x50;
const CRC32C: u8 = 4;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK_V2: u32 = 4;
const REVOKE: u32 = 5;

/// Features of the journal.
const HAS_REVOKE: u32 = 0x1;
const HAS_64BIT: u32 = 0x2;
const HAS_CSUM_V2: u32 = 0x8;
const HAS_CSUM_V3: u32 = 0x10;

/// Flags of a tag.
const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

/// The smallest journal that Linux creates or accepts, in blocks.
const SHORTEST: u32 = 1024;

/// The largest journal that mke2fs creates, in blocks, which limits the memory for its location.
const LONGEST: u32 = 10_240_000;

/// The number of bytes used for writing: everything that waits for a checkpoint is in memory.
const USED: usize = 32 << 20;

/// The location of the journal, and its state.
pub struct Journal {
    superblock: Vec<u8>,
    /// The location of its blocks.
    runs: Vec<Extent>,
    length: u32,
    first: u32,
    /// The block to write next.
    head: u32,
    /// The number of the next transaction.
    sequence: u32,
    features: u32,
    seed: u32,
}

impl Journal {
    fn checksums(&self) -> bool {
        self.features & (HAS_CSUM_V2 | HAS_CSUM_V3) != 0
    }

    /// The size of a tag in bytes. Version 2 of checksums has tags of an odd size, as Linux's
    /// `journal_tag_bytes` computes it.
    fn tag_size(&self) -> usize {
        if self.features & HAS_CSUM_V3 != 0 {
            return 16;
        }
        let wide = if self.features & HAS_64BIT != 0 {
            12
        } else {
            8
        };
        wide + if self.features & HAS_CSUM_V2 != 0 {
            2
        } else {
            0
        }
    }

    /// Whether the file system failed when it was last mounted; clears the error.
    pub fn take_error(&mut self) -> bool {
        let failed = be32_at(&self.superblock, FAILURE) != 0;
        put_be32(&mut self.superblock, FAILURE, 0);
        failed
    }

    /// The disk block of a block in the journal.
    fn place(&self, block: u32) -> Result<u64> {
        let after = self.runs.partition_point(|run| run.logical <= block);
        let run = after.checked_sub(1).and_then(|run| self.runs.get(run));
        run.filter(|run| block < run.end())
            .map(|run| run.physical + u64::from(block - run.logical))
            .ok_or(Error::Corrupt("block of the journal"))
    }

    fn block_sum(&self, block: &[u8]) -> u32 {
        let at = block.len() - TAIL;
        crc32c(crc32c(self.seed, &block[..at]), &[0; TAIL])
    }

    fn seal_superblock(&mut self) {
        if self.checksums() {
            put_be32(&mut self.superblock, SUPERBLOCK_SUM, 0);
            let sum = crc32c(!0, &self.superblock);
            put_be32(&mut self.superblock, SUPERBLOCK_SUM, sum);
        }
    }
}

impl<D: Device> Fs<D> {
    /// Finds and checks the journal.
    pub(crate) fn open_journal(&mut self) -> Result<Journal> {
        if self.geometry.journal == 0 {
            return Err(Error::Unsupported("journal on another device"));
        }
        let inode = self.inode(self.geometry.journal)?;
        if inode.mode() & TYPE != REGULAR {
            return Err(Error::Corrupt("inode of the journal"));
        }
        let first = self.must_map(&inode, 0)?;
        let superblock = copy(&self.store.get(first)?[..SUPERBLOCK])?;
        let field = |at| be32_at(&superblock, at);
        if field(0) != MAGIC || field(4) != SUPERBLOCK_V2 {
            return Err(Error::Corrupt("superblock of the journal"));
        }
        let (length, features) = (field(0x10), field(0x28));
        if features & !(HAS_REVOKE | HAS_64BIT | HAS_CSUM_V2 | HAS_CSUM_V3) != 0 {
            return Err(Error::Unsupported("feature of the journal"));
        }
        if field(0xc) as usize != self.geometry.block_size
            || !(SHORTEST..=LONGEST).contains(&length)
            || u64::from(length) > self.geometry.blocks
            || u64::from(length) > inode.size() / self.geometry.block_size as u64
            || field(0x14) == 0
            || field(0x14) >= length / 2
            || field(0x1c) >= length
        {
            return Err(Error::Corrupt("superblock of the journal"));
        }
        let mut runs: Vec<Extent> = Vec::new();
        let mut at = 0;
        while at < length {
            match self.map(&inode, at)? {
                Some(extent) if extent.written => {
                    at = extent.end();
                    match runs.last_mut() {
                        Some(last) if last.physical + u64::from(last.length) == extent.physical => {
                            last.length += extent.length;
                        }
                        _ => push(&mut runs, extent)?,
                    }
                }
                _ => return Err(Error::Corrupt("hole in the journal")),
            }
        }
        let mut journal = Journal {
            runs,
            length,
            first: field(0x14),
            head: field(0x14),
            sequence: field(0x18),
            features,
            seed: crc32c(!0, &superblock[0x30..0x40]),
            superblock,
        };
        if journal.checksums() {
            let sum = be32_at(&journal.superblock, SUPERBLOCK_SUM);
            journal.seal_superblock();
            if u8_at(&journal.superblock, CHECKSUM_TYPE) != CRC32C
                || be32_at(&journal.superblock, SUPERBLOCK_SUM) != sum
            {
                return Err(Error::Corrupt("checksum of the journal's superblock"));
            }
        }
        Ok(journal)
    }

    /// Sets the features of the empty journal for writing, and its length: the end of a long one is
    /// never used.
    pub(crate) fn prepare_journal(&mut self, journal: &mut Journal) -> Result<()> {
        let most = (USED / self.geometry.block_size) as u32;
        journal.length = journal.length.min(most.max(SHORTEST));
        for run in &journal.runs {
            self.zones.add(run.physical, u64::from(run.length))?;
        }
        self.zones.finish()?;
        let mut features = HAS_REVOKE;
        if self
            .geometry
            .features
            .incompatible
            .contains(Incompatible::BIT64)
        {
            features |= HAS_64BIT;
        }
        if self.geometry.checksums() {
            features |= HAS_CSUM_V3;
            crate::bytes::put(&mut journal.superblock, CHECKSUM_TYPE, &[CRC32C]);
        }
        journal.features = features;
        put_be32(&mut journal.superblock, 0x28, features);
        // Checksums of whole transactions, which existed before version 2.
        put_be32(&mut journal.superblock, 0x24, 0);
        self.write_journal_superblock(journal, 0)?;
        self.store.device.flush()
    }

    /// Records in the journal that the file system has failed.
    pub(crate) fn write_journal_error(&mut self, journal: &mut Journal) -> Result<()> {
        // Linux stores EIO as a negative number.
        put_be32(&mut journal.superblock, FAILURE, -5i32 as u32);
        self.store_journal_superblock(journal)?;
        self.store.device.flush()
    }

    /// Records where the transactions begin that are not in their places yet; 0 if there are none.
    fn write_journal_superblock(&mut self, journal: &mut Journal, start: u32) -> Result<()> {
        let before = [0x18, 0x1c].map(|at| be32_at(&journal.superblock, at));
        let set = |journal: &mut Journal, [sequence, start]: [u32; 2]| {
            put_be32(&mut journal.superblock, 0x18, sequence);
            put_be32(&mut journal.superblock, 0x1c, start);
        };
        let sequence = journal.sequence;
        set(journal, [sequence, start]);
        let done = self.store_journal_superblock(journal);
        if done.is_err() {
            // If something else is stored next, such as an error, it must match the medium.
            set(journal, before);
        }
        done
    }

    fn store_journal_superblock(&mut self, journal: &mut Journal) -> Result<()> {
        journal.seal_superblock();
        let mut block = zeroes(self.geometry.block_size)?;
        block[..SUPERBLOCK].copy_from_slice(&journal.superblock);
        self.write_journal(journal, 0, &block)
    }

    fn write_journal(&mut self, journal: &Journal, block: u32, content: &[u8]) -> Result<()> {
        let at = journal.place(block)? * self.geometry.block_size as u64;
        self.store.device.write(at, content)
    }

    fn read_journal(&mut self, journal: &Journal, block: u32, into: &mut [u8]) -> Result<()> {
        let at = journal.place(block)? * self.geometry.block_size as u64;
        self.store.device.read(at, into)
    }
}
