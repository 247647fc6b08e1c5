//! The data of files: from the disk into the page cache.

use super::super::page_cache::Backing;
use super::decompressor::Decompressor;
use super::{Erofs, errno};
use crate::block::Piece;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::sync::SleepMutexGuard;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use erofs::{Cluster, Extent, Inode, Place};

/// The data of one file.
pub struct FileData {
    fs: Arc<Erofs>,
    inode: Inode,
}

/// What is read at once: where the last byte that was asked for lies, the decompressor once it is
/// needed, and what comes from the disk straight into pages.
struct Reading<'a> {
    extent: Option<(u64, Extent)>,
    decompressor: Option<SleepMutexGuard<'a, Decompressor>>,
    pieces: Vec<Piece>,
}

impl FileData {
    /// Of an inode.
    pub fn new(fs: Arc<Erofs>, inode: Inode) -> Result<Arc<Self>> {
        try_arc(FileData { fs, inode })
    }

    /// The rest of an extent from byte `at` on, which may be the last one that was asked for.
    fn extent(&self, reading: &mut Reading, at: u64) -> Result<Extent> {
        let (start, extent) = match reading.extent {
            Some((start, extent)) if at - start < extent.length => (start, extent),
            _ => {
                // This reads the disk.
                reading.decompressor = None;
                (at, self.fs.fs.map(&self.inode, at).map_err(errno)?)
            }
        };
        reading.extent = Some((start, extent));
        Ok(extent.rest(at - start))
    }

    /// What a cluster is.
    fn decompressed<'a, 'b>(
        &'a self,
        reading: &'b mut Reading<'a>,
        cluster: Cluster,
    ) -> Result<&'b [u8]> {
        let held = match reading.decompressor.take() {
            Some(held) => held,
            None => self.fs.decompressor.lock_killable()?,
        };
        let held = match held.has(cluster) {
            true => held,
            false => {
                // The disk's cache has locks of the same class as the file's.
                drop(held);
                let packed = self.fs.fs.read_cluster(&cluster).map_err(errno)?;
                let mut held = self.fs.decompressor.lock_killable()?;
                // Another reader may have decompressed it meanwhile.
                if !held.has(cluster) {
                    held.decompress(&self.fs.fs, cluster, &packed)?;
                }
                held
            }
        };
        Ok(reading.decompressor.insert(held).bytes())
    }

    /// Fills part of a page, from `offset` on, with the beginning of an extent.
    fn fill<'a>(
        &'a self,
        reading: &mut Reading<'a>,
        (frame, offset): (&FrameRef, usize),
        place: Place,
        len: usize,
    ) -> Result<()> {
        match place {
            Place::Hole => frame.fill(offset..offset + len, 0),
            Place::Device(at) => {
                reading.pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                reading.pieces.push(Piece {
                    sector: self.fs.volume.start() + at / SECTOR as u64,
                    part: Part {
                        frame: frame.clone(),
                        offset,
                        len,
                    },
                });
            }
            Place::Cluster(cluster, at) => {
                let bytes = self.decompressed(reading, cluster)?;
                frame.write(offset, &bytes[at..at + len]);
            }
            Place::Inline(at) => {
                let mut bytes = [0; 512];
                for done in (0..len).step_by(bytes.len()) {
                    let part = &mut bytes[..(len - done).min(512)];
                    let read = self.fs.fs.read_device(at + done as u64, part);
                    read.map_err(errno)?;
                    frame.write(offset + done, part);
                }
            }
        }
        Ok(())
    }
}

impl Backing for FileData {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut reading = Reading {
            extent: None,
            decompressor: None,
            pieces: Vec::new(),
        };
        for (index, frame) in pages {
            let start = *index as u64 * PAGE_SIZE as u64;
            let mut offset = 0;
            while offset < PAGE_SIZE {
                cond_resched_killable()?;
                let extent = self.extent(&mut reading, start + offset as u64)?;
                let len = extent.length.min((PAGE_SIZE - offset) as u64) as usize;
                self.fill(&mut reading, (frame, offset), extent.place, len)?;
                offset += len;
            }
        }
        // Others need not wait for the disk.
        drop(reading.decompressor);
        self.fs.volume.device().transfer(false, &reading.pieces)
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        Err(Errno::EROFS)
    }

    fn prepare(&self, _start: u64, _end: u64, _mapped: bool) -> Result<u64> {
        Err(Errno::EROFS)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
