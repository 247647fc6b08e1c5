//! Files: allocates blocks for data, changes size and owner, and deletes files.

use crate::extent::{Extent, LONGEST_UNWRITTEN};
use crate::inode::{DIRECTORY, EXTENTS, INLINE_DATA, Inode, REGULAR, SYMLINK, Stamp, TYPE, Time};
use crate::preallocate::AT_ONCE;
use crate::superblock::set_large_file;
use crate::{Device, Error, Fs, Result};

/// The maximum number of blocks in a file.
const MOST_BLOCKS: u64 = (1 << 32) - 1;

/// The attributes that [`Fs::change_inode_attributes`] changes; those that are `None` stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// The permissions; the type stays.
    pub mode: Option<u16>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The time of the last access.
    pub access: Option<Time>,
    /// The time of the last change of the content.
    pub modify: Option<Time>,
}

impl<D: Device> Fs<D> {
    /// Allocates the blocks of a file from `block` on, at most `count` of them. Returns the extent
    /// of the first ones, which is shorter if later ones are already mapped, or if space is short.
    /// New blocks read as zeroes until [`Fs::mark_written`].
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooLarge`], [`Error::Unsupported`] for a file that is mapped by
    /// block numbers.
    pub fn allocate(&mut self, number: u32, block: u32, count: u32) -> Result<Extent> {
        if count == 0 || u64::from(block) + u64::from(count) > MOST_BLOCKS {
            return Err(Error::TooLarge);
        }
        self.transact(|this| {
            let mut inode = this.file(number)?;
            let next = this.find_extent(&inode, block)?;
            if let Some(found) = next.filter(|found| found.logical <= block) {
                let into = block - found.logical;
                return Ok(Extent {
                    logical: block,
                    length: (found.length - into).min(count),
                    physical: found.physical + u64::from(into),
                    ..found
                });
            }
            let hole = next.map_or(count, |next| count.min(next.logical - block));
            let goal = match this.find_last(&inode, block)? {
                Some(before) => {
                    before.physical + u64::from(before.length) + u64::from(block - before.end())
                }
                None => this.inode_goal(number)?,
            };
            let (physical, length) = this.allocate_blocks(goal, hole.min(LONGEST_UNWRITTEN))?;
            let new = Extent {
                logical: block,
                length,
                physical,
                written: false,
            };
            this.insert_extent(&mut inode, new)?;
            inode.add_blocks(&this.geometry, i64::from(length))?;
            this.set_inode(&inode)?;
            Ok(new)
        })
    }

    /// The last extent before an unmapped block.
    fn find_last(&mut self, inode: &Inode, block: u32) -> Result<Option<Extent>> {
        let path = self.extent_path(inode, block)?;
        let Some(leaf) = path.last() else {
            return Ok(None);
        };
        let node = self.extent_node(inode, leaf.node)?;
        let some = crate::extent::entries(node) > 0;
        Ok(some
            .then(|| crate::extent::extent(node, leaf.entry))
            .filter(|before| before.end() <= block))
    }

    /// Marks blocks whose data was written to the device: they no longer read as zeroes, and after
    /// the next commit this is permanent. Unallocated blocks are not changed.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the map needs another block.
    pub fn mark_written(&mut self, number: u32, block: u32, count: u32) -> Result<()> {
        self.say_written(number, block, block.saturating_add(count), true)
    }

    /// Frees the blocks of a file, which become a hole (`FALLOC_FL_PUNCH_HOLE`). The caller writes
    /// zeroes to blocks that are only partly freed.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the map needs another block.
    pub fn punch_hole(&mut self, number: u32, block: u32, count: u32) -> Result<()> {
        let to = block.saturating_add(count);
        loop {
            let done = self.complete(|this| {
                let mut inode = this.file(number)?;
                let done = this.punch(&mut inode, block, to, AT_ONCE)?;
                this.touch(&mut inode);
                this.set_inode(&inode)?;
                Ok(done)
            })?;
            if done {
                return Ok(());
            }
            self.store.device.pause();
        }
    }

    /// Sets the size of a file after a write beyond its end; the blocks are already marked as
    /// written.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Invalid`] for a smaller size than now, see [`Fs::truncate`].
    pub fn extend(&mut self, number: u32, size: u64) -> Result<()> {
        self.grow(number, size, true)
    }

    /// As [`Fs::extend`], after a write some time ago: the times of the inode stay.
    ///
    /// # Errors
    /// Those of [`Fs::extend`].
    pub fn extend_written(&mut self, number: u32, size: u64) -> Result<()> {
        self.grow(number, size, false)
    }

    fn grow(&mut self, number: u32, size: u64, touches: bool) -> Result<()> {
        self.check_size(size)?;
        self.transact(|this| {
            let mut inode = this.file(number)?;
            if size < inode.size() {
                return Err(Error::Invalid);
            }
            if touches {
                this.touch(&mut inode);
            }
            this.resize(&mut inode, size)?;
            this.set_inode(&inode)
        })
    }

    /// Sets the size of a file. The caller zeroes the last block after the new end. After a power
    /// cut, the size is the old or the new one.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Unsupported`] for a file that is mapped by block numbers.
    pub fn truncate(&mut self, number: u32, size: u64) -> Result<()> {
        match self.begin_truncate(number, size)? {
            true => self.free_behind(number, size),
            false => Ok(()),
        }
    }

    /// The first part of [`Fs::truncate`]; if it fails, nothing has changed. Returns whether
    /// [`Fs::free_behind`] must follow, which the next mount does after a power cut.
    ///
    /// # Errors
    /// Those of [`Fs::truncate`].
    pub fn begin_truncate(&mut self, number: u32, size: u64) -> Result<bool> {
        self.check_size(size)?;
        self.transact(|this| {
            let mut inode = this.file(number)?;
            // Truncation to the same size frees what was allocated beyond it, as in Linux.
            let shrinks = size <= inode.size();
            // An inode without a name is an orphan already, and so is one whose truncation failed.
            if shrinks && inode.links() > 0 {
                this.add_orphan(&mut inode)?;
            }
            this.touch(&mut inode);
            this.resize(&mut inode, size)?;
            this.set_inode(&inode)?;
            Ok(shrinks)
        })
    }

    /// Checks whether a file can have this size.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_size(&self, size: u64) -> Result<()> {
        if size.div_ceil(self.geometry.block_size as u64) > MOST_BLOCKS {
            return Err(Error::TooLarge);
        }
        Ok(())
    }

    fn resize(&mut self, inode: &mut Inode, size: u64) -> Result<()> {
        inode.set_size(size);
        if size > i32::MAX as u64 {
            self.change_superblock(set_large_file)?;
        }
        Ok(())
    }

    /// Frees the blocks of a file beyond its end, and removes it from the list of orphans.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::Io`], [`Error::Corrupt`]; what is not freed yet stays beyond
    /// the end.
    pub fn free_behind(&mut self, number: u32, size: u64) -> Result<()> {
        while !self.free_some_behind(number, size)? {
            self.store.device.pause();
        }
        Ok(())
    }

    /// A step of [`Fs::free_behind`], which frees some extents. Returns whether it was the last.
    ///
    /// # Errors
    /// Those of [`Fs::free_behind`].
    pub fn free_some_behind(&mut self, number: u32, size: u64) -> Result<bool> {
        let first = size.div_ceil(self.geometry.block_size as u64);
        let first = u32::try_from(first).map_err(|_| Error::TooLarge)?;
        self.complete(|this| {
            let mut inode = this.file(number)?;
            let done = this.punch(&mut inode, first, u32::MAX, AT_ONCE)?;
            if done && inode.links() > 0 {
                this.remove_orphan(&mut inode)?;
            }
            this.set_inode(&inode)?;
            Ok(done)
        })
    }

    /// A file whose blocks can be changed.
    pub(crate) fn file(&mut self, number: u32) -> Result<Inode> {
        let inode = self.inode(number)?;
        if inode.is_directory() {
            return Err(Error::IsDirectory);
        }
        if inode.mode() & TYPE != REGULAR {
            return Err(Error::Invalid);
        }
        self.check_mapped(&inode)?;
        Ok(inode)
    }

    /// Checks whether the blocks of an inode, if it has any, can be changed.
    pub(crate) fn check_mapped(&self, inode: &Inode) -> Result<()> {
        if inode.has(INLINE_DATA) {
            return Err(Error::Unsupported("write to inline data"));
        }
        let mapped = inode.mode() & TYPE == REGULAR || inode.is_directory();
        let long_link = inode.mode() & TYPE == SYMLINK && inode.size() >= 60;
        if (mapped || long_link) && !inode.has(EXTENTS) {
            return Err(Error::Unsupported(
                "write to a file that is mapped by block numbers",
            ));
        }
        Ok(())
    }

    /// Sets the times of a change of the content.
    pub(crate) fn touch(&mut self, inode: &mut Inode) {
        inode.set_time(Stamp::Modify, self.now);
        inode.set_time(Stamp::Change, self.now);
    }

    /// Sets the time of the last access after a read. Unlike utimensat(2), this is no change of the
    /// inode, whose time stays.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn set_access_time(&mut self, number: u32, time: Time) -> Result<()> {
        self.transact(|this| {
            let mut inode = this.inode(number)?;
            inode.set_time(Stamp::Access, time);
            this.set_inode(&inode)
        })
    }

    /// Sets the time at which the content was changed some time ago. The inode itself may have
    /// changed since.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn set_modify_time(&mut self, number: u32, time: Time) -> Result<()> {
        self.transact(|this| {
            let mut inode = this.inode(number)?;
            inode.set_time(Stamp::Modify, time);
            inode.set_time(Stamp::Change, time.max(inode.time(Stamp::Change)));
            this.set_inode(&inode)
        })
    }

    /// Changes permissions, owners and times, as by chmod(2), chown(2) and utimensat(2).
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn change_inode_attributes(&mut self, number: u32, change: Change) -> Result<Inode> {
        self.transact(|this| {
            let mut inode = this.inode(number)?;
            if let Some(mode) = change.mode {
                let kind = inode.mode() & TYPE;
                inode.set_mode(kind | mode & !TYPE);
            }
            let (uid, gid) = (inode.uid(), inode.gid());
            inode.set_owner(change.uid.unwrap_or(uid), change.gid.unwrap_or(gid));
            if let Some(time) = change.access {
                inode.set_time(Stamp::Access, time);
            }
            if let Some(time) = change.modify {
                inode.set_time(Stamp::Modify, time);
            }
            inode.set_time(Stamp::Change, this.now);
            this.set_inode(&inode)?;
            Ok(inode)
        })
    }

    /// Frees an inode without a name, after nobody has it open any more.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has a name. After another error the inode stays an orphan, and the
    /// next mount continues.
    pub fn evict(&mut self, number: u32) -> Result<()> {
        loop {
            let done = self.transact(|this| {
                let mut inode = this.inode(number)?;
                if inode.links() != 0 {
                    return Err(Error::Invalid);
                }
                this.check_mapped(&inode)?;
                let mapped = inode.has(EXTENTS);
                if mapped && !this.punch(&mut inode, 0, u32::MAX, AT_ONCE)? {
                    this.set_inode(&inode)?;
                    return Ok(false);
                }
                this.drop_attribute_block(&mut inode)?;
                this.remove_orphan(&mut inode)?;
                inode.set_size(0);
                let now = this.now.seconds as u32;
                inode.set_deleted(now.max(1));
                let directory = inode.mode() & TYPE == DIRECTORY;
                this.set_inode(&inode)?;
                this.free_inode(number, directory)?;
                Ok(true)
            })?;
            if done {
                return Ok(());
            }
            self.store.device.pause();
        }
    }
}
