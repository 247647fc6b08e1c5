//! A mounted file system: mounting, unmounting, and making operations part of transactions.

use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::bytes::zeroes;
use crate::features::ReadOnly;
use crate::inode::{ROOT, Time};
use crate::journal::Journal;
use crate::orphan_list::OrphanList;
use crate::seal::Unsealed;
use crate::space::Claim;
use crate::store::Store;
use crate::superblock::{self, Geometry};
use crate::sync::Changes;
use crate::zones::Zones;
use crate::{Device, Error, Errors, Result};

/// Mount options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nothing is changed, except by the replay of the journal.
    pub read_only: bool,
    /// The time of the mount.
    pub now: Time,
    /// The minimum block size in bytes: the device's smallest transfer.
    pub smallest_block: usize,
    /// The maximum block size in bytes: a page of the caller's cache.
    pub largest_block: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            now: Time::default(),
            smallest_block: 0,
            largest_block: usize::MAX,
        }
    }
}

/// A mounted file system. Every operation takes it exclusively: the caller has a sleeping lock
/// around it. Inodes are passed as copies; an operation that changes one returns the new copy, or
/// takes its number.
pub struct Fs<D> {
    pub(crate) store: Store<D>,
    pub(crate) geometry: Geometry,
    /// The journal of a file system that may be written.
    pub(crate) journal: Option<Journal>,
    /// A commit has failed: nothing is written any more.
    pub(crate) aborted: bool,
    pub(crate) now: Time,
    /// The blocks freed by the running transaction, by group. They are not allocated before it is
    /// committed: otherwise, data written to them could appear in the old file after a power cut.
    pub(crate) pending: HashMap<u32, Vec<u8>>,
    pub(crate) changes: Changes,
    pub(crate) claim: Claim,
    pub(crate) zones: Zones,
    pub(crate) errors: Errors,
    pub(crate) orphans: OrphanList,
    pub(crate) unsealed: Unsealed,
}

impl<D: Device> Fs<D> {
    /// Mounts the file system on `device`. The journal is replayed first, if necessary, and orphans
    /// are removed unless `options` forbid writes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names a feature, or reports a block size that `options` do not allow;
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn mount(device: D, options: Options) -> Result<Self> {
        let mut device = device;
        let geometry = read_geometry(&mut device)?;
        if !(options.smallest_block..=options.largest_block).contains(&geometry.block_size) {
            return Err(Error::Unsupported("size of a block"));
        }
        if !options.read_only {
            geometry.features.check_writing()?;
        }
        let mut this = Self {
            store: Store::new(device, geometry.block_size, geometry.blocks),
            geometry,
            journal: None,
            aborted: false,
            now: options.now,
            pending: HashMap::new(),
            changes: Changes::default(),
            claim: Claim::Root,
            zones: Zones::default(),
            errors: geometry.errors,
            orphans: OrphanList::default(),
            unsealed: Unsealed::default(),
        };
        if this.read_superblock(superblock::needs_recovery)? {
            this.recover()?;
            if !options.read_only {
                this.geometry.features.check_writing()?;
            }
        }
        this.check_descriptors()?;
        if !this.inode(ROOT)?.is_directory() {
            return Err(Error::Corrupt("root directory"));
        }
        if !options.read_only {
            let mut journal = this.open_journal()?;
            this.take_journal_error(journal.take_error())?;
            this.prepare_journal(&mut journal)?;
            this.mark(true)?;
            this.journal = Some(journal);
            this.limit_transaction();
            this.clean_orphans()?;
        }
        Ok(this)
    }

    /// Replays the journal. Only after that the superblock is marked accordingly.
    fn recover(&mut self) -> Result<()> {
        let mut journal = self.open_journal()?;
        self.replay(&mut journal)?;
        self.store.drop_clean();
        self.mark(false)?;
        self.store.drop_clean();
        // The journal may contain the end of a resize, but no other block size.
        let geometry = read_geometry(&mut self.store.device)?;
        if geometry.block_size != self.geometry.block_size {
            return Err(Error::Corrupt("superblock in the journal"));
        }
        self.store.set_blocks(geometry.blocks);
        self.geometry = geometry;
        Ok(())
    }

    /// Records in the superblock whether the journal must be replayed.
    fn mark(&mut self, needed: bool) -> Result<()> {
        let seconds = self.now.seconds as u32;
        self.write_superblock(|raw| {
            superblock::set_recovery(raw, needed);
            if needed {
                superblock::count_mount(raw, seconds);
            }
        })
    }

    /// Changes the superblock directly, while the journal is empty.
    pub(crate) fn write_superblock(&mut self, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let (number, at) = self.geometry.superblock();
        let mut block = crate::bytes::copy(self.store.get(number)?)?;
        let raw = &mut block[at..at + superblock::SIZE];
        change(raw);
        superblock::seal(raw, &self.geometry);
        self.store
            .device
            .write(number * self.geometry.block_size as u64, &block)?;
        self.store.device.flush()?;
        self.store.drop_clean();
        Ok(())
    }

    /// Writes everything to its place and returns the device.
    ///
    /// # Errors
    /// [`Error::Io`]; the journal is then replayed by the next mount.
    pub fn unmount(mut self) -> Result<D> {
        if self.journal.is_some() {
            self.checkpoint()?;
            self.mark(false)?;
        }
        Ok(self.store.device)
    }

    /// Frees memory: the journal's content is written to its place, and no block is kept.
    ///
    /// # Errors
    /// Those of [`Fs::commit`].
    pub fn relieve(&mut self) -> Result<()> {
        if self.journal.is_some() {
            self.checkpoint()?;
        }
        self.store.drop_clean();
        Ok(())
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The device, for the data of files. Metadata blocks must not be written through it.
    pub fn device(&mut self) -> &mut D {
        &mut self.store.device
    }

    /// Sets the time that the following operations store in inodes.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Performs an operation as part of the running transaction, completely or not at all. It is
    /// retried after a commit if that makes room in the journal or on the disk.
    pub(crate) fn transact<T>(&mut self, operation: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        if self.journal.is_none() || self.aborted {
            return Err(Error::ReadOnly);
        }
        let mut again = true;
        loop {
            let error = match operation(self) {
                Ok(result) => {
                    self.store.keep();
                    self.orphans.keep();
                    self.unsealed.keep();
                    return Ok(result);
                }
                Err(error) => error,
            };
            self.store.undo();
            self.orphans.undo();
            self.unsealed.undo();
            self.report(error);
            match error {
                Error::JournalFull if again => self.checkpoint()?,
                Error::NoSpace if again && !self.pending.is_empty() => self.commit()?,
                _ => return Err(error),
            }
            again = false;
        }
    }
}

fn read_geometry<D: Device>(device: &mut D) -> Result<Geometry> {
    let size = device.size();
    if size < superblock::OFFSET + superblock::SIZE as u64 {
        return Err(Error::Corrupt("size of the device"));
    }
    let mut raw = zeroes(superblock::SIZE)?;
    device.read(superblock::OFFSET, &mut raw)?;
    let geometry = Geometry::parse(&raw, size)?;
    if geometry.features.read_only.contains(ReadOnly::READ_ONLY) && superblock::needs_recovery(&raw)
    {
        return Err(Error::Unsupported("journal of a read-only image"));
    }
    Ok(geometry)
}
