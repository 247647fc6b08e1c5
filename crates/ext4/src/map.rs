//! The location of a file's blocks, for a page cache that reads and writes them itself.

use crate::bytes::u32_at;
use crate::extent::Extent;
use crate::inode::{EXTENTS, INLINE_DATA, Inode};
use crate::{Device, Error, Fs, Result};

/// The number of block numbers in an inode that refer to data directly.
const DIRECT: u64 = 12;

/// The result of a look-up in tables of block numbers.
enum Indirect {
    /// The location of the block.
    Block(u64),
    /// The block is not mapped, nor are those after it, this many in all.
    Hole(u64),
}

impl<D: Device> Fs<D> {
    /// The location of a file's block, and of the following ones that are consecutive on disk: an
    /// extent that begins with the block. `None` means a hole, which reads as zeroes, as do blocks
    /// that are not written yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`]; [`Error::Unsupported`] for a file with its content in its
    /// inode, see [`Fs::read_inline`].
    pub fn map(&mut self, inode: &Inode, block: u32) -> Result<Option<Extent>> {
        if inode.has(INLINE_DATA) {
            return Err(Error::Unsupported("map of inline data"));
        }
        if !inode.has(EXTENTS) {
            let Indirect::Block(physical) = self.indirect(inode, block)? else {
                return Ok(None);
            };
            return Ok(Some(Extent {
                logical: block,
                length: 1,
                physical,
                written: true,
            }));
        }
        Ok(self
            .find_extent(inode, block)?
            .filter(|found| found.logical <= block)
            .map(|found| {
                let into = block - found.logical;
                Extent {
                    logical: block,
                    length: found.length - into,
                    physical: found.physical + u64::from(into),
                    written: found.written,
                }
            }))
    }

    /// The first block at or after `block` that is mapped, or `None`.
    ///
    /// # Errors
    /// Those of [`Fs::map`].
    pub fn next_mapped(&mut self, inode: &Inode, block: u32) -> Result<Option<u32>> {
        if inode.has(INLINE_DATA) {
            return Err(Error::Unsupported("map of inline data"));
        }
        if inode.has(EXTENTS) {
            return Ok(self
                .find_extent(inode, block)?
                .map(|found| found.logical.max(block)));
        }
        let end = inode.size().div_ceil(self.geometry.block_size as u64);
        let mut block = u64::from(block);
        // Each iteration except the last skips a hole at the end of a table; a valid file has no
        // more of them than the disk has blocks.
        for _ in 0..self.geometry.blocks {
            if block >= end.min(1 << 32) {
                return Ok(None);
            }
            match self.indirect(inode, block as u32)? {
                Indirect::Block(_) => return Ok(Some(block as u32)),
                Indirect::Hole(length) => block += length,
            }
            self.store.device.pause();
        }
        Err(Error::Corrupt("map of a file"))
    }

    /// The first block at or after `block` that is written, or `None`, for `SEEK_DATA`. Data in the
    /// caller's cache for blocks that are not written yet also counts, but is not known here.
    ///
    /// # Errors
    /// Those of [`Fs::map`].
    pub fn next_data(&mut self, inode: &Inode, mut block: u32) -> Result<Option<u32>> {
        while let Some(at) = self.next_mapped(inode, block)? {
            match self.map(inode, at)? {
                Some(extent) if !extent.written => block = extent.end(),
                _ => return Ok(Some(at)),
            }
            self.store.device.pause();
        }
        Ok(None)
    }

    /// The first block at or after `block` that is not written, for `SEEK_HOLE`. It may be beyond
    /// the end of the file.
    ///
    /// # Errors
    /// Those of [`Fs::map`].
    pub fn next_hole(&mut self, inode: &Inode, mut block: u32) -> Result<u32> {
        // A valid file has no more blocks than the disk.
        for _ in 0..self.geometry.blocks {
            match self.map(inode, block)? {
                Some(extent) if extent.written && extent.end() < u32::MAX => block = extent.end(),
                _ => return Ok(block),
            }
            self.store.device.pause();
        }
        Err(Error::Corrupt("map of a file"))
    }

    /// The location of a block of a file that is mapped by block numbers.
    fn indirect(&mut self, inode: &Inode, block: u32) -> Result<Indirect> {
        let fanout = self.geometry.block_size as u64 / 4;
        let mut rest = u64::from(block);
        if rest < DIRECT {
            return self.data_block(u32_at(inode.map(), rest as usize * 4), 1);
        }
        rest -= DIRECT;
        let mut span = 1;
        for level in 1..=3usize {
            span *= fanout;
            if rest >= span {
                rest -= span;
                continue;
            }
            let at = u32_at(inode.map(), (DIRECT as usize + level - 1) * 4);
            let mut found = self.data_block(at, span - rest)?;
            for _ in 0..level {
                let Indirect::Block(table) = found else { break };
                span /= fanout;
                let index = (rest / span) as usize;
                rest %= span;
                let table = self.store.get(table)?;
                let at = u32_at(table, index * 4);
                let behind = table.chunks(4).skip(index);
                let zeroes = behind.take_while(|entry| *entry == [0; 4]).count() as u64;
                found = self.data_block(at, (zeroes * span).saturating_sub(rest))?;
            }
            return Ok(found);
        }
        Err(Error::TooLarge)
    }

    /// The meaning of a table's entry; if it is zero, `hole` is the length of the hole.
    fn data_block(&self, block: u32, hole: u64) -> Result<Indirect> {
        let block = u64::from(block);
        if block == 0 {
            return Ok(Indirect::Hole(hole));
        }
        if block <= self.geometry.first_block
            || block >= self.geometry.blocks
            || self.zones.overlap(block, 1)
        {
            return Err(Error::Corrupt("number of a block"));
        }
        Ok(Indirect::Block(block))
    }

    /// The location of a block of a file that must be mapped, such as a directory's.
    pub(crate) fn must_map(&mut self, inode: &Inode, block: u32) -> Result<u64> {
        match self.map(inode, block)? {
            Some(extent) if extent.written => Ok(extent.physical),
            _ => Err(Error::Corrupt("hole in metadata")),
        }
    }
}
