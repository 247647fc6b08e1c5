//! The data of files: between the page cache and the disk.

use super::super::page_cache::Backing;
use super::{Ext4, Locked, errno};
use crate::block::Piece;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::{Part, SECTOR};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ext4::Error;

/// The data of one file.
pub struct FileData {
    fs: Arc<Ext4>,
    number: u32,
    /// Its length, as the page cache has it; blocks behind that are not written.
    size: AtomicU64,
    /// Units of 512 bytes that it takes.
    sectors: Arc<AtomicU64>,
}

impl FileData {
    /// Of the inode `number`.
    pub fn new(fs: Arc<Ext4>, number: u32, sectors: Arc<AtomicU64>) -> Result<Arc<Self>> {
        try_arc(FileData {
            fs,
            number,
            size: AtomicU64::new(0),
            sectors,
        })
    }

    /// The piece of block `block`, which is on the disk at block `physical`, in its page.
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
    fn blocks(&self, index: usize) -> Result<core::ops::Range<u32>> {
        let each = (PAGE_SIZE / self.fs.block_size) as u64;
        let first = u32::try_from(index as u64 * each).map_err(|_| Errno::EFBIG)?;
        Ok(first..first.checked_add(each as u32).ok_or(Errno::EFBIG)?)
    }

    /// Notes how much place it takes by now.
    fn count_sectors(&self, fs: &mut Locked) -> Result<()> {
        let inode = fs.inode(self.number).map_err(errno)?;
        self.sectors.store(inode.sectors(fs.geometry()), Relaxed);
        Ok(())
    }

    fn transfer(&self, write: bool, pieces: &[Piece]) -> Result<()> {
        self.fs.volume.device().transfer(write, pieces)
    }

    /// Finds place for the blocks of pages, writes them there, and then says that they have
    /// content.
    fn write_blocks(&self, fs: &mut Locked, pages: &[(usize, FrameRef)], size: u64) -> Result<()> {
        let end = size.div_ceil(self.fs.block_size as u64);
        let (mut pieces, mut written) = (Vec::new(), Vec::new());
        for page in pages {
            let blocks = self.blocks(page.0)?;
            for block in blocks.filter(|&block| u64::from(block) < end) {
                let extent = fs.allocate(self.number, block, 1).map_err(errno)?;
                pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                pieces.push(self.piece(page, block, extent.physical));
                if !extent.written {
                    written.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                    written.push(block);
                }
            }
        }
        self.count_sectors(fs)?;
        self.transfer(true, &pieces)?;
        for run in written.chunk_by(|one, next| one + 1 == *next) {
            let done = fs.mark_written(self.number, run[0], run.len() as u32);
            done.map_err(errno)?;
        }
        Ok(())
    }
}

impl Backing for FileData {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut fs = self.fs.lock()?;
        let inode = fs.inode(self.number).map_err(errno)?;
        let mut pieces = Vec::new();
        for page in pages {
            for block in self.blocks(page.0)? {
                let extent = fs.map(&inode, block).map_err(errno)?;
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
        self.transfer(false, &pieces)
    }

    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut fs = self.fs.lock()?;
        let size = self.size.load(Acquire);
        self.write_blocks(&mut fs, pages, size)?;
        let last = pages.last().map_or(0, |&(index, _)| index as u64 + 1);
        let end = size.min(last * PAGE_SIZE as u64);
        if end > fs.inode(self.number).map_err(errno)?.size() {
            fs.extend(self.number, end).map_err(errno)?;
        }
        Ok(())
    }

    fn prepare(&self, start: u64, end: u64) -> Result<u64> {
        let size = self.fs.block_size as u64;
        let number = |block: u64| u32::try_from(block).map_err(|_| Errno::EFBIG);
        let (mut block, last) = (number(start / size)?, number(end.div_ceil(size))?);
        let mut fs = self.fs.lock()?;
        while block < last {
            match fs.allocate(self.number, block, last - block) {
                Ok(extent) => block += extent.length.max(1),
                Err(Error::NoSpace) if u64::from(block) * size > start => break,
                Err(error) => return Err(errno(error)),
            }
        }
        self.count_sectors(&mut fs)?;
        Ok(end.min(u64::from(block) * size))
    }

    fn resized(&self, size: u64) {
        self.size.store(size, Release);
    }

    fn flush(&self) -> Result<()> {
        let mut fs = self.fs.lock()?;
        fs.sync_inode(self.number, false).map_err(errno)
    }
}
