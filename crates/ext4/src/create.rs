//! Creates inodes: files, directories, symbolic links, device nodes.

use crate::bytes::{put, put16, zeroes};
use crate::crc::crc32c;
use crate::dirent::{self, LONGEST_NAME, set_entry, type_of};
use crate::extent::Extent;
use crate::extent_write::clear;
use crate::features::ReadOnly;
use crate::inode::{BASE, DIRECTORY, EXTENTS, Inode, MAP_SIZE, REGULAR, SYMLINK, Stamp, TYPE};
use crate::{Device, Error, Fs, Result};

/// The maximum number of names of an inode.
pub(crate) const MOST_LINKS: u16 = 65_000;

/// The attributes of a new inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct New<'a> {
    /// Type and permissions.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The numbers of a device node.
    pub device: (u32, u32),
    /// The target of a symbolic link.
    pub target: &'a [u8],
}

/// Checks whether a new entry may have this name.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > LONGEST_NAME {
        return Err(Error::TooLong);
    }
    if name.is_empty() || matches!(name, b"." | b"..") || name.contains(&b'/') || name.contains(&0)
    {
        return Err(Error::Invalid);
    }
    Ok(())
}

impl<D: Device> Fs<D> {
    /// A directory to which entries may be added.
    pub(crate) fn parent(&mut self, number: u32) -> Result<Inode> {
        let directory = self.inode(number)?;
        if !directory.is_directory() {
            return Err(Error::NotDirectory);
        }
        if directory.links() == 0 {
            return Err(Error::NotFound);
        }
        self.check_mapped(&directory)?;
        Ok(directory)
    }

    /// Creates an inode of the type in `new`, with a name in the directory `parent`.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`], [`Error::TooLong`], [`Error::TooManyLinks`],
    /// [`Error::Invalid`] for an invalid type.
    pub fn create(&mut self, parent: u32, name: &[u8], new: New<'_>) -> Result<Inode> {
        check_name(name)?;
        self.transact(|this| {
            let mut directory = this.parent(parent)?;
            if this.find(&directory, name)?.is_some() {
                return Err(Error::Exists);
            }
            let mut inode = this.new_inode(&directory, &new)?;
            if inode.is_directory() {
                this.fill_directory(&mut inode, parent)?;
                this.add_link(&mut directory)?;
            }
            this.add_entry(&mut directory, name, inode.number, type_of(new.mode))?;
            this.touch(&mut directory);
            this.set_inode(&directory)?;
            this.set_inode(&inode)?;
            Ok(inode)
        })
    }

    /// Creates an inode without a name near a directory (`O_TMPFILE`). It is an orphan until
    /// [`Fs::link`] gives it a name or [`Fs::evict`] frees it.
    ///
    /// # Errors
    /// Those of [`Fs::create`]; [`Error::IsDirectory`] for a directory.
    pub fn create_unnamed(&mut self, parent: u32, new: New<'_>) -> Result<Inode> {
        if new.mode & TYPE == DIRECTORY {
            return Err(Error::IsDirectory);
        }
        self.transact(|this| {
            let directory = this.parent(parent)?;
            let mut inode = this.new_inode(&directory, &new)?;
            inode.set_links(0);
            this.add_orphan(&mut inode)?;
            this.set_inode(&inode)?;
            Ok(inode)
        })
    }

    /// Counts one more name of an inode. The count of a directory with too many is 1 from then on.
    pub(crate) fn add_link(&mut self, inode: &mut Inode) -> Result<()> {
        let read_only = self.geometry.features.read_only;
        let links = match inode.links() {
            1 if inode.is_directory() => 1,
            links if links < MOST_LINKS => links + 1,
            _ if self.is_indexed(inode) && read_only.contains(ReadOnly::DIR_NLINK) => 1,
            _ => return Err(Error::TooManyLinks),
        };
        inode.set_links(links);
        Ok(())
    }

    pub(crate) fn new_inode(&mut self, directory: &Inode, new: &New<'_>) -> Result<Inode> {
        let kind = new.mode & TYPE;
        if type_of(new.mode) == 0 {
            return Err(Error::Invalid);
        }
        let number = self.allocate_inode(directory.number, kind == DIRECTORY)?;
        let mut inode = Inode {
            number,
            raw: zeroes(self.geometry.inode_size)?,
        };
        if inode.raw.len() > BASE {
            put16(&mut inode.raw, BASE, self.geometry.extra_size);
        }
        inode.set_mode(new.mode);
        inode.set_owner(new.uid, new.gid);
        inode.set_links(1);
        inode.set_flags(directory.inherited_flags(new.mode));
        for stamp in [Stamp::Access, Stamp::Change, Stamp::Modify, Stamp::Birth] {
            inode.set_time(stamp, self.now);
        }
        let moment = self.now.seconds as u64 ^ u64::from(self.now.nanoseconds) << 32;
        inode.set_generation(crc32c(number, &moment.to_le_bytes()));
        match kind {
            REGULAR | DIRECTORY => self.give_tree(&mut inode),
            SYMLINK => self.fill_link(&mut inode, new.target)?,
            0o020000 | 0o060000 => inode.set_device(new.device.0, new.device.1),
            _ => {}
        }
        Ok(inode)
    }

    fn give_tree(&self, inode: &mut Inode) {
        inode.set_flags(inode.flags() | EXTENTS);
        clear(inode.map_mut(), 0);
    }

    fn fill_link(&mut self, inode: &mut Inode, target: &[u8]) -> Result<()> {
        if target.is_empty() {
            return Err(Error::Invalid);
        }
        if target.len() >= self.geometry.block_size {
            return Err(Error::TooLong);
        }
        inode.set_size(target.len() as u64);
        if target.len() < MAP_SIZE {
            put(inode.map_mut(), 0, target);
            return Ok(());
        }
        self.give_tree(inode);
        let goal = self.inode_goal(inode.number)?;
        let physical = self.allocate_metadata(goal)?;
        put(self.store.change(physical)?, 0, target);
        self.insert_extent(
            inode,
            Extent {
                logical: 0,
                length: 1,
                physical,
                written: true,
            },
        )?;
        inode.add_blocks(&self.geometry, 1)
    }

    fn fill_directory(&mut self, inode: &mut Inode, parent: u32) -> Result<()> {
        let (first, physical) = self.append_block(inode)?;
        let number = inode.number;
        let end = dirent::usable(&self.geometry);
        let block = self.change_entries(inode, first, physical)?;
        set_entry(block, 0, 12, number, 2, b".");
        set_entry(block, 12, end - 12, parent, 2, b"..");
        inode.set_links(2);
        Ok(())
    }
}
