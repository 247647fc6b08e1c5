//! Where the blocks of a file are, for a page cache that reads and writes them itself.

use crate::bytes::u32_at;
use crate::extent::Extent;
use crate::inode::{EXTENTS, INLINE_DATA, Inode};
use crate::{Device, Error, Fs, Result};

/// Block numbers of an inode that lead to data directly.
const DIRECT: u64 = 12;

impl<D: Device> Fs<D> {
    /// Where a block of a file is, with those that follow it on disk: an extent that begins with
    /// the block. `None` is a hole, which reads as zeroes, as do blocks that are not written yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`]; [`Error::Unsupported`] for a file whose content is in its
    /// inode, see [`Fs::read_inline`].
    pub fn map(&mut self, inode: &Inode, block: u32) -> Result<Option<Extent>> {
        if inode.has(INLINE_DATA) {
            return Err(Error::Unsupported("map of inline data"));
        }
        if !inode.has(EXTENTS) {
            let physical = self.indirect(inode, block)?;
            return Ok(physical.map(|physical| Extent {
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

    /// The first block at or after `block` that is mapped, or `None`: for `SEEK_DATA`.
    ///
    /// # Errors
    /// Those of [`Fs::map`].
    pub fn next_mapped(&mut self, inode: &Inode, block: u32) -> Result<Option<u32>> {
        if inode.has(EXTENTS) {
            return Ok(self
                .find_extent(inode, block)?
                .map(|found| found.logical.max(block)));
        }
        let end = inode.size().div_ceil(self.geometry.block_size as u64);
        for block in u64::from(block)..end.min(1 << 32) {
            if self.map(inode, block as u32)?.is_some() {
                return Ok(Some(block as u32));
            }
        }
        Ok(None)
    }

    /// The block on disk of a block of a file that is mapped by block numbers.
    fn indirect(&mut self, inode: &Inode, block: u32) -> Result<Option<u64>> {
        let fanout = self.geometry.block_size as u64 / 4;
        let mut rest = u64::from(block);
        if rest < DIRECT {
            return self.data_block(u32_at(inode.map(), rest as usize * 4));
        }
        rest -= DIRECT;
        let mut span = 1;
        for level in 1..=3usize {
            span *= fanout;
            if rest >= span {
                rest -= span;
                continue;
            }
            let mut at = u32_at(inode.map(), (DIRECT as usize + level - 1) * 4);
            for _ in 0..level {
                let Some(table) = self.data_block(at)? else {
                    return Ok(None);
                };
                span /= fanout;
                let index = (rest / span) as usize;
                rest %= span;
                at = u32_at(self.store.get(table)?, index * 4);
            }
            return self.data_block(at);
        }
        Err(Error::TooLarge)
    }

    fn data_block(&self, block: u32) -> Result<Option<u64>> {
        let block = u64::from(block);
        if block == 0 {
            return Ok(None);
        }
        if block <= self.geometry.first_block || block >= self.geometry.blocks {
            return Err(Error::Corrupt("number of a block"));
        }
        Ok(Some(block))
    }

    /// The block on disk of a block of a file that must be there, such as a directory's.
    pub(crate) fn must_map(&mut self, inode: &Inode, block: u32) -> Result<u64> {
        match self.map(inode, block)? {
            Some(extent) if extent.written => Ok(extent.physical),
            _ => Err(Error::Corrupt("hole in metadata")),
        }
    }
}
