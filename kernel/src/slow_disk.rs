//! A disk for tests on the host, whose reads take an hour: so do faults on a mapping of it.

use crate::block::{self, BlockDevice, Piece};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::virtio_blk::{Properties, SECTOR};
use crate::task::clock;
use crate::task::wait_queue::WaitQueue;
use core::ops::Range;

/// How long a read takes, in seconds.
pub const READ: u64 = 3600;

struct Slow(Properties);

impl BlockDevice for Slow {
    fn properties(&self) -> &Properties {
        &self.0
    }

    fn serial(&self) -> &[u8] {
        &[]
    }

    fn transfer(&self, _write: bool, pieces: &[Piece]) -> Result<()> {
        let end = clock::monotonic_ns() + READ * clock::SECOND;
        let end = clock::monotonic_deadline(end);
        // A timeout is no error.
        _ = WaitQueue::new().wait_interruptible(|| false, Some(end));
        for Piece { part, .. } in pieces {
            part.frame.fill(0..part.len, b'd');
        }
        Ok(())
    }

    fn discard(&self, _sectors: Range<u64>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn write_zeroes(&self, _sectors: Range<u64>, _unmap: bool) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// Adds the disk, 254:0, with so many pages.
///
/// # Errors
/// Those of adding a disk.
pub fn plug(pages: u64) -> Result<()> {
    let properties = Properties {
        sectors: pages * (4096 / SECTOR as u64),
        read_only: false,
        has_cache: false,
        block_size: SECTOR,
        physical_block_size: SECTOR,
        parts: 64,
        most_discarded: 0,
        most_zeroed: 0,
    };
    block::add_disk(0, try_arc(Slow(properties))?)
}
