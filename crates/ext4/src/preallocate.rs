//! fallocate(2): allocates blocks without content, and removes content.

use crate::{Device, Error, Fs, Result};

/// The maximum number of extents that one transaction changes.
pub(crate) const AT_ONCE: usize = 16;

impl<D: Device> Fs<D> {
    /// Allocates the blocks of a range of bytes, which read as zeroes (`fallocate` without a mode,
    /// or with `FALLOC_FL_KEEP_SIZE`). After [`Error::NoSpace`], the blocks that were allocated
    /// stay, and the file has grown over them, as in Linux.
    ///
    /// # Errors
    /// Those of [`Fs::allocate`]; [`Error::Invalid`] for an empty range.
    pub fn preallocate(
        &mut self,
        number: u32,
        offset: u64,
        length: u64,
        keep_size: bool,
    ) -> Result<()> {
        if length == 0 {
            return Err(Error::Invalid);
        }
        let end = offset.checked_add(length).ok_or(Error::TooLarge)?;
        self.check_size(end)?;
        let size = self.geometry.block_size as u64;
        let (mut block, last) = ((offset / size) as u32, end.div_ceil(size) as u32);
        let done = loop {
            if block >= last {
                break Ok(());
            }
            match self.allocate(number, block, last - block) {
                Ok(extent) => block += extent.length,
                Err(error) => break Err(error),
            }
            self.store.device.pause();
        };
        let reached = end.min(u64::from(block) * size);
        if !keep_size && reached > offset && self.inode(number)?.size() < reached {
            self.extend(number, reached)?;
        }
        done
    }

    /// Makes blocks of a file read as zeroes but keeps them allocated, and allocates those that are
    /// not (`FALLOC_FL_ZERO_RANGE`). The caller writes zeroes to blocks that are only partly in the
    /// range, and sets the size.
    ///
    /// # Errors
    /// Those of [`Fs::allocate`].
    pub fn zero_range(&mut self, number: u32, block: u32, count: u32) -> Result<()> {
        let to = block.saturating_add(count);
        self.say_written(number, block, to, false)?;
        let mut block = block;
        while block < to {
            block += self.allocate(number, block, to - block)?.length;
            self.store.device.pause();
        }
        Ok(())
    }

    /// Marks the blocks from `from` to before `to` as written or not, some extents in each
    /// transaction.
    pub(crate) fn say_written(
        &mut self,
        number: u32,
        mut from: u32,
        to: u32,
        written: bool,
    ) -> Result<()> {
        while from < to {
            from = self.complete(|this| {
                let mut inode = this.file(number)?;
                let next = this.convert(&mut inode, from, to, written, AT_ONCE)?;
                if !written {
                    this.touch(&mut inode);
                }
                this.set_inode(&inode)?;
                Ok(next)
            })?;
            self.store.device.pause();
        }
        Ok(())
    }
}
