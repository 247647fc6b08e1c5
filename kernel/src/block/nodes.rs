//! The nodes of disks and partitions in devtmpfs, which only root and the group `disk` may open.

use super::volume::Volume;
use crate::errno::{Errno, Result};
use crate::fs::mount;
use linux_raw_sys::general::S_IFBLK;

/// The group `disk` of Debian.
const DISK: u32 = 6;

/// Creates the node, if it does not exist.
pub fn add(volume: &Volume) -> Result<()> {
    let name = volume.name().as_bytes();
    match mount::add_device(name, S_IFBLK | 0o660, volume.number(), (0, DISK)) {
        Err(Errno::EEXIST) => Ok(()),
        done => done,
    }
}

/// Removes the node, if it still exists.
pub fn remove(volume: &Volume) {
    _ = mount::remove_device(volume.name().as_bytes());
}
