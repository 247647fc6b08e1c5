//! In place of [`kvm`](crate::kvm) where the architecture has no guests yet.

use crate::errno::{Errno, Result};
use crate::fs::file::FileOps;
use alloc::sync::Arc;

/// Settles nothing.
pub fn init() {}

/// No CPU can run guests.
pub fn is_available() -> bool {
    false
}

/// ENXIO
pub fn open() -> Result<Arc<dyn FileOps>> {
    Err(Errno::ENXIO)
}
