//! The disk of a file system, for its metadata. The bytes are copied through the kernel's own
//! frames.

use crate::block::Piece;
use crate::block::volume::Volume;
use crate::errno::Errno;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ext4::{Device, Error, Result};

/// The number of bytes in flight at a time.
const AT_ONCE: usize = 32 * PAGE_SIZE;

/// A disk or partition.
pub struct Disk(pub Arc<Volume>);

/// Converts an error of the disk for crate `ext4`.
pub fn error(errno: Errno) -> Error {
    match errno {
        Errno::ENOMEM => Error::NoMemory,
        _ => Error::Io,
    }
}

impl Disk {
    /// Frames for `len` bytes at offset `at`.
    fn pieces(&self, at: u64, len: usize) -> core::result::Result<Vec<Piece>, Errno> {
        let mut pieces = Vec::new();
        let room = pieces.try_reserve_exact(len.div_ceil(PAGE_SIZE));
        room.map_err(|_| Errno::ENOMEM)?;
        for done in (0..len).step_by(PAGE_SIZE) {
            pieces.push(Piece {
                sector: self.0.start() + (at + done as u64) / SECTOR as u64,
                part: Part {
                    // This write allows pages to be reclaimed.
                    frame: frame::alloc_kernel()?,
                    offset: 0,
                    len: (len - done).min(PAGE_SIZE),
                },
            });
        }
        Ok(pieces)
    }

    /// Checks that the bytes are within the disk.
    fn check(&self, at: u64, len: usize) -> Result<()> {
        match at
            .checked_add(len as u64)
            .is_some_and(|end| end <= self.0.size())
        {
            true => Ok(()),
            false => Err(Error::Io),
        }
    }
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(at, into.len())?;
        let mut at = at;
        for chunk in into.chunks_mut(AT_ONCE) {
            let pieces = self.pieces(at, chunk.len()).map_err(error)?;
            self.0.device().transfer(false, &pieces).map_err(error)?;
            for (part, bytes) in pieces.iter().zip(chunk.chunks_mut(PAGE_SIZE)) {
                part.part.frame.read(0, bytes);
            }
            at += chunk.len() as u64;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check(at, from.len())?;
        let mut at = at;
        for chunk in from.chunks(AT_ONCE) {
            let pieces = self.pieces(at, chunk.len()).map_err(error)?;
            for (part, bytes) in pieces.iter().zip(chunk.chunks(PAGE_SIZE)) {
                part.part.frame.write(0, bytes);
            }
            self.0.device().transfer(true, &pieces).map_err(error)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    fn write_all(&mut self, parts: &[(u64, &[u8])]) -> Result<()> {
        let mut pieces = Vec::new();
        for (at, bytes) in parts {
            self.check(*at, bytes.len())?;
            let mut more = self.pieces(*at, bytes.len()).map_err(error)?;
            for (piece, bytes) in more.iter().zip(bytes.chunks(PAGE_SIZE)) {
                piece.part.frame.write(0, bytes);
            }
            pieces.try_reserve(more.len())?;
            pieces.append(&mut more);
        }
        match pieces.is_empty() {
            true => Ok(()),
            false => self.0.device().transfer(true, &pieces).map_err(error),
        }
    }

    fn pause(&mut self) {
        cond_resched();
    }

    fn flush(&mut self) -> Result<()> {
        // Data that was not flushed may or may not be on the medium, so this is not reported as
        // lack of memory.
        self.0.device().flush().map_err(|_| Error::Io)
    }
}
