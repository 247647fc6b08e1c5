//! O_DIRECT: transfers to and from the device that bypass the page cache. The bytes are copied
//! through the kernel's own frames, since a program may unmap its memory while the device uses it.

use super::Piece;
use super::volume::Volume;
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::page_cache::pages_of;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::virtio_blk::{Part, SECTOR};
use crate::task::sched::cond_resched_killable;
use alloc::vec::Vec;
use core::ops::Range;

/// The number of bytes in flight at a time.
const AT_ONCE: usize = 32 * PAGE_SIZE;

/// EINVAL unless a transfer consists of whole blocks in aligned memory.
fn check(volume: &Volume, position: u64, len: usize, alignment: usize) -> Result<()> {
    let block = volume.device().properties().block_size;
    let whole = position.is_multiple_of(block as u64) && len.is_multiple_of(block);
    match whole && alignment.is_multiple_of(SECTOR) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// The page indices that a range of bytes touches.
fn pages(position: u64, len: usize) -> Range<usize> {
    (position / PAGE_SIZE as u64) as usize..pages_of(position + len as u64)
}

/// Allocates frames for `len` bytes at `position`.
fn pieces(volume: &Volume, position: u64, len: usize) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let room = pieces.try_reserve_exact(len.div_ceil(PAGE_SIZE));
    room.map_err(|_| Errno::ENOMEM)?;
    for at in (0..len).step_by(PAGE_SIZE) {
        pieces.push(Piece {
            sector: volume.start() + (position + at as u64) / SECTOR as u64,
            part: Part {
                frame: frame::alloc()?,
                offset: 0,
                len: (len - at).min(PAGE_SIZE),
            },
        });
    }
    Ok(pieces)
}

/// Reads from the device.
pub fn read(volume: &Volume, to: &mut Sink, position: u64) -> Result<usize> {
    check(volume, position, to.left(), to.alignment())?;
    to.truncate(usize::try_from(volume.size().saturating_sub(position)).unwrap_or(usize::MAX));
    let changed = pages(position, to.left());
    volume.mapping().write_back(changed)?;
    let mut total = 0;
    while to.left() > 0 {
        let at = position + total as u64;
        let pieces = pieces(volume, at, to.left().min(AT_ONCE))?;
        if let Err(error) = volume.device().transfer(false, &pieces) {
            return if total == 0 { Err(error) } else { Ok(total) };
        }
        for Piece { part, .. } in &pieces {
            let count = to.put_frame(&part.frame, 0, part.len);
            match count {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(_) => {}
            }
            if count != Ok(part.len) {
                return Ok(total);
            }
        }
        if to.left() > 0 && cond_resched_killable().is_err() {
            break;
        }
    }
    Ok(total)
}

/// Writes to the device, and drops the written range from the page cache.
pub fn write(volume: &Volume, from: &mut Source, position: u64) -> Result<usize> {
    check(volume, position, from.left(), from.alignment())?;
    from.truncate(usize::try_from(volume.size() - position).unwrap_or(usize::MAX));
    let all = pages(position, from.left());
    volume.mapping().invalidate(all.clone())?;
    let mut total = 0;
    let done = loop {
        if from.left() == 0 {
            break Ok(());
        }
        let done = write_some(volume, from, position + total as u64);
        match done {
            Ok(count) => total += count,
            Err(error) => break Err(error),
        }
        if cond_resched_killable().is_err() {
            break Ok(());
        }
    };
    // Pages may have been read into the cache meanwhile.
    _ = volume.mapping().invalidate(all);
    match done {
        Err(error) if total == 0 => Err(error),
        _ => Ok(total),
    }
}

fn write_some(volume: &Volume, from: &mut Source, position: u64) -> Result<usize> {
    let pieces = pieces(volume, position, from.left().min(AT_ONCE))?;
    let mut total = 0;
    for Piece { part, .. } in &pieces {
        if from.take_frame(&part.frame, 0, part.len)? != part.len {
            return Err(Errno::EFAULT);
        }
        total += part.len;
    }
    volume.device().transfer(true, &pieces)?;
    Ok(total)
}
