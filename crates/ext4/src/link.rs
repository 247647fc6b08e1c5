//! Adds and removes names.

use crate::create::check_name;
use crate::dirent::type_of;
use crate::inode::{Inode, Stamp};
use crate::{Device, Error, Fs, Result};

impl<D: Device> Fs<D> {
    /// Adds a name for an inode that is not a directory.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::IsDirectory`], [`Error::TooManyLinks`], [`Error::NoSpace`].
    pub fn link(&mut self, number: u32, parent: u32, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        self.transact(|this| {
            let mut directory = this.parent(parent)?;
            let mut inode = this.inode(number)?;
            if inode.is_directory() {
                return Err(Error::IsDirectory);
            }
            if this.find(&directory, name)?.is_some() {
                return Err(Error::Exists);
            }
            if inode.links() == 0 {
                this.remove_orphan(&mut inode)?;
            }
            this.add_link(&mut inode)?;
            inode.set_time(Stamp::Change, this.now);
            this.add_entry(&mut directory, name, number, type_of(inode.mode()))?;
            this.touch(&mut directory);
            this.set_inode(&directory)?;
            this.set_inode(&inode)?;
            Ok(inode)
        })
    }

    /// Removes a name of an inode that is not a directory. If it was the last one, the inode
    /// becomes an orphan: the caller calls [`Fs::evict`] after nobody has it open any more.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDirectory`].
    pub fn unlink(&mut self, parent: u32, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        self.transact(|this| {
            let mut directory = this.parent(parent)?;
            let found = this.find(&directory, name)?.ok_or(Error::NotFound)?;
            let mut inode = this.named_inode(found.inode)?;
            if inode.is_directory() {
                return Err(Error::IsDirectory);
            }
            this.remove_entry_at(&directory, &found)?;
            this.touch(&mut directory);
            this.set_inode(&directory)?;
            this.drop_name(&mut inode)?;
            Ok(inode)
        })
    }

    /// Removes an empty directory, which then is an orphan, as with [`Fs::unlink`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NotEmpty`].
    pub fn rmdir(&mut self, parent: u32, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        self.transact(|this| {
            let mut directory = this.parent(parent)?;
            let found = this.find(&directory, name)?.ok_or(Error::NotFound)?;
            if found.inode == parent || found.inode == crate::ROOT {
                return Err(Error::Corrupt("entry of a directory"));
            }
            let mut inode = this.named_inode(found.inode)?;
            if !inode.is_directory() {
                return Err(Error::NotDirectory);
            }
            this.remove_entry_at(&directory, &found)?;
            this.touch(&mut directory);
            drop_parent(&mut directory);
            this.set_inode(&directory)?;
            this.drop_name(&mut inode)?;
            Ok(inode)
        })
    }

    /// Counts one name less of an inode, or no names for a directory, which must be empty. Stores
    /// the inode.
    pub(crate) fn drop_name(&mut self, inode: &mut Inode) -> Result<()> {
        self.check_mapped(inode)?;
        let links = if inode.is_directory() {
            if !self.is_empty(inode)? {
                return Err(Error::NotEmpty);
            }
            0
        } else {
            inode
                .links()
                .checked_sub(1)
                .ok_or(Error::Corrupt("count of names"))?
        };
        inode.set_links(links);
        inode.set_time(Stamp::Change, self.now);
        if links == 0 {
            self.add_orphan(inode)?;
        }
        self.set_inode(inode)
    }
}

/// Counts one subdirectory less. A count of 1 means that they are not counted.
pub(crate) fn drop_parent(directory: &mut Inode) {
    if directory.links() > 2 {
        directory.set_links(directory.links() - 1);
    }
}
