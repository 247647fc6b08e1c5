//! The data of files, between the page cache and the disk.

use super::super::page_cache::{Backing, Grabbed};
use super::node::Node;
use super::{Ext4, Locked, errno};
use crate::block::Piece;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::task::sched::cond_resched;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ext4::Error;

/// The data of one file.
pub struct FileData {
    fs: Arc<Ext4>,
    number: u32,
    /// The length known to the page cache; blocks beyond it are not written.
    size: AtomicU64,
    /// The allocated size, in units of 512 bytes.
    sectors: Arc<AtomicU64>,
}

impl FileData {
    /// The data of the inode `number`.
    pub fn new(fs: Arc<Ext4>, number: u32, sectors: Arc<AtomicU64>) -> Result<Arc<Self>> {
        try_arc(FileData {
            fs,
            number,
            size: AtomicU64::new(0),
            sectors,
        })
    }

    /// Its node, unless that was freed.
    fn node(&self) -> Option<Arc<Node>> {
        let at = self.number as usize;
        let node = self.fs.nodes.lock().get(at).and_then(Weak::upgrade);
        // The number may belong to a newer inode.
        node.filter(|node| node.counts_in(&self.sectors))
    }

    /// The part of a page that holds block `block`, which is at block `physical` on the disk.
    fn piece(&self, page: &(usize, FrameRef), block: u32, physical: u64) -> Piece {
        let size = self.fs.block_size;
        let offset = (block as usize * size) - page.0 * PAGE_SIZE;
        Piece {
            sector: self.fs.volume.start() + physical * (size / SECTOR) as u64,
            part: Part {
                frame: page.1.clone(),
                offset,
                len: size,
            },
        }
    }

    /// The blocks of a page.
    fn blocks(&self, index: usize) -> Result<Range<u32>> {
        let each = (PAGE_SIZE / self.fs.block_size) as u64;
        let first = u32::try_from(index as u64 * each).map_err(|_| Errno::EFBIG)?;
        Ok(first..first.checked_add(each as u32).ok_or(Errno::EFBIG)?)
    }

    /// Updates the allocated size.
    fn count_sectors(&self, fs: &mut Locked) -> Result<()> {
        let inode = fs.inode(self.number).map_err(errno)?;
        self.sectors.store(inode.sectors(fs.geometry()), Relaxed);
        Ok(())
    }

    fn transfer(&self, write: bool, pieces: &[Piece]) -> Result<()> {
        self.fs.volume.device().transfer(write, pieces)
    }

    /// Allocates blocks for pages, up to the end of the file; returns where they are, and which
    /// have no content yet. On an error, `found` contains the blocks before it.
    fn place(&self, pages: &[(usize, FrameRef)], size: u64, found: &mut Placed) -> Result<()> {
        let mut fs = self.fs.lock()?;
        let end = size.div_ceil(self.fs.block_size as u64);
        let each = (PAGE_SIZE / self.fs.block_size) as u32;
        let done = pages
            .chunk_by(|one, next| one.0 + 1 == next.0)
            .try_for_each(|run| {
                let first = self.blocks(run[0].0)?.start;
                let last = self.blocks(run[run.len() - 1].0)?.end;
                let (mut block, last) = (first, u64::from(last).min(end) as u32);
                while block < last {
                    let extent = fs.allocate(self.number, block, last - block);
                    let extent = extent.map_err(errno)?;
                    let until = extent.end().clamp(block + 1, last);
                    let room = found.pieces.try_reserve((until - block) as usize);
                    room.map_err(|_| Errno::ENOMEM)?;
                    for at in block..until {
                        let page = &run[((at - first) / each) as usize];
                        let physical = extent.physical + u64::from(at - block);
                        found.pieces.push(self.piece(page, at, physical));
                    }
                    if !extent.written {
                        found.fresh.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                        found.fresh.push(block..until);
                    }
                    block = until;
                    found.until = until;
                    cond_resched();
                }
                Ok(())
            });
        self.count_sectors(&mut fs)?;
        done
    }

    /// Marks blocks as written, and extends the file to at least `end`.
    fn settle(&self, fresh: &[Range<u32>], end: u64) -> Result<()> {
        let mut fs = self.fs.lock()?;
        for run in fresh {
            let done = fs.mark_written(self.number, run.start, run.len() as u32);
            done.map_err(errno)?;
        }
        if end > fs.inode(self.number).map_err(errno)?.size() {
            let done = fs.extend_written(self.number, end);
            done.map_err(errno)?;
        }
        Ok(())
    }
}

/// Blocks and their location.
#[derive(Default)]
struct Placed {
    pieces: Vec<Piece>,
    /// The blocks without content.
    fresh: Vec<Range<u32>>,
    /// All blocks before this one are allocated.
    until: u32,
}

/// The disk is waited for without the lock of the file system: code that frees blocks of the file
/// prevents reads and writes of their pages meanwhile ([`Mapping::cut`]).
///
/// [`Mapping::cut`]: super::super::page_cache::Mapping::cut
impl Backing for FileData {
    fn grab(&self) -> Option<Grabbed> {
        let node = self.node()?;
        Some(Some(node))
    }

    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut pieces = Vec::new();
        let mut fs = self.fs.lock()?;
        let inode = fs.inode(self.number);
        let inode = fs.told(inode).map_err(errno)?;
        for page in pages {
            for block in self.blocks(page.0)? {
                let extent = fs.map(&inode, block);
                let extent = fs.told(extent).map_err(errno)?;
                match extent.filter(|extent| extent.written) {
                    Some(extent) => {
                        pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                        pieces.push(self.piece(page, block, extent.physical));
                    }
                    None => {
                        let start = block as usize * self.fs.block_size - page.0 * PAGE_SIZE;
                        page.1.fill(start..start + self.fs.block_size, 0);
                    }
                }
            }
        }
        drop(fs);
        self.transfer(false, &pieces)
    }

    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let (size, mut placed) = (self.size.load(Acquire), Placed::default());
        let rest = self.place(pages, size, &mut placed);
        // The allocated blocks are written, even if there are none for the rest.
        self.transfer(true, &placed.pieces)?;
        let end = match rest {
            Ok(()) => pages
                .last()
                .map_or(0, |&(index, _)| (index + 1) * PAGE_SIZE),
            Err(_) => placed.until as usize * self.fs.block_size,
        };
        let settled = self.settle(&placed.fresh, size.min(end as u64));
        rest.and(settled)
    }

    fn prepare(&self, start: u64, end: u64, mapped: bool) -> Result<u64> {
        if mapped {
            self.node().ok_or(Errno::EIO)?.check_mutable()?;
        }
        if start >= end {
            return Ok(end);
        }
        let (size, page) = (self.fs.block_size as u64, PAGE_SIZE as u64);
        let number = |block: u64| u32::try_from(block).map_err(|_| Errno::EFBIG);
        // Whole pages are written to the disk, up to the end of the file.
        let whole = end.max(self.size.load(Acquire).min(end.next_multiple_of(page)));
        let mut block = number((start - start % page) / size)?;
        let last = number(whole.div_ceil(size))?;
        let mut fs = self.fs.lock()?;
        while block < last {
            match fs.allocate(self.number, block, last - block) {
                Ok(extent) => block += extent.length.max(1),
                Err(Error::NoSpace) if u64::from(block) * size > start => break,
                Err(error) => return Err(errno(error)),
            }
            cond_resched();
        }
        self.count_sectors(&mut fs)?;
        Ok(end.min(u64::from(block) * size))
    }

    fn unprepare(&self, start: u64, end: u64) {
        let size = self.fs.block_size as u64;
        let number = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        let (first, last) = (number(start.div_ceil(size)), number(end.div_ceil(size)));
        if first >= last {
            return;
        }
        // Without memory, it is freed when the file is truncated.
        if let Ok(mut fs) = self.fs.lock() {
            _ = fs.punch_hole(self.number, first, last - first);
            _ = self.count_sectors(&mut fs);
        }
    }

    fn changed_mapped(&self) -> Result<()> {
        let node = self.node().ok_or(Errno::EIO)?;
        node.modified()
    }

    fn resized(&self, size: u64) {
        self.size.store(size, Release);
    }

    fn failed(&self, error: Errno) {
        self.fs.failed.record(error);
    }

    fn flush(&self) -> Result<()> {
        let mut fs = self.fs.lock()?;
        fs.sync_inode(self.number, false).map_err(errno)
    }
}
