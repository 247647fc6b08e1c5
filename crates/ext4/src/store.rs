//! Metadata blocks in memory, and the running transaction.
//!
//! A block is read once, checked by its first reader, and kept. If an operation fails, its changes
//! are undone: its first change of a block saves the old content. So a full disk, a damaged block
//! or a lack of memory in the middle of an operation leaves nothing half done.
//!
//! A changed block belongs to the running transaction until that is committed. From then until the
//! checkpoint, its content is in the journal and not yet in its place.

use alloc::vec::Vec;
use core::mem::take;

use hashbrown::{HashMap, HashSet};

use crate::bytes::{copy, push, zeroes};
use crate::seal::Seal;
use crate::{Device, Error, Result};

/// Clean blocks are dropped when this many bytes of blocks are in memory, or twice as many as must
/// stay.
const KEPT: usize = 4 << 20;

/// A block of the journal has room for more than this number of revocations.
const REVOKED_IN_BLOCK: usize = 64;

/// The number of blocks passed to the device at once.
const AT_ONCE: usize = 64;

/// The kind of content as which a block was found valid, and for which owner.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// None so far.
    #[default]
    Unknown,
    /// A node of an extent tree, whose checksums have this seed.
    Extents(u32),
    /// A block of a directory.
    Directory {
        /// The directory.
        inode: u32,
        /// Whether it is its first block.
        first: bool,
        /// Whether it has an index.
        indexed: bool,
    },
    /// An attribute block.
    Attributes,
    /// A bitmap of blocks or inodes.
    Bitmap,
}

impl Kind {
    /// Whether it belongs to a directory with an index.
    pub fn is_indexed(self) -> bool {
        matches!(self, Kind::Directory { indexed: true, .. })
    }
}

#[derive(Default)]
struct Buffer {
    /// Empty if the block was freed.
    data: Vec<u8>,
    checked: Kind,
    /// How the missing checksum is to be computed.
    unsealed: Option<Seal>,
    running: bool,
    /// Its content is in the journal but not yet in its place.
    committed: bool,
    /// The journal contains some version of it that a replay would write.
    journalled: bool,
    /// The operation that last changed it.
    changed_by: u64,
}

impl Buffer {
    fn seal(&mut self) {
        if let Some(seal) = self.unsealed.take() {
            seal.apply(&mut self.data);
        }
    }
}

/// The blocks of one device.
pub struct Store<D> {
    /// The device.
    pub device: D,
    block_size: usize,
    blocks: u64,
    buffers: HashMap<u64, Buffer>,
    /// The blocks of the running transaction, and some that no longer belong to it.
    running: Vec<u64>,
    /// The blocks that wait for the checkpoint, and some that no longer do.
    committed: Vec<u64>,
    /// The blocks whose content in the journal must not be replayed.
    revoked: HashSet<u64>,
    operation: u64,
    undo: Vec<(u64, Buffer)>,
    undo_revoked: Vec<(u64, bool)>,
    limit: usize,
    used: usize,
    /// The number of blocks above which clean ones are dropped.
    most: usize,
    /// The length of `running` before the running operation.
    running_before: usize,
}

impl<D: Device> Store<D> {
    /// A store for the blocks of `device`.
    pub fn new(device: D, block_size: usize, blocks: u64) -> Self {
        Self {
            device,
            block_size,
            blocks,
            buffers: HashMap::new(),
            running: Vec::new(),
            committed: Vec::new(),
            revoked: HashSet::new(),
            operation: 1,
            undo: Vec::new(),
            undo_revoked: Vec::new(),
            limit: usize::MAX,
            used: 0,
            most: KEPT / block_size,
            running_before: 0,
        }
    }

    /// Sets the maximum number of blocks in the running transaction.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    fn load(&mut self, block: u64) -> Result<()> {
        if block >= self.blocks {
            return Err(Error::Corrupt("number of a block"));
        }
        if self
            .buffers
            .get(&block)
            .is_some_and(|held| !held.data.is_empty())
        {
            return Ok(());
        }
        self.drop_some();
        let mut data = zeroes(self.block_size)?;
        self.device
            .read(block * self.block_size as u64, &mut data)?;
        self.place(block)?.data = data;
        Ok(())
    }

    /// Drops clean blocks, so that reads do not take all memory. What the running operation has
    /// changed stays, for [`Store::undo`].
    fn drop_some(&mut self) {
        if self.buffers.len() >= self.most {
            let operation = self.operation;
            self.buffers.retain(|_, buffer| {
                buffer.running || buffer.journalled || buffer.changed_by == operation
            });
            self.most = (KEPT / self.block_size).max(self.buffers.len() * 2);
        }
    }

    fn place(&mut self, block: u64) -> Result<&mut Buffer> {
        self.buffers.try_reserve(1)?;
        Ok(self.buffers.entry(block).or_default())
    }

    /// The content of a block.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a block that is not on the device, [`Error::Io`].
    pub fn get(&mut self, block: u64) -> Result<&[u8]> {
        self.load(block)?;
        Ok(&self.place(block)?.data)
    }

    /// The content of a block, after `check` has accepted it if it was read from the device.
    ///
    /// # Errors
    /// Those of [`Store::get`] and of `check`.
    pub fn checked(
        &mut self,
        block: u64,
        kind: Kind,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<&[u8]> {
        self.load(block)?;
        let buffer = self.place(block)?;
        if buffer.checked != kind {
            buffer.seal();
            check(&buffer.data)?;
            buffer.checked = kind;
        }
        Ok(&buffer.data)
    }

    /// A block to change in the running operation. The next reader checks it again, so its checksum
    /// must be stored before that.
    ///
    /// # Errors
    /// Those of [`Store::get`]; [`Error::JournalFull`].
    pub fn change(&mut self, block: u64) -> Result<&mut [u8]> {
        self.load(block)?;
        self.touch(block)?;
        let buffer = self.place(block)?;
        buffer.checked = Kind::Unknown;
        Ok(&mut buffer.data)
    }

    /// A block to change in the running operation, which is valid as `kind` afterwards. Its
    /// checksum is computed before it is committed, or read as another kind.
    ///
    /// # Errors
    /// Those of [`Store::change`].
    pub fn change_as(&mut self, block: u64, kind: Kind, seal: Option<Seal>) -> Result<&mut [u8]> {
        self.load(block)?;
        self.touch(block)?;
        let buffer = self.place(block)?;
        buffer.checked = kind;
        buffer.unsealed = seal;
        Ok(&mut buffer.data)
    }

    /// A block that the running transaction has changed, for storing checksums in it, which are not
    /// undone, since they are correct as long as it stays so.
    pub fn running_block(&mut self, block: u64) -> Option<&mut [u8]> {
        let held = self.buffers.get_mut(&block);
        held.filter(|buffer| buffer.running)
            .map(|buffer| &mut *buffer.data)
    }

    /// A newly allocated block, filled with zeroes.
    ///
    /// # Errors
    /// [`Error::JournalFull`], [`Error::NoMemory`].
    pub fn create(&mut self, block: u64) -> Result<&mut [u8]> {
        if block >= self.blocks {
            return Err(Error::Corrupt("number of a block"));
        }
        let data = zeroes(self.block_size)?;
        self.touch(block)?;
        if self.revoked.contains(&block) {
            push(&mut self.undo_revoked, (block, true))?;
            self.revoked.remove(&block);
        }
        let buffer = self.place(block)?;
        buffer.data = data;
        buffer.checked = Kind::Unknown;
        buffer.unsealed = None;
        Ok(&mut buffer.data)
    }

    /// Saves the data that undoes a change of the block, and adds it to the running transaction.
    fn touch(&mut self, block: u64) -> Result<()> {
        let operation = self.operation;
        let buffer = self.place(block)?;
        if buffer.changed_by == operation {
            if !buffer.running {
                buffer.running = true;
                self.used += 1;
                push(&mut self.running, block)?;
            }
            return Ok(());
        }
        let before = Buffer {
            data: copy(&buffer.data)?,
            ..*buffer
        };
        let running = buffer.running;
        if !running && self.used + self.revoked.len() / REVOKED_IN_BLOCK >= self.limit {
            return Err(Error::JournalFull);
        }
        push(&mut self.undo, (block, before))?;
        if !running {
            push(&mut self.running, block)?;
            self.used += 1;
        }
        let buffer = self.place(block)?;
        buffer.changed_by = operation;
        buffer.running = true;
        Ok(())
    }

    /// Forgets a metadata block that was freed: it is not written any more, and its content in the
    /// journal is revoked, because its next owner may be a file, whose data is not journalled.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::JournalFull`].
    pub fn forget(&mut self, block: u64) -> Result<()> {
        if !self.buffers.contains_key(&block) {
            // Neither the transaction nor the journal contains it.
            return Ok(());
        }
        let operation = self.operation;
        // Revocations also take room.
        if self.used + self.revoked.len() / REVOKED_IN_BLOCK >= self.limit {
            return Err(Error::JournalFull);
        }
        self.revoked.try_reserve(1)?;
        self.undo.try_reserve(1)?;
        self.undo_revoked.try_reserve(1)?;
        let buffer = self.place(block)?;
        let journalled = buffer.journalled;
        let gone = Buffer {
            changed_by: operation,
            journalled,
            ..Buffer::default()
        };
        let before = core::mem::replace(buffer, gone);
        let running = before.running;
        if before.changed_by != operation {
            self.undo.push((block, before));
        }
        if running {
            self.used -= 1;
        }
        if journalled && self.revoked.insert(block) {
            self.undo_revoked.push((block, false));
        }
        Ok(())
    }

    /// Keeps the changes of the running operation.
    pub fn keep(&mut self) {
        self.operation += 1;
        self.undo.clear();
        self.undo_revoked.clear();
        self.running_before = self.running.len();
    }

    /// Undoes the running operation, which has failed: everything is as before.
    pub fn undo(&mut self) {
        for (block, before) in take(&mut self.undo).into_iter().rev() {
            if let Some(buffer) = self.buffers.get_mut(&block) {
                self.used -= usize::from(buffer.running);
                self.used += usize::from(before.running);
                *buffer = before;
            }
        }
        for (block, before) in take(&mut self.undo_revoked).into_iter().rev() {
            if before {
                // There is still room for it in the set: since it was removed, nothing was inserted
                // except what this loop removes.
                self.revoked.insert(block);
            } else {
                self.revoked.remove(&block);
            }
        }
        self.running.truncate(self.running_before);
        self.operation += 1;
    }

    /// Whether there is anything to commit.
    pub fn is_dirty(&self) -> bool {
        self.used > 0 || !self.revoked.is_empty()
    }

    /// The blocks of the running transaction in order, with their checksums stored, and those that
    /// it revokes.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn prepare(&mut self) -> Result<(Vec<u64>, Vec<u64>)> {
        let mut revoked = Vec::new();
        revoked.try_reserve_exact(self.revoked.len())?;
        revoked.extend(self.revoked.iter().copied());
        heapsort::sort(&mut revoked);
        let buffers = &self.buffers;
        self.running
            .retain(|block| buffers.get(block).is_some_and(|held| held.running));
        heapsort::sort(&mut self.running);
        self.running.dedup();
        self.running_before = self.running.len();
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(self.running.len())?;
        blocks.extend_from_slice(&self.running);
        for block in &blocks {
            if let Some(buffer) = self.buffers.get_mut(block) {
                buffer.seal();
            }
        }
        // Reserve room for `committed`, which cannot fail.
        self.committed.try_reserve(blocks.len())?;
        Ok((blocks, revoked))
    }

    /// The content of a block of the running transaction.
    pub fn content(&self, block: u64) -> &[u8] {
        self.buffers.get(&block).map_or(&[], |buffer| &buffer.data)
    }

    /// Records that the transaction with `blocks` is in the journal.
    pub fn committed(&mut self, blocks: &[u64]) {
        for block in blocks {
            if let Some(buffer) = self.buffers.get_mut(block) {
                buffer.running = false;
                buffer.committed = true;
                buffer.journalled = true;
            }
        }
        self.committed.extend_from_slice(blocks);
        self.running.clear();
        self.running_before = 0;
        self.revoked.clear();
        self.used = 0;
    }

    /// Writes the content of the journal to its place, until [`Store::emptied`] is called. No
    /// transaction may be running.
    ///
    /// # Errors
    /// [`Error::Io`]; the remaining blocks are written next time.
    pub fn write_back(&mut self) -> Result<()> {
        let buffers = &self.buffers;
        self.committed
            .retain(|block| buffers.get(block).is_some_and(|held| held.committed));
        heapsort::sort(&mut self.committed);
        self.committed.dedup();
        let committed = take(&mut self.committed);
        let size = self.block_size as u64;
        let own = committed.iter().map(|block| (block * size, *block));
        let written = self.write_to(own).and_then(|()| self.device.flush());
        self.committed = committed;
        written
    }

    /// Records that the journal is empty: nothing in it can be replayed, or must be revoked.
    pub fn emptied(&mut self) {
        self.committed.clear();
        for buffer in self.buffers.values_mut() {
            buffer.committed = false;
            buffer.journalled = false;
        }
    }

    /// Writes blocks, given with their byte addresses on the device, many at a time.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`].
    pub fn write_to(&mut self, places: impl Iterator<Item = (u64, u64)>) -> Result<()> {
        let Self {
            buffers, device, ..
        } = self;
        let mut parts: Vec<(u64, &[u8])> = Vec::new();
        parts.try_reserve_exact(AT_ONCE)?;
        for (at, block) in places {
            let Some(buffer) = buffers.get(&block) else {
                continue;
            };
            parts.push((at, &buffer.data));
            if parts.len() == AT_ONCE {
                device.write_all(&parts)?;
                parts.clear();
            }
        }
        device.write_all(&parts)
    }

    /// Drops clean blocks, because the device was written without this store.
    pub fn drop_clean(&mut self) {
        self.buffers
            .retain(|_, buffer| buffer.running || buffer.journalled);
    }

    /// Sets the number of blocks of the file system.
    pub fn set_blocks(&mut self, blocks: u64) {
        self.blocks = blocks;
    }
}
