//! Orphans: inodes without a name, which are freed when they are no longer open, and files that are
//! being truncated. They are on a list through the inodes
//! (Documentation/filesystems/ext4/orphan.rst), so that a mount after a power cut can finish the
//! work. The orphan file is read and emptied, but only the list is written.

use crate::bytes::{put32, u32_at};
use crate::crc::crc32c;
use crate::features::ReadOnly;
use crate::inode::Inode;
use crate::superblock::{clear_orphan_present, has_errors, last_orphan, set_last_orphan};
use crate::{Device, Error, Fs, Result};

const FILE_MAGIC: u32 = 0x0b10_ca04;
/// The size of the magic number and checksum at the end of an orphan file's block.
const FILE_TAIL: usize = 8;

impl<D: Device> Fs<D> {
    /// Adds an inode to the list, if it is not there. The caller stores it.
    pub(crate) fn add_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        let number = inode.number;
        if self.orphans.before(number).is_some() {
            return Ok(());
        }
        let next = self.change_superblock(|raw| {
            let next = last_orphan(raw);
            set_last_orphan(raw, number);
            next
        })?;
        inode.set_deleted(next);
        self.orphans.set(number, Some(0))?;
        if next != 0 {
            self.orphans.set(next, Some(number))?;
        }
        Ok(())
    }

    /// Removes an inode from the list, if it is there. The caller stores it.
    pub(crate) fn remove_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        let (number, next) = (inode.number, inode.deleted());
        let before = self.orphans.before(number);
        if self.read_superblock(last_orphan)? == number {
            self.change_superblock(|raw| set_last_orphan(raw, next))?;
        } else if let Some(before) = before {
            let mut before = self.inode(before)?;
            before.set_deleted(next);
            self.set_inode(&before)?;
        } else {
            return Ok(());
        }
        inode.set_deleted(0);
        self.orphans.set(number, None)?;
        if self.orphans.before(next).is_some() {
            self.orphans.set(next, Some(before.unwrap_or(0)))?;
        }
        Ok(())
    }

    /// Removes all orphans, and completes the truncations that a power cut interrupted. As in
    /// Linux, the rest is left to e2fsck if damage is known or found.
    pub(crate) fn clean_orphans(&mut self) -> Result<()> {
        let mut sound = !self.read_superblock(has_errors)?;
        // A loop in the list ends at an inode that is already free, or no longer has a successor.
        loop {
            let number = self.read_superblock(last_orphan)?;
            if number == 0 {
                break;
            }
            if self.aborted {
                // The damage that was found has made the file system read-only.
                return Ok(());
            }
            sound = sound && self.is_cleaned(number)?;
            if !sound {
                self.transact(|this| this.change_superblock(|raw| set_last_orphan(raw, 0)))?;
            }
        }
        let features = self.geometry.features.read_only;
        if sound && features.contains(ReadOnly::ORPHAN_PRESENT) {
            self.clean_orphan_file()?;
        }
        Ok(())
    }

    /// Finishes an orphan. Returns whether the image is consistent there.
    fn is_cleaned(&mut self, number: u32) -> Result<bool> {
        match self.clean_orphan(number) {
            Ok(()) => Ok(true),
            Err(error @ (Error::Io | Error::NoMemory | Error::ReadOnly)) => Err(error),
            Err(error) => {
                self.report(error);
                Ok(false)
            }
        }
    }

    fn clean_orphan(&mut self, number: u32) -> Result<()> {
        if number < self.geometry.first_inode
            || number > self.geometry.inodes
            || !self.is_inode_used(number)?
        {
            return Err(Error::Corrupt("list of orphans"));
        }
        let inode = self.inode(number)?;
        if inode.links() == 0 {
            self.evict(number)
        } else {
            let size = inode.size();
            self.free_behind(number, size)
        }
    }

    fn clean_orphan_file(&mut self) -> Result<()> {
        let file = self.inode(self.geometry.orphan_file)?;
        let seed = file.seed(&self.geometry);
        let end = self.geometry.block_size - FILE_TAIL;
        let checksums = self.geometry.checksums();
        let sum = move |physical: u64, block: &[u8]| {
            crc32c(crc32c(seed, &physical.to_le_bytes()), &block[..end])
        };
        for block in 0..self.directory_blocks(&file)? {
            let physical = self.must_map(&file, block)?;
            let content = crate::bytes::copy(self.store.get(physical)?)?;
            if u32_at(&content, end) != FILE_MAGIC
                || (checksums && u32_at(&content, end + 4) != sum(physical, &content))
            {
                return Err(Error::Corrupt("file of orphans"));
            }
            for at in (0..end).step_by(4) {
                let number = u32_at(&content, at);
                if number == 0 {
                    continue;
                }
                self.is_cleaned(number)?;
                if self.aborted {
                    return Ok(());
                }
                self.transact(|this| {
                    let raw = this.store.change(physical)?;
                    put32(raw, at, 0);
                    if checksums {
                        let sum = sum(physical, raw);
                        put32(raw, end + 4, sum);
                    }
                    Ok(())
                })?;
            }
        }
        self.transact(|this| this.change_superblock(clear_orphan_present))
    }
}
