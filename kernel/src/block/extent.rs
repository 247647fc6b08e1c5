//! Discarding and zeroing sectors: BLKDISCARD, BLKZEROOUT and fallocate(2).

use super::Piece;
use super::volume::Volume;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::page_cache::pages_of;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::user::UserPtr;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::task::sched::cond_resched_killable;
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::general::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};

/// The number of zero pages written at a time if the device has no command for it.
const AT_ONCE: usize = 32;

/// How sectors are zeroed.
#[derive(Clone, Copy, PartialEq)]
enum Zeroes {
    /// They keep their space on the medium; if the device has no command for it, zeroes are
    /// written.
    Kept,
    /// The device may release their space; it is an error if it cannot zero them.
    Unmapped,
}

/// BLKDISCARD, with a start and a length in bytes.
pub fn discard(volume: &Volume, file: &File, range: UserPtr<[u64; 2]>) -> Result<()> {
    check_open(file)?;
    if volume.device().properties().most_discarded == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let range = checked(volume, range.read()?)?;
    check_writable(volume)?;
    let sectors = sectors(volume, &range);
    without_cache(volume, &range, || volume.device().discard(sectors))
}

/// BLKZEROOUT, with a start and a length in bytes.
pub fn zero_out(volume: &Volume, file: &File, range: UserPtr<[u64; 2]>) -> Result<()> {
    check_open(file)?;
    zero(volume, checked(volume, range.read()?)?, Zeroes::Kept)
}

/// fallocate(2).
pub fn allocate(volume: &Volume, mode: u32, offset: u64, len: u64) -> Result<()> {
    let keep = mode & FALLOC_FL_KEEP_SIZE != 0;
    let known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
    if mode & !known != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let left = volume.size().checked_sub(offset).filter(|&left| left > 0);
    let left = left.ok_or(Errno::EINVAL)?;
    let len = if keep { len.min(left) } else { len };
    let range = checked(volume, [offset, len])?;
    match mode & !FALLOC_FL_KEEP_SIZE {
        FALLOC_FL_ZERO_RANGE => zero(volume, range, Zeroes::Kept),
        FALLOC_FL_PUNCH_HOLE if keep => zero(volume, range, Zeroes::Unmapped),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// EBADF for a file that was not opened for writing.
fn check_open(file: &File) -> Result<()> {
    match file.flags().writable() {
        true => Ok(()),
        false => Err(Errno::EBADF),
    }
}

/// EPERM if the volume is read-only.
fn check_writable(volume: &Volume) -> Result<()> {
    match volume.is_read_only() {
        true => Err(Errno::EPERM),
        false => Ok(()),
    }
}

/// A range of bytes; EINVAL unless it consists of whole blocks of the volume.
fn checked(volume: &Volume, [start, len]: [u64; 2]) -> Result<Range<u64>> {
    let block = volume.device().properties().block_size as u64;
    let end = start.checked_add(len).filter(|&end| end <= volume.size());
    let whole = start.is_multiple_of(block) && len.is_multiple_of(block) && len > 0;
    Ok(start..end.filter(|_| whole).ok_or(Errno::EINVAL)?)
}

/// The sectors on the device.
fn sectors(volume: &Volume, range: &Range<u64>) -> Range<u64> {
    let sector = |byte: u64| volume.start() + byte / SECTOR as u64;
    sector(range.start)..sector(range.end)
}

/// Performs an operation on a range of the device, and drops the range from the page cache.
fn without_cache(
    volume: &Volume,
    range: &Range<u64>,
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let pages = (range.start / PAGE_SIZE as u64) as usize..pages_of(range.end);
    volume.mapping().bypass(pages, act)
}

fn zero(volume: &Volume, range: Range<u64>, zeroes: Zeroes) -> Result<()> {
    check_writable(volume)?;
    let sectors = sectors(volume, &range);
    without_cache(volume, &range, || {
        let unmap = zeroes == Zeroes::Unmapped;
        match volume.device().write_zeroes(sectors.clone(), unmap) {
            Err(Errno::EOPNOTSUPP) if !unmap => write(volume, sectors),
            done => done,
        }
    })
}

/// Writes zeroes to sectors of the device, all from the same page.
fn write(volume: &Volume, sectors: Range<u64>) -> Result<()> {
    let frame = frame::alloc_zeroed()?;
    let mut pieces = Vec::new();
    let room = pieces.try_reserve_exact(AT_ONCE);
    room.map_err(|_| Errno::ENOMEM)?;
    let mut sector = sectors.start;
    while sector < sectors.end {
        let left = (sectors.end - sector).min((PAGE_SIZE / SECTOR) as u64);
        let part = Part {
            frame: frame.clone(),
            offset: 0,
            len: left as usize * SECTOR,
        };
        pieces.push(Piece { sector, part });
        sector += left;
        if pieces.len() == AT_ONCE || sector == sectors.end {
            volume.device().transfer(true, &pieces)?;
            pieces.clear();
            cond_resched_killable()?;
        }
    }
    Ok(())
}
