//! Open files and directories.

use super::super::file::{File, FileOps, Memory, Record, Whence, seek_in};
use super::super::inode::{Inode, Kind};
use super::super::io::{Sink, Source};
use super::super::page_cache::{Ahead, pages_of};
use super::super::path::Path;
use super::super::tmpfs::{check_limit, limit_size};
use super::super::{attr_lock, perm};
use super::errno;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::mm::virtio_blk::SECTOR;
use crate::task::{oom, require};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::{FS_IOC_GETFLAGS, FS_IOC_SETFLAGS};

/// The number of directory records that are read at a time.
const AT_ONCE: usize = 64;

/// An open file or directory.
pub struct Open {
    node: Arc<Node>,
    ahead: Ahead,
    /// The write-back errors that were reported to it.
    told: AtomicU32,
}

impl Open {
    /// Opens a file or directory.
    pub fn open(node: Arc<Node>) -> Result<Arc<dyn FileOps>> {
        let told = node.data().map_or(0, |data| data.errors().sample());
        Ok(try_arc(Open {
            node,
            ahead: Ahead::default(),
            told: AtomicU32::new(told),
        })?)
    }

    fn write_to(
        &self,
        file: &File,
        from: &mut Source,
        position: Option<u64>,
    ) -> Result<(usize, u64)> {
        let data = self.node.data()?;
        self.node.check_mutable()?;
        if from.left() == 0 {
            return Ok((0, position.unwrap_or_else(|| data.size())));
        }
        let direct = file.flags().has(O_DIRECT);
        let (count, end) = data.write_growing(from, position, |from, start| {
            self.node.check_mutable()?;
            limit_size(from, start)?;
            if direct {
                self.check_direct(start, from.left(), from.alignment())?;
            }
            // Before others can run what is written.
            self.node.lose_privileges()
        })?;
        // Without memory, the change is recorded when the file is closed.
        _ = self.node.modified();
        let range = end - count as u64..end;
        if direct {
            oom::insist(|| data.write_back(pages(&range)))?;
            data.forget(pages(&range));
            data.errors().check(&self.told)?;
        }
        let mounted = file.path().mount_flags() & MS_SYNCHRONOUS != 0;
        if file.flags().has(O_DSYNC) || mounted || self.node.has(FS_SYNC_FL) {
            oom::insist(|| self.sync(file, range.clone()))?;
        }
        Ok((count, end))
    }

    /// EINVAL if an O_DIRECT transfer does not consist of whole blocks of the disk in aligned
    /// memory. Written data passes through the cache to the disk, and does not stay in the cache.
    fn check_direct(&self, position: u64, len: usize, alignment: usize) -> Result<()> {
        let block = self.node.fs().volume.device().properties().block_size;
        let whole = position.is_multiple_of(block as u64) && len.is_multiple_of(block);
        match whole && alignment.is_multiple_of(SECTOR) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }

    fn read_direct(&self, to: &mut Sink, position: u64) -> Result<usize> {
        let data = self.node.data()?;
        if position >= data.size() {
            return Ok(0);
        }
        self.check_direct(position, to.left(), to.alignment())?;
        let range = pages(&(position..position.saturating_add(to.left() as u64)));
        // Even if that fails, the data is read from the cache.
        _ = data.write_back(range.clone());
        let count = data.read(to, position, &Ahead::none())?;
        data.forget(range);
        Ok(count)
    }

    /// FS_IOC_SETFLAGS
    fn set_flags(&self, file: &File, flags: u32) -> Result<()> {
        perm::writable(file.path())?;
        let node = &self.node;
        let _alone = attr_lock::lock(&**node)?;
        perm::owner(file.dentry())?;
        // This changes attributes, at a later time than that of earlier writes.
        node.write_out(0..0)?;
        let mut fs = node.fs().lock()?;
        if (node.flags() ^ flags) & perm::FIXED != 0 {
            require(CAP_LINUX_IMMUTABLE)?;
        }
        fs.set_user_flags(node.number(), flags).map_err(errno)?;
        node.refresh(&mut fs)
    }
}

impl Drop for Open {
    /// Data that a program wrote through a mapping must survive the close.
    fn drop(&mut self) {
        let emptied = self.node.emptied.swap(false, Relaxed);
        if emptied || self.node.is_dirty() && self.node.fs().keep(&self.node).is_err() {
            _ = self.node.write_out(0..usize::MAX);
        }
    }
}

/// A record of a directory.
struct Entry {
    inode: u32,
    kind: u8,
    name: Vec<u8>,
    next: u64,
}

/// The type of an entry that is recorded in its directory.
fn kind_of(noted: u8) -> Kind {
    Kind::of_mode(u32::from(noted) << 12).unwrap_or(Kind::Anonymous)
}

impl FileOps for Open {
    fn held(&self) -> usize {
        0
    }

    fn read(&self, file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let count = match file.flags().has(O_DIRECT) {
            true => self.read_direct(to, position)?,
            false => self.node.data()?.read(to, position, &self.ahead)?,
        };
        self.node.accessed(file);
        Ok(count)
    }

    fn write(&self, file: &File, from: &mut Source, position: u64) -> Result<usize> {
        Ok(self.write_to(file, from, Some(position))?.0)
    }

    fn append(&self, file: &File, from: &mut Source) -> Result<(usize, u64)> {
        self.write_to(file, from, None)
    }

    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        self.node.names()?;
        if file.dentry().is_removed() {
            return Err(Errno::ENOENT);
        }
        let mut position = position;
        loop {
            let entries = self.entries(position)?;
            let Some(last) = entries.last() else {
                break;
            };
            position = last.next;
            for entry in &entries {
                let record = Record {
                    inode: entry.inode.into(),
                    kind: kind_of(entry.kind),
                    name: &entry.name,
                    next: entry.next,
                };
                if !emit(record) {
                    self.node.accessed(file);
                    return Ok(());
                }
            }
        }
        self.node.accessed(file);
        Ok(())
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let Ok(data) = self.node.data() else {
            return seek_in(i64::MAX as u64, position, offset, whence);
        };
        let place = seek_in(data.size(), position, offset, whence)?;
        if !matches!(whence, Whence::Data | Whence::Hole) {
            return Ok(place);
        }
        let found = self
            .node
            .next_place(offset as u64, whence == Whence::Data)?;
        match (whence, found) {
            (Whence::Hole, Some(start)) => Ok(start.min(data.size())),
            (_, Some(start)) if start < data.size() => Ok(start),
            _ => Err(Errno::ENXIO),
        }
    }

    fn allocate(&self, _file: &File, mode: u32, offset: u64, len: u64) -> Result<()> {
        let data = self.node.data()?;
        let keep = mode & FALLOC_FL_KEEP_SIZE != 0;
        self.node.lose_privileges()?;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 => {
                let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
                if end > data.size() && !keep {
                    check_limit(end)?;
                }
                self.node.preallocate(offset, len, keep)?;
            }
            FALLOC_FL_PUNCH_HOLE if keep => self.node.punch(offset, len)?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        self.node.modified()
    }

    fn mapped(&self, file: &File) {
        self.node.accessed(file);
    }

    fn memory(&self) -> Memory<'_> {
        match self.node.data() {
            Ok(data) => Memory::Pages(&**data),
            Err(_) => Memory::None,
        }
    }

    fn has_direct(&self, _path: &Path) -> bool {
        self.node.data().is_ok()
    }

    fn ioctl(&self, file: &File, request: u32, argument: usize) -> Result<usize> {
        match request {
            FS_IOC_GETFLAGS => UserPtr::new(argument).write(&self.node.flags())?,
            FS_IOC_SETFLAGS => self.set_flags(file, UserPtr::new(argument).read()?)?,
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }

    fn sync(&self, _file: &File, range: Range<u64>) -> Result<()> {
        self.node.write_out(pages(&range))?;
        let done = {
            let mut fs = self.node.fs().lock()?;
            fs.sync_inode(self.node.number(), false).map_err(errno)
        };
        let Ok(data) = self.node.data() else {
            return done;
        };
        match done {
            // The next commit writes it: nothing is lost.
            Err(Errno::ENOMEM) => return done,
            Err(error) => data.record(error),
            Ok(()) => {}
        }
        data.errors().check(&self.told)
    }

    fn write_range(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let data = self.node.data()?;
        data.write_back(pages(&range))?;
        data.errors().check(&self.told)
    }

    fn read_ahead(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let pages = pages(&range);
        _ = self.node.data()?.read_ahead(pages.start, pages.len());
        Ok(())
    }

    fn forget(&self, _file: &File, range: Range<u64>) {
        if let Ok(data) = self.node.data() {
            _ = data.write_back(pages(&range));
            data.forget(pages(&range));
        }
    }
}

impl Open {
    /// The next records of a directory.
    fn entries(&self, position: u64) -> Result<Vec<Entry>> {
        let mut fs = self.node.fs().lock()?;
        let directory = fs.inode(self.node.number()).map_err(errno)?;
        let (mut entries, mut short) = (Vec::new(), false);
        let read = fs.read_directory(&directory, position, |entry| {
            let mut name = Vec::new();
            short |= name.try_reserve_exact(entry.name.len()).is_err();
            short |= entries.try_reserve(1).is_err();
            if short {
                return false;
            }
            name.extend_from_slice(entry.name);
            entries.push(Entry {
                inode: entry.inode,
                kind: entry.kind,
                name,
                next: entry.next,
            });
            entries.len() < AT_ONCE
        });
        fs.told(read).map_err(errno)?;
        match short && entries.is_empty() {
            true => Err(Errno::ENOMEM),
            false => Ok(entries),
        }
    }
}

/// The pages that intersect a range of bytes.
fn pages(range: &Range<u64>) -> Range<usize> {
    (range.start / PAGE_SIZE as u64) as usize..pages_of(range.end)
}
