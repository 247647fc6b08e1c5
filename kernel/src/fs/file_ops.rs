//! The operations of an open file.

use super::file::File;
use super::inode::Kind;
use super::io::{Sink, Source};
use super::path::Path;
use super::poll::{Events, PollTable};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::mm::PageSource;
use core::any::Any;
use core::ops::Range;

/// The origin of lseek(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start.
    Set,
    /// The present position.
    Current,
    /// The end.
    End,
    /// The next data.
    Data,
    /// The next hole.
    Hole,
}

/// One record of a directory.
pub struct Record<'a> {
    /// Number of the inode.
    pub inode: u64,
    /// The type of the file.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
    /// The position at which reading continues after this record.
    pub next: u64,
}

/// The memory of a file that can be mapped.
pub enum Memory<'a> {
    /// None: ENODEV.
    None,
    /// Fresh zeroed memory, as for /dev/zero.
    Zeroes,
    /// These pages.
    Pages(&'a dyn PageSource),
}

/// The operations of a file on which open(2) succeeded.
pub trait FileOps: Send + Sync + Any {
    /// Whether it has no position, like pipes and terminals. Called once, at open.
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether a stream accepts positions, though they do not matter, like /dev/zero.
    fn has_places(&self) -> bool {
        false
    }

    /// Whether a stream without positions accepts lseek(2), which does nothing (Linux's
    /// `noop_llseek`).
    fn ignores_seeks(&self) -> bool {
        false
    }

    /// Whether writes at a given position are refused, as for each seq_file of Linux. Called once,
    /// at open.
    fn is_written_in_order(&self) -> bool {
        false
    }

    /// The approximate kernel memory in bytes that is freed when it is finally closed. Takes no
    /// sleeping lock.
    fn held(&self) -> usize {
        0
    }

    /// Reads from `position` on; 0 means end of file.
    fn read(&self, file: &File, _to: &mut Sink, _position: u64) -> Result<usize> {
        match file.dentry().kind() {
            Kind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes at `position`.
    fn write(&self, _file: &File, _from: &mut Source, _position: u64) -> Result<usize> {
        Err(Errno::EINVAL)
    }

    /// Writes at the end and also returns the position after the data (`O_APPEND`).
    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        Ok((self.write(file, from, 0)?, 0))
    }

    /// Whether it can be waited for.
    fn can_poll(&self, file: &File) -> bool {
        !matches!(file.path().kind(), Kind::Regular | Kind::Directory)
    }

    /// The operations that would not block now. With `table`, the poll is notified when that
    /// changes.
    fn poll(&self, _file: &File, _table: Option<&mut PollTable>) -> Events {
        Events::IN | Events::OUT
    }

    /// Whether a signal may report that the file became ready (O_ASYNC). Not for files that signals
    /// make ready, since each such signal would cause the next.
    fn has_async(&self) -> bool {
        false
    }

    /// The current process closes a descriptor of it, and may have others.
    fn flush(&self) {}

    /// Writes the part of `/proc/PID/fdinfo` that is specific to the file.
    fn describe(&self, _text: &mut Text) {}

    /// A control operation; `argument` is a number or a user address.
    fn ioctl(&self, _file: &File, _request: u32, _argument: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }

    /// Passes a directory's records from `position` on to `emit` until that returns false.
    fn read_dir(
        &self,
        _file: &File,
        _position: u64,
        _emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        Err(Errno::ENOTDIR)
    }

    /// The new position for lseek(2).
    fn seek(&self, file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let size = file.path().inode().attr().size;
        seek_in(size, position, offset, whence)
    }

    /// Allocates space from `offset` on (fallocate(2)), with its mode bits.
    fn allocate(&self, _file: &File, _mode: u32, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns when the written bytes of a range are on the medium (fsync(2)).
    ///
    /// # Errors
    /// A write-back error that was not reported to this open file yet.
    fn sync(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Returns when the written bytes of a range are on the device, possibly in its cache
    /// (sync_file_range(2)).
    ///
    /// # Errors
    /// As [`FileOps::sync`].
    fn write_range(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Reads a range into the page cache (readahead(2), POSIX_FADV_WILLNEED).
    fn read_ahead(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Drops the page cache of a range (POSIX_FADV_DONTNEED).
    fn forget(&self, _file: &File, _range: Range<u64>) {}

    /// Whether O_DIRECT is supported for a file opened by `path`.
    fn has_direct(&self, _path: &Path) -> bool {
        false
    }

    /// Whether shared mappings of it can never be written, though it may be open for writing.
    fn maps_read_only(&self) -> bool {
        false
    }

    /// Called when the file is mapped, which counts as reading it.
    fn mapped(&self, _file: &File) {}

    /// The memory that mmap can map.
    fn memory(&self) -> Memory<'_> {
        Memory::None
    }
}

/// lseek(2) in a file of `size` bytes without holes.
pub fn seek_in(size: u64, position: u64, offset: i64, whence: Whence) -> Result<u64> {
    let base = match whence {
        Whence::Set => 0,
        Whence::Current => position,
        Whence::End => size,
        Whence::Data | Whence::Hole => {
            return match u64::try_from(offset) {
                Ok(offset) if offset < size => {
                    Ok(if whence == Whence::Data { offset } else { size })
                }
                _ => Err(Errno::ENXIO),
            };
        }
    };
    match base.checked_add_signed(offset) {
        Some(position) if position <= i64::MAX as u64 => Ok(position),
        _ => Err(Errno::EINVAL),
    }
}
