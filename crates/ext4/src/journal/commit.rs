//! Commit writes the running transaction to the journal. Checkpoint writes the content of the
//! journal to its place, and empties the journal.
//!
//! The journal is always written from its start, since a checkpoint empties it completely.

use alloc::vec::Vec;

use super::{
    COMMIT, DESCRIPTOR, ESCAPED, HAS_64BIT, HAS_CSUM_V3, HEADER, Journal, LAST, MAGIC, REVOKE,
    SAME_UUID, TAIL, UUID,
};
use crate::bytes::{be32_at, put, put_be32, zeroes};
use crate::crc::crc32c;
use crate::{Device, Error, Fs, Result};

impl Journal {
    /// The maximum number of metadata blocks in the next transaction.
    fn room(&self) -> usize {
        let free = (self.length - self.head) as usize;
        // A descriptor of 1024 bytes has 61 tags; then there are the commit and revoke blocks.
        free.saturating_sub(4) * 60 / 61
    }

    fn new_block(&self, size: usize, kind: u32) -> Result<Vec<u8>> {
        let mut block = zeroes(size)?;
        put_be32(&mut block, 0, MAGIC);
        put_be32(&mut block, 4, kind);
        put_be32(&mut block, 8, self.sequence);
        Ok(block)
    }

    fn seal(&self, block: &mut [u8]) {
        if self.checksums() {
            let sum = self.block_sum(block);
            let at = block.len() - TAIL;
            put_be32(block, at, sum);
        }
    }

    /// Stores a tag; the first is followed by the UUID.
    fn put_tag(&self, block: &mut [u8], at: usize, target: u64, flags: u32, data: &[u8]) {
        put_be32(block, at, target as u32);
        let sum = crc32c(crc32c(self.seed, &self.sequence.to_be_bytes()), data);
        if self.features & HAS_CSUM_V3 != 0 {
            put_be32(block, at + 4, flags);
            put_be32(block, at + 8, (target >> 32) as u32);
            put_be32(block, at + 12, sum);
        } else {
            put(block, at + 6, &(flags as u16).to_be_bytes());
            if self.features & HAS_64BIT != 0 {
                put_be32(block, at + 8, (target >> 32) as u32);
            }
        }
        if flags & SAME_UUID == 0 {
            put(block, at + self.tag_size(), &self.superblock[0x30..0x40]);
        }
    }
}

impl<D: Device> Fs<D> {
    /// Puts all changes so far on the medium, so that a power cut does not undo them: the running
    /// transaction is committed to the journal. Data of files that was written before the call is
    /// there, too, because the device is flushed before the commit block.
    ///
    /// # Errors
    /// [`Error::Io`]; the file system is read-only from then on. [`Error::NoMemory`]: nothing is
    /// lost, and the next commit retries.
    pub fn commit(&mut self) -> Result<()> {
        if self.aborted {
            return Err(Error::Io);
        }
        let Some(mut journal) = self.journal.take() else {
            return self.store.device.flush();
        };
        let result = self.commit_to(&mut journal);
        self.journal = Some(journal);
        match result {
            Ok(()) => {
                self.pending.clear();
                self.changes.clear();
                self.unsealed.clear();
            }
            Err(Error::NoMemory) => {}
            Err(_) => self.abort(),
        }
        self.limit_transaction();
        result
    }

    /// Limits the running transaction to the free space in the journal.
    pub(crate) fn limit_transaction(&mut self) {
        self.store
            .set_limit(self.journal.as_ref().map_or(0, Journal::room));
    }

    /// Commits, and writes everything to its place.
    ///
    /// # Errors
    /// Those of [`Fs::commit`].
    pub fn checkpoint(&mut self) -> Result<()> {
        self.commit()?;
        let Some(mut journal) = self.journal.take() else {
            return Ok(());
        };
        let result = self.empty(&mut journal);
        self.journal = Some(journal);
        match result {
            // The journal has all of it still.
            Ok(()) | Err(Error::NoMemory) => {}
            Err(_) => self.abort(),
        }
        self.limit_transaction();
        result
    }

    fn empty(&mut self, journal: &mut Journal) -> Result<()> {
        if journal.head == journal.first {
            return Ok(());
        }
        self.store.write_back()?;
        // Until this is on the medium, the transactions may be replayed: the next one overwrites
        // them after the flush, and freed blocks are revoked.
        self.write_journal_superblock(journal, 0)?;
        self.store.device.flush()?;
        self.store.emptied();
        journal.head = journal.first;
        Ok(())
    }

    fn commit_to(&mut self, journal: &mut Journal) -> Result<()> {
        if !self.store.is_dirty() {
            return self.store.device.flush();
        }
        self.seal_changes()?;
        let (blocks, revoked) = self.store.prepare()?;
        if journal.head == journal.first {
            self.write_journal_superblock(journal, journal.first)?;
        }
        let mut at = journal.head;
        self.log_revocations(journal, &mut at, &revoked)?;
        self.log_blocks(journal, &mut at, &blocks)?;
        self.store.device.flush()?;
        let mut block = journal.new_block(self.geometry.block_size, COMMIT)?;
        put(&mut block, 0x30, &self.now.seconds.to_be_bytes());
        put_be32(&mut block, 0x38, self.now.nanoseconds);
        if journal.checksums() {
            let sum = crc32c(journal.seed, &block);
            put_be32(&mut block, 0x10, sum);
        }
        self.write_journal(journal, at, &block)?;
        self.store.device.flush()?;
        journal.head = at + 1;
        journal.sequence = journal.sequence.wrapping_add(1);
        self.store.committed(&blocks);
        if (journal.length - journal.head) < journal.length / 2 {
            match self.empty(journal) {
                // The transaction is on the medium: there will be memory when the journal is full.
                Ok(()) | Err(Error::NoMemory) => {}
                error => return error,
            }
        }
        Ok(())
    }

    fn log_revocations(&mut self, journal: &Journal, at: &mut u32, revoked: &[u64]) -> Result<()> {
        let size = self.geometry.block_size;
        let wide = journal.features & HAS_64BIT != 0;
        let entry = if wide { 8 } else { 4 };
        for part in revoked.chunks((size - HEADER - 4 - TAIL) / entry) {
            let mut block = journal.new_block(size, REVOKE)?;
            let mut used = HEADER + 4;
            for target in part {
                if wide {
                    put(&mut block, used, &target.to_be_bytes());
                } else {
                    put_be32(&mut block, used, *target as u32);
                }
                used += entry;
            }
            put_be32(&mut block, HEADER, used as u32);
            journal.seal(&mut block);
            self.log(journal, at, &block)?;
        }
        Ok(())
    }

    fn log_blocks(&mut self, journal: &Journal, at: &mut u32, blocks: &[u64]) -> Result<()> {
        let size = self.geometry.block_size;
        let tag = journal.tag_size();
        for part in blocks.chunks((size - HEADER - TAIL - UUID) / tag) {
            let mut descriptor = journal.new_block(size, DESCRIPTOR)?;
            let (place, mut used) = (*at, HEADER);
            let mut plain = Vec::new();
            plain.try_reserve_exact(part.len())?;
            *at += 1;
            for (index, target) in part.iter().enumerate() {
                let data = self.store.content(*target);
                let mut flags = if index == 0 { 0 } else { SAME_UUID };
                if index + 1 == part.len() {
                    flags |= LAST;
                }
                if be32_at(data, 0) == MAGIC {
                    // Otherwise it would be taken for a block of the journal itself.
                    let mut data = crate::bytes::copy(data)?;
                    put_be32(&mut data, 0, 0);
                    flags |= ESCAPED;
                    journal.put_tag(&mut descriptor, used, *target, flags, &data);
                    self.log(journal, at, &data)?;
                } else {
                    journal.put_tag(&mut descriptor, used, *target, flags, data);
                    if *at >= journal.length {
                        return Err(Error::JournalFull);
                    }
                    plain.push((journal.place(*at)? * size as u64, *target));
                    *at += 1;
                }
                used += tag + if index == 0 { UUID } else { 0 };
            }
            self.store.write_to(plain.into_iter())?;
            journal.seal(&mut descriptor);
            let mut place = place;
            self.log(journal, &mut place, &descriptor)?;
        }
        Ok(())
    }

    fn log(&mut self, journal: &Journal, at: &mut u32, block: &[u8]) -> Result<()> {
        if *at >= journal.length {
            return Err(Error::JournalFull);
        }
        self.write_journal(journal, *at, block)?;
        *at += 1;
        Ok(())
    }
}
