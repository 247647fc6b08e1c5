//! The interfaces: there is `lo` alone.

use crate::errno::{Errno, Result};

/// Control operations on interfaces.
pub fn ioctl(_request: u32, _argument: usize) -> Result<usize> {
    Err(Errno::ENOTTY)
}
