//! Renaming, like renameat2(2).

use crate::create::{New, check_name};
use crate::dirent::type_of;
use crate::inode::{DIRECTORY, Inode, ROOT, Stamp, TYPE};
use crate::link::drop_parent;
use crate::{Device, Error, Fs, Result};

/// How an existing new name is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// Its inode loses the name.
    Replace,
    /// The rename fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// The names exchange their inodes (`RENAME_EXCHANGE`).
    Exchange,
}

impl<D: Device> Fs<D> {
    /// Renames. Returns the inode that has lost its name, which may be an orphan then.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::NotEmpty`], [`Error::IsDirectory`],
    /// [`Error::NotDirectory`]; [`Error::Invalid`] for a directory that would be below itself.
    pub fn rename(
        &mut self,
        from: u32,
        name: &[u8],
        to: u32,
        new: &[u8],
        how: Rename,
    ) -> Result<Option<Inode>> {
        self.rename_and_cover(from, name, to, new, how, None)
    }

    /// Renames, and gives the old name to a new inode: for `RENAME_WHITEOUT`, a character device
    /// with the numbers 0 and 0.
    ///
    /// # Errors
    /// Those of [`Fs::rename`] and [`Fs::create`]; [`Error::Invalid`] with [`Rename::Exchange`].
    pub fn rename_and_cover(
        &mut self,
        from: u32,
        name: &[u8],
        to: u32,
        new: &[u8],
        how: Rename,
        cover: Option<New<'_>>,
    ) -> Result<Option<Inode>> {
        check_name(name)?;
        check_name(new)?;
        let makes_directory = cover.is_some_and(|cover| cover.mode & TYPE == DIRECTORY);
        if makes_directory || (cover.is_some() && how == Rename::Exchange) {
            return Err(Error::Invalid);
        }
        self.transact(|this| {
            let source = this.parent(from)?;
            let target = this.parent(to)?;
            let found = this.find(&source, name)?.ok_or(Error::NotFound)?;
            let there = this.find(&target, new)?;
            this.check_below(found.inode, to)?;
            match (there, how) {
                (None, Rename::Exchange) => Err(Error::NotFound),
                (Some(_), Rename::NoReplace) => Err(Error::Exists),
                (Some(there), _) if there.inode == found.inode => Ok(None),
                (Some(there), Rename::Exchange) => {
                    this.check_below(there.inode, from)?;
                    let moved = this.named_inode(found.inode)?;
                    let other = this.named_inode(there.inode)?;
                    this.replace_entry(&source, &found, there.inode, type_of(other.mode()))?;
                    this.replace_entry(&target, &there, found.inode, type_of(moved.mode()))?;
                    this.moved(moved, from, to)?;
                    this.moved(other, to, from)?;
                    this.touch_parents(from, to)?;
                    Ok(None)
                }
                (there, _) => {
                    let moved = this.named_inode(found.inode)?;
                    let kind = type_of(moved.mode());
                    let mut lost = None;
                    if let Some(there) = there {
                        let mut other = this.named_inode(there.inode)?;
                        match (moved.is_directory(), other.is_directory()) {
                            (true, false) => return Err(Error::NotDirectory),
                            (false, true) => return Err(Error::IsDirectory),
                            _ => {}
                        }
                        this.replace_entry(&target, &there, found.inode, kind)?;
                        this.drop_name(&mut other)?;
                        if other.is_directory() {
                            let mut target = this.inode(to)?;
                            drop_parent(&mut target);
                            this.set_inode(&target)?;
                        }
                        lost = Some(other);
                    } else {
                        let mut target = target;
                        this.add_entry(&mut target, new, found.inode, kind)?;
                        this.set_inode(&target)?;
                    }
                    this.leave_name(from, name, cover)?;
                    this.moved(moved, from, to)?;
                    this.touch_parents(from, to)?;
                    Ok(lost)
                }
            }
        })
    }

    /// Removes the old name, or gives it to a new inode.
    fn leave_name(&mut self, from: u32, name: &[u8], cover: Option<New<'_>>) -> Result<()> {
        // The insertion may have moved the entry, and changed the directory.
        let source = self.inode(from)?;
        let found = self.find(&source, name)?;
        let found = found.ok_or(Error::Corrupt("directory"))?;
        let Some(cover) = cover else {
            return self.remove_entry_at(&source, &found);
        };
        let inode = self.new_inode(&source, &cover)?;
        self.replace_entry(&source, &found, inode.number, type_of(cover.mode))?;
        self.set_inode(&inode)
    }

    /// Checks whether a directory can be moved into `parent`: it must not be above it.
    fn check_below(&mut self, number: u32, parent: u32) -> Result<()> {
        if !self.inode(number)?.is_directory() {
            return Ok(());
        }
        // Brent's algorithm for finding a loop: the inode to compare with is updated at powers of
        // two.
        let (mut at, mut seen) = (parent, 0);
        for steps in 1..=self.geometry.inodes {
            if at == number {
                return Err(Error::Invalid);
            }
            if at == ROOT {
                return Ok(());
            }
            if at == seen {
                break;
            }
            if steps.is_power_of_two() {
                seen = at;
            }
            let directory = self.inode(at)?;
            at = self.lookup(&directory, b"..")?;
        }
        Err(Error::Corrupt("loop of directories"))
    }

    /// Updates an inode whose name is in another directory now.
    fn moved(&mut self, mut inode: Inode, from: u32, to: u32) -> Result<()> {
        if inode.is_directory() && from != to {
            let up = self.find_in(&inode, 0, b"..")?;
            let up = up.ok_or(Error::Corrupt("directory without .."))?;
            self.replace_entry(&inode, &up, to, 2)?;
            let mut source = self.inode(from)?;
            drop_parent(&mut source);
            self.set_inode(&source)?;
            let mut target = self.inode(to)?;
            self.add_link(&mut target)?;
            self.set_inode(&target)?;
        }
        inode.set_time(Stamp::Change, self.now);
        self.set_inode(&inode)
    }

    fn touch_parents(&mut self, from: u32, to: u32) -> Result<()> {
        for number in [from, to] {
            let mut directory = self.inode(number)?;
            self.touch(&mut directory);
            self.set_inode(&directory)?;
        }
        Ok(())
    }
}
