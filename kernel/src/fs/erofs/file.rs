//! Open files and directories.

use super::super::file::{File, FileOps, Memory, Record, Whence, seek_in};
use super::super::inode::Kind;
use super::super::io::Sink;
use super::super::page_cache::{Ahead, pages_of};
use super::super::path::Path;
use super::errno;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::{try_arc, try_vec};
use crate::mm::virtio_blk::SECTOR;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::general::O_DIRECT;

/// Records of a directory that are read at a time.
const AT_ONCE: usize = 64;

/// An open file or directory.
pub struct Open {
    node: Arc<Node>,
    ahead: Ahead,
}

/// A record of a directory.
struct Entry {
    inode: u64,
    kind: u8,
    name: Vec<u8>,
    next: u64,
}

impl Open {
    /// Opens it.
    pub fn open(node: Arc<Node>) -> Result<Arc<dyn FileOps>> {
        Ok(try_arc(Open {
            node,
            ahead: Ahead::default(),
        })?)
    }

    /// Reads with O_DIRECT: whole blocks of the disk into aligned memory. They pass through the
    /// cache, and do not stay there.
    fn read_direct(&self, to: &mut Sink, position: u64) -> Result<usize> {
        let block = self.node.fs.volume.device().properties().block_size;
        let whole = position.is_multiple_of(block as u64) && to.left().is_multiple_of(block);
        if !whole || !to.alignment().is_multiple_of(SECTOR) {
            return Err(Errno::EINVAL);
        }
        let data = self.node.data()?;
        let range = pages(&(position..position.saturating_add(to.left() as u64)));
        let count = data.read(to, position, &Ahead::none())?;
        data.forget(range);
        Ok(count)
    }

    /// The next records of a directory.
    fn entries(&self, position: u64) -> Result<Vec<Entry>> {
        let (mut entries, mut short) = (Vec::new(), false);
        let fs = &self.node.fs.fs;
        let read = fs.read_directory(&self.node.inode, position, |entry| {
            let name = try_vec(entry.name).ok();
            let Some(name) = name.filter(|_| entries.try_reserve(1).is_ok()) else {
                short = true;
                return false;
            };
            entries.push(Entry {
                inode: entry.inode,
                kind: entry.kind,
                name,
                next: entry.next,
            });
            entries.len() < AT_ONCE
        });
        match read {
            // What comes before a damaged entry is told first.
            Err(error) if entries.is_empty() => Err(errno(error)),
            _ if short && entries.is_empty() => Err(Errno::ENOMEM),
            _ => Ok(entries),
        }
    }
}

impl FileOps for Open {
    fn held(&self) -> usize {
        0
    }

    fn read(&self, file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        match file.flags().has(O_DIRECT) {
            true => self.read_direct(to, position),
            false => self.node.data()?.read(to, position, &self.ahead),
        }
    }

    fn read_dir(
        &self,
        _file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        self.node.names()?;
        let mut position = position;
        loop {
            let entries = self.entries(position)?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            position = last.next;
            for entry in &entries {
                let told = emit(Record {
                    inode: entry.inode,
                    kind: Kind::of_mode(u32::from(entry.kind) << 12).unwrap_or(Kind::Anonymous),
                    name: &entry.name,
                    next: entry.next,
                });
                if !told {
                    return Ok(());
                }
            }
        }
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        // As on Linux, holes are not told, and a directory ends where its content does.
        seek_in(self.node.inode.size(), position, offset, whence)
    }

    fn memory(&self) -> Memory<'_> {
        match self.node.data() {
            Ok(data) => Memory::Pages(&**data),
            Err(_) => Memory::None,
        }
    }

    fn has_direct(&self, _path: &Path) -> bool {
        self.node.data().is_ok() && !self.node.inode.is_compressed()
    }

    fn sync(&self, _file: &File, _range: Range<u64>) -> Result<()> {
        // Linux's files have no fsync.
        Err(Errno::EINVAL)
    }

    fn read_ahead(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let pages = pages(&range);
        _ = self.node.data()?.read_ahead(pages.start, pages.len());
        Ok(())
    }

    fn forget(&self, _file: &File, range: Range<u64>) {
        if let Ok(data) = self.node.data() {
            data.forget(pages(&range));
        }
    }
}

/// The pages that a range of bytes touches.
fn pages(range: &Range<u64>) -> Range<usize> {
    (range.start / PAGE_SIZE as u64) as usize..pages_of(range.end)
}
