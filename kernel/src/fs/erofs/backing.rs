//! The data of files: from the disk into the page cache.

use super::super::page_cache::Backing;
use super::{Erofs, errno};
use crate::block::Piece;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use erofs::{Cluster, Extent, Inode, Place};

/// The data of one file.
pub struct FileData {
    fs: Arc<Erofs>,
    inode: Inode,
}

/// What is read at once: where the last byte that was asked for lies, the last cluster that was
/// decompressed, and what comes from the disk straight into pages.
struct Reading {
    extent: Option<(u64, Extent)>,
    cluster: Option<(Cluster, Vec<u8>)>,
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
            _ => (at, self.fs.fs.map(&self.inode, at).map_err(errno)?),
        };
        reading.extent = Some((start, extent));
        Ok(extent.rest(at - start))
    }

    /// A cluster, which may be the last one.
    fn decompressed<'a>(&self, reading: &'a mut Reading, cluster: Cluster) -> Result<&'a [u8]> {
        let last = reading.cluster.take().filter(|(last, _)| *last == cluster);
        let bytes = match last {
            Some((_, bytes)) => bytes,
            None => self.fs.fs.decompress(&cluster).map_err(errno)?,
        };
        Ok(&reading.cluster.insert((cluster, bytes)).1)
    }

    /// Fills part of a page, from `offset` on, with the beginning of an extent.
    fn fill(
        &self,
        reading: &mut Reading,
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
                cond_resched();
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
            cluster: None,
            pieces: Vec::new(),
        };
        for (index, frame) in pages {
            let start = *index as u64 * PAGE_SIZE as u64;
            let mut offset = 0;
            while offset < PAGE_SIZE {
                let extent = self.extent(&mut reading, start + offset as u64)?;
                let len = extent.length.min((PAGE_SIZE - offset) as u64) as usize;
                self.fill(&mut reading, (frame, offset), extent.place, len)?;
                offset += len;
            }
        }
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
