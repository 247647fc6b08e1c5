//! Orphans: inodes without a name, which are freed when nobody has them open any more, and files
//! that are being truncated. A list through the inodes has them
//! (Documentation/filesystems/ext4/orphan.rst), so that a mount after a power cut goes on with it.
//! The file of orphans is read and emptied, but only the list is written.

use crate::bytes::{put32, u32_at};
use crate::crc::crc32c;
use crate::features::ReadOnly;
use crate::inode::Inode;
use crate::superblock::{clear_orphan_present, last_orphan, set_last_orphan};
use crate::{Device, Error, Fs, Result};

const FILE_MAGIC: u32 = 0x0b10_ca04;
/// Magic number and checksum at the end of a block of the file of orphans.
const FILE_TAIL: usize = 8;

impl<D: Device> Fs<D> {
    /// Puts an inode on the list. The caller stores it.
    pub(crate) fn add_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        let number = inode.number;
        let next = self.change_superblock(|raw| {
            let next = last_orphan(raw);
            set_last_orphan(raw, number);
            next
        })?;
        inode.set_deleted(next);
        Ok(())
    }

    /// Takes an inode off the list, if it is there. The caller stores it.
    pub(crate) fn remove_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        let next = inode.deleted();
        let first = self.read_superblock(last_orphan)?;
        if first == inode.number {
            self.change_superblock(|raw| set_last_orphan(raw, next))?;
            inode.set_deleted(0);
            return Ok(());
        }
        let mut at = first;
        for _ in 0..self.geometry.inodes {
            if at == 0 {
                return Ok(());
            }
            let mut before = self.inode(at)?;
            at = before.deleted();
            if at == inode.number {
                before.set_deleted(next);
                self.set_inode(&mut before)?;
                inode.set_deleted(0);
                return Ok(());
            }
        }
        Err(Error::Corrupt("list of orphans"))
    }

    /// Removes all orphans and ends all truncations that a power cut interrupted.
    pub(crate) fn clean_orphans(&mut self) -> Result<()> {
        // A loop in the list ends at an inode that is free already, or has no successor any more.
        loop {
            let number = self.read_superblock(last_orphan)?;
            if number == 0 {
                break;
            }
            self.clean_orphan(number)?;
        }
        if self
            .geometry
            .features
            .read_only
            .contains(ReadOnly::ORPHAN_PRESENT)
        {
            self.clean_orphan_file()?;
        }
        Ok(())
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
                self.clean_orphan(number)?;
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
