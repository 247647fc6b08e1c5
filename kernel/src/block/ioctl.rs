//! ioctl(2) of block devices.

use super::volume::Volume;
use super::{extent, partitions};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::mm::virtio_blk::SECTOR;
use alloc::sync::Arc;
use linux_raw_sys::general::CAP_SYS_ADMIN;
use linux_raw_sys::ioctl::{
    BLKALIGNOFF, BLKBSZGET, BLKDISCARD, BLKFLSBUF, BLKGETSIZE, BLKGETSIZE64, BLKIOMIN, BLKIOOPT,
    BLKPBSZGET, BLKRAGET, BLKROGET, BLKROSET, BLKROTATIONAL, BLKRRPART, BLKSECTGET, BLKSSZGET,
    BLKZEROOUT,
};

/// The maximum number of sectors in a request.
const MOST_SECTORS: u16 = (32 * PAGE_SIZE / SECTOR) as u16;

/// EACCES if the program may not administer the system.
fn check_admin() -> Result<()> {
    match crate::task::can(CAP_SYS_ADMIN) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Handles an ioctl(2) request.
pub fn handle(volume: &Arc<Volume>, file: &File, request: u32, argument: usize) -> Result<usize> {
    let properties = volume.device().properties();
    let int = |value: usize| UserPtr::<i32>::new(argument).write(&(value as i32));
    match request {
        BLKGETSIZE64 => UserPtr::<u64>::new(argument).write(&volume.size())?,
        BLKGETSIZE => UserPtr::<usize>::new(argument).write(&(volume.sectors() as usize))?,
        BLKSSZGET => int(properties.block_size)?,
        BLKPBSZGET | BLKIOMIN => int(properties.physical_block_size)?,
        BLKIOOPT | BLKALIGNOFF => int(0)?,
        BLKBSZGET => int(PAGE_SIZE)?,
        BLKDISCARD => extent::discard(volume, file, UserPtr::new(argument))?,
        BLKZEROOUT => extent::zero_out(volume, file, UserPtr::new(argument))?,
        BLKROSET => {
            check_admin()?;
            volume.set_read_only(UserPtr::<i32>::new(argument).read()? != 0);
        }
        BLKROGET => int(usize::from(volume.is_read_only()))?,
        BLKRAGET => UserPtr::<usize>::new(argument).write(&256)?,
        BLKROTATIONAL => UserPtr::<u16>::new(argument).write(&1)?,
        BLKSECTGET => UserPtr::<u16>::new(argument).write(&MOST_SECTORS)?,
        BLKFLSBUF => {
            check_admin()?;
            volume.mapping().sync()?;
            volume.mapping().forget(0..usize::MAX);
        }
        BLKRRPART => {
            check_admin()?;
            if volume.partition().is_some() {
                return Err(Errno::EINVAL);
            }
            volume.mapping().write_back(0..usize::MAX)?;
            partitions::scan(volume)?;
        }
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}
