//! Replay: writes transactions that were committed, but not written to their places, to those
//! places.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::{
    COMMIT, DESCRIPTOR, ESCAPED, HAS_64BIT, HAS_CSUM_V3, HEADER, Journal, LAST, MAGIC, REVOKE,
    SAME_UUID, TAIL, UUID,
};
use crate::bytes::{be16_at, be32_at, push, put_be32, zeroes};
use crate::crc::crc32c;
use crate::{Device, Error, Fs, Result};

const COMMIT_SUM: usize = 0x10;

/// A block in the journal.
struct Logged {
    sequence: u32,
    /// Its place on the disk.
    target: u64,
    /// Its block in the journal.
    source: u32,
    escaped: bool,
    sum: u32,
}

/// The content of the complete transactions in a journal.
#[derive(Default)]
struct Log {
    blocks: Vec<Logged>,
    /// By block, the last transaction that revokes it. A block that was not logged before needs no
    /// revocation, so this takes no more memory than the journal.
    revoked: HashMap<u64, Option<u32>>,
}

impl Log {
    /// Adds the blocks of a complete transaction.
    fn take(&mut self, blocks: &mut Vec<Logged>) -> Result<()> {
        self.revoked.try_reserve(blocks.len())?;
        for logged in blocks.iter() {
            self.revoked.entry(logged.target).or_default();
        }
        self.blocks.try_reserve(blocks.len())?;
        self.blocks.append(blocks);
        Ok(())
    }
}

/// Whether a transaction is not before another; their numbers wrap around.
fn not_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 >= 0
}

impl Journal {
    fn next(&self, block: u32) -> u32 {
        if block + 1 == self.length {
            self.first
        } else {
            block + 1
        }
    }

    /// The tags of a descriptor, whose data starts at `source`, and the end of the data.
    fn tags(&self, block: &[u8], sequence: u32, mut source: u32) -> Result<(Vec<Logged>, u32)> {
        let size = self.tag_size();
        let end = block.len() - if self.checksums() { TAIL } else { 0 };
        let (mut at, mut found) = (HEADER, Vec::new());
        loop {
            if at + size > end {
                return Err(Error::Corrupt("descriptor of the journal"));
            }
            let v3 = self.features & HAS_CSUM_V3 != 0;
            let (flags, sum, high) = if v3 {
                (
                    be32_at(block, at + 4),
                    be32_at(block, at + 12),
                    be32_at(block, at + 8),
                )
            } else {
                let flags = u32::from(be16_at(block, at + 6));
                (
                    flags,
                    u32::from(be16_at(block, at + 4)),
                    be32_at(block, at + 8),
                )
            };
            let high = if self.features & HAS_64BIT != 0 {
                u64::from(high)
            } else {
                0
            };
            push(
                &mut found,
                Logged {
                    sequence,
                    target: u64::from(be32_at(block, at)) | high << 32,
                    source,
                    escaped: flags & ESCAPED != 0,
                    sum,
                },
            )?;
            source = self.next(source);
            at += size + if flags & SAME_UUID == 0 { UUID } else { 0 };
            if flags & LAST != 0 {
                return Ok((found, source));
            }
        }
    }

    /// The blocks that a revoke block names.
    fn revocations(&self, block: &[u8], sequence: u32, log: &mut Log) -> Result<()> {
        let wide = self.features & HAS_64BIT != 0;
        let used = be32_at(block, HEADER) as usize;
        let end = block.len() - if self.checksums() { TAIL } else { 0 };
        if used > end || used < HEADER + 4 {
            return Err(Error::Corrupt("revoke block of the journal"));
        }
        for at in (HEADER + 4..used).step_by(if wide { 8 } else { 4 }) {
            let target = if wide {
                u64::from(be32_at(block, at)) << 32 | u64::from(be32_at(block, at + 4))
            } else {
                u64::from(be32_at(block, at))
            };
            if let Some(last) = log.revoked.get_mut(&target) {
                *last = Some(sequence);
            }
        }
        Ok(())
    }

    fn is_sealed(&self, block: &[u8]) -> bool {
        !self.checksums() || be32_at(block, block.len() - TAIL) == self.block_sum(block)
    }

    fn is_commit_sealed(&self, block: &[u8]) -> bool {
        let sum = crc32c(crc32c(self.seed, &block[..COMMIT_SUM]), &[0; 4]);
        !self.checksums() || be32_at(block, COMMIT_SUM) == crc32c(sum, &block[COMMIT_SUM + 4..])
    }

    /// Whether a block of data matches its tag.
    fn is_data_sound(&self, block: &[u8], logged: &Logged) -> bool {
        let sum = crc32c(crc32c(self.seed, &logged.sequence.to_be_bytes()), block);
        if !self.checksums() {
            true
        } else if self.features & HAS_CSUM_V3 != 0 {
            logged.sum == sum
        } else {
            logged.sum == sum & 0xffff
        }
    }
}

impl<D: Device> Fs<D> {
    /// Replays the journal and empties it. The caller updates the flag in the superblock that
    /// requests a replay.
    pub(crate) fn replay(&mut self, journal: &mut Journal) -> Result<()> {
        let start = be32_at(&journal.superblock, 0x1c);
        if start != 0 {
            let log = self.scan(journal, start)?;
            self.write_log(journal, &log)?;
            self.store.device.flush()?;
            // Skip one number, since the journal may contain the start of a transaction with that
            // number.
            journal.sequence = journal.sequence.wrapping_add(1);
        }
        self.write_journal_superblock(journal, 0)?;
        self.store.device.flush()
    }

    /// Reads the transactions from `start` on, up to the first incomplete one.
    fn scan(&mut self, journal: &mut Journal, start: u32) -> Result<Log> {
        let mut log = Log::default();
        let (mut blocks, mut revokes) = (Vec::new(), Vec::new());
        let mut block = zeroes(self.geometry.block_size)?;
        let mut at = start;
        let mut left = journal.length;
        if start < journal.first {
            return Err(Error::Corrupt("start of the journal"));
        }
        while left > 0 {
            self.read_journal(journal, at, &mut block)?;
            let sequence = journal.sequence;
            if be32_at(&block, 0) != MAGIC || be32_at(&block, 8) != sequence {
                break;
            }
            left -= 1;
            let here = at;
            at = journal.next(at);
            match be32_at(&block, 4) {
                DESCRIPTOR if journal.is_sealed(&block) => {
                    let (tags, end) = journal.tags(&block, sequence, at)?;
                    left = left.saturating_sub(tags.len() as u32);
                    at = end;
                    blocks.try_reserve(tags.len())?;
                    blocks.extend(tags);
                }
                REVOKE if journal.is_sealed(&block) => push(&mut revokes, here)?,
                COMMIT if journal.is_commit_sealed(&block) => {
                    log.take(&mut blocks)?;
                    for at in revokes.drain(..) {
                        self.read_journal(journal, at, &mut block)?;
                        journal.revocations(&block, sequence, &mut log)?;
                    }
                    journal.sequence = sequence.wrapping_add(1);
                }
                _ => break,
            }
        }
        Ok(log)
    }

    fn write_log(&mut self, journal: &Journal, log: &Log) -> Result<()> {
        let size = self.geometry.block_size as u64;
        let mut block = zeroes(self.geometry.block_size)?;
        for logged in &log.blocks {
            let revoked = log.revoked.get(&logged.target).copied().flatten();
            if revoked.is_some_and(|revoked| not_before(revoked, logged.sequence)) {
                continue;
            }
            if logged.target >= self.geometry.blocks {
                return Err(Error::Corrupt("number of a block in the journal"));
            }
            self.read_journal(journal, logged.source, &mut block)?;
            if !journal.is_data_sound(&block, logged) {
                return Err(Error::Corrupt("checksum of a block in the journal"));
            }
            if logged.escaped {
                put_be32(&mut block, 0, MAGIC);
            }
            self.store.device.write(logged.target * size, &block)?;
        }
        Ok(())
    }
}
