//! Reads directories: looks up names, and lists entries in order.

use alloc::vec::Vec;

use crate::dirent::{self, Entry};
use crate::features::Compatible;
use crate::inode::{INDEX, INLINE_DATA, Inode};
use crate::store::Kind;
use crate::{Device, Error, Fs, Result};

/// The place of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The block's index in the directory.
    pub block: u32,
    /// The offset in the block.
    pub at: usize,
    pub inode: u32,
}

/// An entry that [`Fs::read_directory`] passes on.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// Its inode.
    pub inode: u32,
    /// `DT_*` of getdents64(2); 0 if unknown.
    pub kind: u8,
    /// Its name.
    pub name: &'a [u8],
    /// The position after it.
    pub next: u64,
}

impl<D: Device> Fs<D> {
    /// Whether a directory has an index that can be used.
    pub(crate) fn is_indexed(&self, directory: &Inode) -> bool {
        directory.has(INDEX)
            && self
                .geometry
                .features
                .compatible
                .contains(Compatible::DIR_INDEX)
    }

    /// The number of blocks in a directory.
    pub(crate) fn directory_blocks(&self, directory: &Inode) -> Result<u32> {
        let blocks = directory.size() / self.geometry.block_size as u64;
        if !directory
            .size()
            .is_multiple_of(self.geometry.block_size as u64)
            || blocks > self.geometry.blocks
        {
            return Err(Error::Corrupt("size of a directory"));
        }
        u32::try_from(blocks).map_err(|_| Error::Corrupt("size of a directory"))
    }

    /// The disk block of a block of a directory, after a check.
    pub(crate) fn directory_block(&mut self, directory: &Inode, block: u32) -> Result<u64> {
        let physical = self.must_map(directory, block)?;
        let kind = self.directory_kind(directory, block);
        let geometry = &self.geometry;
        self.store.checked(physical, kind, |content| {
            let seed = directory.seed(geometry);
            dirent::check(content, geometry, seed, block == 0, kind.is_indexed())
        })?;
        Ok(physical)
    }

    /// The kind of a block of a directory.
    pub(crate) fn directory_kind(&self, directory: &Inode, block: u32) -> Kind {
        Kind::Directory {
            inode: directory.number,
            first: block == 0,
            indexed: self.is_indexed(directory),
        }
    }

    /// The inode number of a name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::TooLong`].
    pub fn lookup(&mut self, directory: &Inode, name: &[u8]) -> Result<u32> {
        if !directory.is_directory() {
            return Err(Error::NotDirectory);
        }
        if name.len() > dirent::LONGEST_NAME {
            return Err(Error::TooLong);
        }
        if directory.has(INLINE_DATA) {
            let mut found = None;
            self.read_directory(directory, 0, |entry| {
                if entry.name == name {
                    found = Some(entry.inode);
                }
                found.is_none()
            })?;
            return match found.ok_or(Error::NotFound)? {
                inode if self.geometry.may_be_named(inode) => Ok(inode),
                _ => Err(Error::Corrupt("name of a reserved inode")),
            };
        }
        Ok(self.find(directory, name)?.ok_or(Error::NotFound)?.inode)
    }

    /// The place of a name in a directory with blocks.
    pub(crate) fn find(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Found>> {
        if self.is_indexed(directory) && name != b"." && name != b".." {
            return self.find_by_index(directory, name);
        }
        for block in 0..self.directory_blocks(directory)? {
            self.store.device.pause();
            if let Some(found) = self.find_in(directory, block, name)? {
                return Ok(Some(found));
            }
            if block == 0 && self.is_indexed(directory) {
                break;
            }
        }
        Ok(None)
    }

    /// The place of a name in one block of a directory.
    pub(crate) fn find_in(
        &mut self,
        directory: &Inode,
        block: u32,
        name: &[u8],
    ) -> Result<Option<Found>> {
        let physical = self.directory_block(directory, block)?;
        let content = self.store.get(physical)?;
        let found = dirent::entries(content, 0)
            .find(|entry| entry.inode != 0 && entry.name == name)
            .map(|entry| Found {
                block,
                at: entry.at,
                inode: entry.inode,
            });
        if found.is_some_and(|found| !self.geometry.may_be_named(found.inode)) {
            return Err(Error::Corrupt("name of a reserved inode"));
        }
        Ok(found)
    }

    /// The inode of a name; it must have at least one name.
    ///
    /// # Errors
    /// Those of [`Fs::lookup`] and [`Fs::inode`].
    pub fn lookup_inode(&mut self, directory: &Inode, name: &[u8]) -> Result<Inode> {
        let number = self.lookup(directory, name)?;
        self.named_inode(number)
    }

    /// Passes the entries from `from` on, which is 0 or the `next` of an entry, to `visit` until it
    /// returns false. A reader that continues gets each entry that exists throughout exactly once,
    /// whatever happens to the others.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Corrupt`], [`Error::Io`].
    pub fn read_directory(
        &mut self,
        directory: &Inode,
        from: u64,
        mut visit: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        if !directory.is_directory() {
            return Err(Error::NotDirectory);
        }
        if directory.has(INLINE_DATA) {
            return self.read_inline_directory(directory, from, visit);
        }
        if let Some(hasher) = self.order_of(directory)? {
            return self.read_in_order(directory, &hasher, from, visit);
        }
        // Entries of a directory without an index never move.
        let size = self.geometry.block_size as u64;
        let inodes = self.geometry.inodes;
        for block in
            u32::try_from(from / size).unwrap_or(u32::MAX)..self.directory_blocks(directory)?
        {
            self.store.device.pause();
            let physical = self.directory_block(directory, block)?;
            let content = self.store.get(physical)?;
            let start = u64::from(block) * size;
            for entry in dirent::entries(content, 0) {
                let told = start + (entry.at as u64) < from;
                if told || entry.inode == 0 || entry.inode > inodes {
                    continue;
                }
                let next = start + (entry.at + entry.length) as u64;
                if !visit(told_as(&entry, next)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The names `.` and `..` of an inline directory are not stored as entries.
    fn read_inline_directory(
        &mut self,
        directory: &Inode,
        from: u64,
        mut visit: impl FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let content = self.read_inline(directory)?;
        let parent = crate::bytes::u32_at(&content, 0);
        let known = [
            (b".".as_slice(), directory.number, 1),
            (b"..".as_slice(), parent, 2),
        ];
        for (name, inode, next) in known {
            if from < next
                && !visit(DirectoryEntry {
                    inode,
                    kind: 4,
                    name,
                    next,
                })
            {
                return Ok(());
            }
        }
        // Entries do not cross the end of the inode's map.
        let (first, second) = content.split_at(content.len().min(crate::inode::MAP_SIZE));
        for (region, at, start) in [(first, 4, 0), (second, 0, first.len() as u64)] {
            for entry in dirent::entries(region, at) {
                let told = start + (entry.at as u64) < from;
                if told || entry.inode == 0 || entry.inode > self.geometry.inodes {
                    continue;
                }
                let next = start + (entry.at + entry.length) as u64;
                if !visit(told_as(&entry, next)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the inode is not one; [`Error::Corrupt`], [`Error::Io`].
    pub fn read_link(&mut self, link: &Inode) -> Result<Vec<u8>> {
        if link.mode() & crate::inode::TYPE != crate::inode::SYMLINK {
            return Err(Error::Invalid);
        }
        let size = link.size();
        if size > self.geometry.block_size as u64 {
            return Err(Error::Corrupt("length of a symbolic link"));
        }
        let size = size as usize;
        if size == 0 {
            return Err(Error::Corrupt("length of a symbolic link"));
        }
        if link.has(INLINE_DATA) {
            let content = self.read_inline(link)?;
            return crate::bytes::copy(content.get(..size).unwrap_or(&content));
        }
        // A short target is stored in place of the map.
        if size < crate::inode::MAP_SIZE && !link.has(crate::inode::EXTENTS) {
            return crate::bytes::copy(&link.map()[..size]);
        }
        let block = self.must_map(link, 0)?;
        crate::bytes::copy(&self.store.get(block)?[..size])
    }
}

pub(crate) fn told_as<'a>(entry: &Entry<'a>, next: u64) -> DirectoryEntry<'a> {
    DirectoryEntry {
        inode: entry.inode,
        kind: dirent::dirent_type(entry.kind),
        name: entry.name,
        next,
    }
}
