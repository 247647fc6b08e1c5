//! Open directories.

use super::super::file::{File, FileOps, Record, Whence};
use super::UPPER;
use super::layers::open;
use super::listing::Listing;
use super::marks::Mark;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::SleepMutex;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::general::{O_DIRECTORY, O_RDONLY};

/// An open directory.
pub struct OpenDirectory {
    node: Arc<Node>,
    reader: SleepMutex<Option<Reader>>,
    /// The memory of the listing, if it has one.
    held: AtomicUsize,
}

/// How it is read.
enum Reader {
    /// From the one layer that has it. `mixed`: the upper layer has files that were copied up, with
    /// numbers of lower ones.
    Real { file: Arc<File>, mixed: bool },
    /// As it was found when the reading began.
    Merged { listing: Listing, mixed: bool },
}

impl OpenDirectory {
    /// Opens it.
    pub fn open(node: Arc<Node>) -> Result<Arc<dyn FileOps>> {
        let reader = SleepMutex::new(None);
        let held = AtomicUsize::new(0);
        Ok(try_arc(OpenDirectory { node, reader, held })?)
    }

    fn begin(&self) -> Result<Reader> {
        self.held.store(0, Relaxed);
        let (node, top) = (&self.node, self.node.top()?);
        let fs = &node.fs;
        let mixed = node.upper().is_some() && fs.mark(&top, Mark::Impure)?.is_some();
        if node.is_merged() || fs.mark(&top, Mark::Origin)?.is_some() {
            let listing = Listing::read(node)?;
            self.held.store(listing.held(), Relaxed);
            return Ok(Reader::Merged { listing, mixed });
        }
        let file = open(&top, O_RDONLY | O_DIRECTORY)?;
        Ok(Reader::Real { file, mixed })
    }

    /// The number of an entry, where the layers' own do not serve.
    fn number(&self, file: &File, name: &[u8], mixed: bool) -> Result<Option<u64>> {
        let here = file.dentry();
        if !self.node.fs.is_same_fs() {
            return Ok(None);
        }
        let found = match name {
            b"." => here.clone(),
            b".." => here.parent().unwrap_or_else(|| here.clone()),
            _ if mixed => self.node.look_up(here, name)?,
            _ => return Ok(None),
        };
        Ok(Some(found.inode().attr().inode))
    }

    fn emit_merged(
        &self,
        file: &File,
        (listing, mixed): (&Listing, bool),
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let entries = listing.entries.iter().enumerate();
        for (at, entry) in entries.skip(position as usize) {
            let inode = match self.number(file, &entry.name, mixed && entry.layer == UPPER) {
                // It was removed since.
                Err(Errno::ENOENT) => {
                    cond_resched_killable()?;
                    continue;
                }
                number => number?.unwrap_or(entry.inode),
            };
            let record = Record {
                inode,
                kind: entry.kind,
                name: &entry.name,
                next: at as u64 + 1,
            };
            if !emit(record) {
                break;
            }
        }
        Ok(())
    }
}

impl FileOps for OpenDirectory {
    fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        if file.dentry().is_removed() {
            return Err(Errno::ENOENT);
        }
        let mut reader = self.reader.lock_killable()?;
        if position == 0 {
            *reader = None;
        }
        if reader.is_none() {
            *reader = Some(self.begin()?);
        }
        match &*reader {
            Some(Reader::Merged { listing, mixed }) => {
                self.emit_merged(file, (listing, *mixed), position, emit)
            }
            Some(Reader::Real { file: real, mixed }) => {
                real.ops().read_dir(real, position, &mut |record| {
                    let number = self.number(file, record.name, *mixed).ok().flatten();
                    let inode = number.unwrap_or(record.inode);
                    emit(Record { inode, ..record })
                })
            }
            None => Ok(()),
        }
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        let mut reader = self.reader.lock_killable()?;
        if reader.is_none() {
            *reader = Some(self.begin()?);
        }
        if let Some(Reader::Real { file: real, .. }) = &*reader {
            return real.ops().seek(real, position, offset, whence);
        }
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => position,
            _ => return Err(Errno::EINVAL),
        };
        base.checked_add_signed(offset)
            .filter(|&place| place <= i64::MAX as u64)
            .ok_or(Errno::EINVAL)
    }

    fn sync(&self, _file: &File, range: Range<u64>) -> Result<()> {
        let fs = &self.node.fs;
        let Some(upper) = self.node.upper().filter(|_| fs.syncs()) else {
            return Ok(());
        };
        let real = open(&fs.path(UPPER, upper), O_RDONLY | O_DIRECTORY)?;
        real.ops().sync(&real, range)
    }
}
