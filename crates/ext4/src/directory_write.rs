//! Changes directories: adds, replaces and removes entries.

use crate::directory::Found;
use crate::dirent::{self, Entry, entries, needed, set_entry, set_length, usable};
use crate::extent::Extent;
use crate::features::Compatible;
use crate::inode::Inode;
use crate::seal::Seal;
use crate::{Device, Error, Fs, Result};

/// The place for an entry of this size: after an entry, or in its place.
fn place_for(block: &[u8], usable: usize, needs: usize) -> Option<(Entry<'_>, usize)> {
    entries(block, 0)
        .take_while(|entry| entry.at < usable)
        .find_map(|entry| {
            let used = if entry.inode == 0 {
                0
            } else {
                needed(entry.name.len())
            };
            (entry.length >= used + needs).then_some((entry, used))
        })
}

impl<D: Device> Fs<D> {
    /// A block with entries, which is to be changed.
    pub(crate) fn change_entries(
        &mut self,
        directory: &Inode,
        block: u32,
        physical: u64,
    ) -> Result<&mut [u8]> {
        let kind = self.directory_kind(directory, block);
        let seal = Seal::Entries(directory.seed(&self.geometry));
        let seal = self.geometry.checksums().then_some(seal);
        self.store.change_as(physical, kind, seal)
    }

    /// Adds an entry with a new name. The caller stores the directory.
    pub(crate) fn add_entry(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        inode: u32,
        kind: u8,
    ) -> Result<()> {
        if self.is_indexed(directory) {
            return self.add_indexed(directory, name, inode, kind);
        }
        let blocks = self.directory_blocks(directory)?;
        for block in 0..blocks {
            self.store.device.pause();
            if self.add_in(directory, block, name, inode, kind)? {
                return Ok(());
            }
        }
        if blocks == 1
            && self
                .geometry
                .features
                .compatible
                .contains(Compatible::DIR_INDEX)
        {
            self.make_index(directory)?;
            return self.add_indexed(directory, name, inode, kind);
        }
        let (block, _) = self.append_block(directory)?;
        self.add_in(directory, block, name, inode, kind)?;
        Ok(())
    }

    /// Adds an entry to a block, if there is room.
    pub(crate) fn add_in(
        &mut self,
        directory: &Inode,
        block: u32,
        name: &[u8],
        inode: u32,
        kind: u8,
    ) -> Result<bool> {
        let physical = self.directory_block(directory, block)?;
        let end = usable(&self.geometry);
        let content = self.store.get(physical)?;
        let Some((before, used)) = place_for(content, end, needed(name.len())) else {
            return Ok(false);
        };
        let (at, length) = (before.at, before.length);
        let content = self.change_entries(directory, block, physical)?;
        if used > 0 {
            set_length(content, at, used);
        }
        set_entry(content, at + used, length - used, inode, kind, name);
        Ok(true)
    }

    /// Appends a block without entries. Returns its index, and its disk block.
    pub(crate) fn append_block(&mut self, directory: &mut Inode) -> Result<(u32, u64)> {
        self.check_mapped(directory)?;
        let block = self.directory_blocks(directory)?;
        let goal = match block.checked_sub(1) {
            Some(last) => self.must_map(directory, last)? + 1,
            None => self.inode_goal(directory.number)?,
        };
        let physical = self.allocate_metadata(goal)?;
        let new = Extent {
            logical: block,
            length: 1,
            physical,
            written: true,
        };
        self.insert_extent(directory, new)?;
        directory.add_blocks(&self.geometry, 1)?;
        directory.set_size((u64::from(block) + 1) * self.geometry.block_size as u64);
        let end = usable(&self.geometry);
        let content = self.change_entries(directory, block, physical)?;
        set_entry(content, 0, end, 0, 0, &[]);
        Ok((block, physical))
    }

    /// Makes an entry refer to another inode.
    pub(crate) fn replace_entry(
        &mut self,
        directory: &Inode,
        found: &Found,
        inode: u32,
        kind: u8,
    ) -> Result<()> {
        let physical = self.directory_block(directory, found.block)?;
        let content = match found.block == 0 && self.is_indexed(directory) {
            true => self.change_node_of_index(directory, 0, dirent::ROOT_ENTRIES)?,
            false => self.change_entries(directory, found.block, physical)?,
        };
        crate::bytes::put32(content, found.at, inode);
        crate::bytes::put(content, found.at + 7, &[kind]);
        Ok(())
    }

    /// Removes an entry: the one before it takes over its space.
    pub(crate) fn remove_entry_at(&mut self, directory: &Inode, found: &Found) -> Result<()> {
        let physical = self.directory_block(directory, found.block)?;
        let content = self.change_entries(directory, found.block, physical)?;
        let gone = dirent::entry(content, found.at).ok_or(Error::Corrupt("directory"))?;
        let length = gone.length;
        let before = entries(content, 0)
            .find(|entry| entry.at + entry.length == found.at)
            .map(|entry| (entry.at, entry.length));
        match before {
            Some((at, before)) => set_length(content, at, before + length),
            None => crate::bytes::put32(content, found.at, 0),
        }
        Ok(())
    }

    /// Whether a directory has no entries except `.` and `..`.
    pub(crate) fn is_empty(&mut self, directory: &Inode) -> Result<bool> {
        let mut empty = true;
        self.read_directory(directory, 0, |entry| {
            empty = matches!(entry.name, b"." | b"..");
            empty
        })?;
        Ok(empty)
    }
}
