//! lseek(2) with SEEK_DATA and SEEK_HOLE. Blocks that are allocated but not written yet count as
//! data where the page cache has a page.

use super::errno;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, PageSource};
use ext4::Device;

impl Node {
    /// The first byte at or after `position` that is data, or that is in a hole; `None` if there is
    /// none.
    pub fn next_place(&self, position: u64, is_data: bool) -> Result<Option<u64>> {
        let (data, size) = (self.data()?, self.fs().block_size as u64);
        let mut at = position;
        let mut fs = self.fs().lock()?;
        let inode = fs.inode(self.number()).map_err(errno)?;
        loop {
            let block = u32::try_from(at / size).map_err(|_| Errno::ENXIO)?;
            let mapped = match is_data {
                true => fs.next_mapped(&inode, block).map_err(errno)?,
                false => Some(block),
            };
            let Some(block) = mapped else {
                return Ok(None);
            };
            at = at.max(u64::from(block) * size);
            let Some(extent) = fs.map(&inode, block).map_err(errno)? else {
                return Ok(Some(at));
            };
            let end = u64::from(extent.end()) * size;
            let index = (at / PAGE_SIZE as u64) as usize;
            let cached = match extent.written {
                true => Some(index),
                false => data.next_present(index),
            };
            let start = cached.map_or(end, |index| at.max((index * PAGE_SIZE) as u64));
            match is_data {
                true if start < end => return Ok(Some(start)),
                false if start > at => return Ok(Some(at)),
                false if !extent.written => at = end.min(((index + 1) * PAGE_SIZE) as u64),
                _ => at = end,
            }
            fs.device().pause();
        }
    }
}
