//! The size of a file, its holes, and preallocated blocks.

use super::errno;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::fs::tmpfs::check_limit;
use crate::task::sched::{cond_resched, cond_resched_killable};
use core::sync::atomic::Ordering::*;

/// The number of bytes that are preallocated at a time: others can use the file system in between.
const STEP: u64 = 64 << 20;

impl Node {
    /// Changes the size.
    pub fn set_size(&self, size: u64) -> Result<()> {
        let data = self.data()?;
        self.check_mutable()?;
        if size > data.size() {
            check_limit(size)?;
        }
        self.lose_privileges()?;
        let _alone = data.write_lock()?;
        if size == 0 && data.size() > 0 {
            self.emptied.store(true, Relaxed);
        }
        let before = data.size();
        if size >= before {
            data.lengthen(size, || {
                let mut fs = self.fs().lock()?;
                let mut done = fs.truncate(self.number(), size);
                // Blocks that were allocated for data not written yet are beyond the end on the
                // disk.
                let same = size == before && self.with_inode(ext4::Inode::size) < size;
                if same && done.is_ok() {
                    done = fs.truncate(self.number(), size);
                }
                _ = self.refresh(&mut fs);
                done.map_err(errno)
            })?;
        } else {
            let begin = || {
                let (mut fs, number) = (self.fs().lock()?, self.number());
                // The size on the disk may have been smaller; it is updated only now.
                let begun = fs
                    .begin_truncate(number, size)
                    .and_then(|begun| match begun {
                        true => Ok(true),
                        false => fs.begin_truncate(number, size),
                    });
                _ = self.refresh(&mut fs);
                begun.map(drop).map_err(errno)
            };
            let free = || {
                loop {
                    let mut fs = self.fs().lock()?;
                    let done = fs.free_some_behind(self.number(), size);
                    _ = self.refresh(&mut fs);
                    drop(fs);
                    if done.map_err(errno)? {
                        return Ok(());
                    }
                    // Others can use the file system in between.
                    cond_resched();
                }
            };
            data.cut(size, begin, free)?;
        }
        self.modified()
    }

    /// Preallocates blocks; without `keep` the file is extended to their end.
    pub fn preallocate(&self, offset: u64, len: u64, keep: bool) -> Result<()> {
        let data = self.data()?;
        let _alone = data.write_lock()?;
        // The size on the disk is never larger than the data there.
        self.write_out(0..usize::MAX)?;
        if !keep {
            data.zero_tail();
        }
        let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
        self.fs().lock()?.check_size(end).map_err(errno)?;
        let mut at = offset;
        while at < end {
            let next = end.min(at - at % STEP + STEP);
            let mut fs = self.fs().lock()?;
            let done = fs.preallocate(self.number(), at, next - at, keep);
            let refreshed = self.refresh(&mut fs);
            drop(fs);
            if !keep {
                // This includes blocks allocated before the disk was full.
                data.extend(self.with_inode(ext4::Inode::size));
            }
            done.map_err(errno).and(refreshed)?;
            at = next;
            cond_resched_killable()?;
        }
        Ok(())
    }

    /// Punches a hole.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let data = self.data()?;
        let _alone = data.write_lock()?;
        let end = offset.saturating_add(len).min(data.size());
        if offset >= end {
            return Ok(());
        }
        let size = self.fs().block_size as u64;
        let number = |block: u64| u32::try_from(block).map_err(|_| Errno::EFBIG);
        let (first, last) = (number(offset.div_ceil(size))?, number(end / size)?);
        data.punch(offset..end, || {
            if first >= last {
                return Ok(());
            }
            let mut fs = self.fs().lock()?;
            let done = fs.punch_hole(self.number(), first, last - first);
            self.refresh(&mut fs)?;
            done.map_err(errno)
        })
    }
}
