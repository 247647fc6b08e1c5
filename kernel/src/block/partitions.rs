//! The partitions of a disk, according to its partition table.

use super::nodes;
use super::volume::{self, Volume};
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::page_cache::Ahead;
use crate::mm::virtio_blk::SECTOR;
use crate::sync::SleepMutex;
use alloc::sync::Arc;

/// Held while a table is read.
static SCANNING: SleepMutex<()> = SleepMutex::new(());

/// Reads the partition table of a disk again, and replaces its partitions. May sleep.
///
/// # Errors
/// EBUSY: a partition is in use. EIO, ENOMEM.
pub fn scan(disk: &Arc<Volume>) -> Result<()> {
    let _alone = SCANNING.lock_killable()?;
    let old = volume::partitions_of(disk);
    if old.iter().any(|volume| volume.is_used()) {
        return Err(Errno::EBUSY);
    }
    for volume in &old {
        nodes::remove(volume);
        volume::remove(volume);
    }
    let block = disk.device().properties().block_size;
    let ahead = Ahead::default();
    let found = partitions::read(disk.sectors(), block, |sector, bytes| {
        let position = sector * SECTOR as u64;
        match disk
            .mapping()
            .read(&mut Sink::kernel(bytes), position, &ahead)
        {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(Errno::EIO),
            Err(error) => Err(error),
        }
    })?;
    nodes::add(disk)?;
    for partition in &found {
        let volume = volume::add_partition(disk, partition)?;
        nodes::add(&volume)?;
    }
    Ok(())
}
