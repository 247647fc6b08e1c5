//! Open block devices.

use super::volume::{self, Volume};
use super::{direct, extent, ioctl};
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps, Memory, OpenFlags, Whence, seek_in};
use crate::fs::io::{Sink, Source};
use crate::fs::page_cache::{Ahead, pages_of};
use crate::fs::path::Path;
use crate::mm::heap::try_arc;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use linux_raw_sys::general::{O_DIRECT, O_DSYNC, O_EXCL};

/// An open block device.
pub struct BlockFile {
    volume: Arc<Volume>,
    /// Opened with O_EXCL.
    alone: bool,
    ahead: Ahead,
    /// The writeback errors reported to it so far.
    told: AtomicU32,
}

/// Opens the block device with this number.
pub fn open(number: u64, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    let volume = volume::find(number).ok_or(Errno::ENXIO)?;
    let alone = flags.has(O_EXCL);
    volume.begin_use(alone)?;
    let told = AtomicU32::new(volume.mapping().errors().sample());
    Ok(try_arc(BlockFile {
        volume,
        alone,
        ahead: Ahead::default(),
        told,
    })?)
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        self.volume.end_use(self.alone);
    }
}

impl FileOps for BlockFile {
    fn read(&self, file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        if file.flags().has(O_DIRECT) {
            return direct::read(&self.volume, to, position);
        }
        self.volume.mapping().read(to, position, &self.ahead)
    }

    fn write(&self, file: &File, from: &mut Source, position: u64) -> Result<usize> {
        if self.maps_read_only() {
            return Err(Errno::EPERM);
        }
        if from.left() == 0 {
            return Ok(0);
        }
        if position >= self.volume.size() {
            return Err(Errno::ENOSPC);
        }
        let count = match file.flags().has(O_DIRECT) {
            true => direct::write(&self.volume, from, position)?,
            false => self.volume.mapping().write(from, position)?,
        };
        if file.flags().has(O_DSYNC) {
            let end = position + count as u64;
            self.sync(file, position..end)?;
        }
        Ok(count)
    }

    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        let end = self.volume.size();
        Ok((self.write(file, from, end)?, end))
    }

    fn can_poll(&self, _file: &File) -> bool {
        false
    }

    fn ioctl(&self, file: &File, request: u32, argument: usize) -> Result<usize> {
        ioctl::handle(&self.volume, file, request, argument)
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let size = self.volume.size();
        match seek_in(size, position, offset, whence)? {
            place if place > size => Err(Errno::EINVAL),
            place => Ok(place),
        }
    }

    fn has_direct(&self, _path: &Path) -> bool {
        true
    }

    fn maps_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn memory(&self) -> Memory<'_> {
        Memory::Pages(&**self.volume.mapping())
    }

    fn allocate(&self, _file: &File, mode: u32, offset: u64, len: u64) -> Result<()> {
        extent::allocate(&self.volume, mode, offset, len)
    }

    fn sync(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let mapping = self.volume.mapping();
        mapping.write_back(pages(&range))?;
        if let Err(error) = self.volume.device().flush() {
            mapping.record(error);
        }
        mapping.errors().check(&self.told)
    }

    fn write_range(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let mapping = self.volume.mapping();
        mapping.write_back(pages(&range))?;
        mapping.errors().check(&self.told)
    }

    fn read_ahead(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let pages = pages(&range);
        // The failure is not reported, as on Linux.
        _ = self.volume.mapping().read_ahead(pages.start, pages.len());
        Ok(())
    }

    fn forget(&self, _file: &File, range: Range<u64>) {
        let mapping = self.volume.mapping();
        _ = mapping.write_back(pages(&range));
        mapping.forget(pages(&range));
    }
}

/// The page indices that a range of bytes touches.
fn pages(range: &Range<u64>) -> Range<usize> {
    pages_of(range.start.saturating_add(1)).saturating_sub(1)..pages_of(range.end)
}
