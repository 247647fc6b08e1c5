//! The size of a file, its holes, and place that is set aside.

use super::errno;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::fs::tmpfs::check_limit;

impl Node {
    /// Changes the size.
    pub fn set_size(&self, size: u64) -> Result<()> {
        let data = self.data()?;
        if size > data.size() {
            check_limit(size)?;
        }
        let _alone = data.write_lock()?;
        data.cut(size)?;
        let done = {
            let mut fs = self.fs().lock()?;
            let done = fs.truncate(self.number(), size).map_err(errno);
            self.refresh(&mut fs)?;
            done
        };
        done?;
        self.modified()
    }

    /// Sets place aside; without `keep` the file ends behind it.
    pub fn preallocate(&self, offset: u64, len: u64, keep: bool) -> Result<()> {
        let data = self.data()?;
        let _alone = data.write_lock()?;
        // The disk knows no size that is greater than what it has.
        self.write_out(0..usize::MAX);
        let mut fs = self.fs().lock()?;
        let done = fs
            .preallocate(self.number(), offset, len, keep)
            .map_err(errno);
        self.refresh(&mut fs)?;
        done?;
        if !keep {
            data.extend(offset + len);
        }
        Ok(())
    }

    /// Makes a hole.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let data = self.data()?;
        let _alone = data.write_lock()?;
        let end = offset.saturating_add(len).min(data.size());
        if offset >= end {
            return Ok(());
        }
        data.zero(offset..end)?;
        self.write_out(0..usize::MAX);
        let size = self.fs().block_size as u64;
        let (first, last) = (offset.div_ceil(size), end / size);
        if first < last {
            let first = u32::try_from(first).map_err(|_| Errno::EFBIG)?;
            let count = (last - u64::from(first)) as u32;
            let mut fs = self.fs().lock()?;
            let done = fs.punch_hole(self.number(), first, count).map_err(errno);
            self.refresh(&mut fs)?;
            done?;
        }
        Ok(())
    }
}
