//! The number of open files, and its limit (`/proc/sys/fs/file-max`).

use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::sync::Counter;
use crate::task::require;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// The number of open files.
static OPEN: Counter = Counter::new();

/// The maximum number of open files without CAP_SYS_ADMIN (`/proc/sys/fs/file-max`); 0 until it is
/// set: then the limit is the number that takes about a tenth of memory.
static MOST_OPEN: AtomicUsize = AtomicUsize::new(0);
/// The minimum of the default (NR_FILE).
const LEAST_OPEN: usize = 8192;

/// The number of open files.
pub fn open_files() -> usize {
    OPEN.exactly()
}

/// The maximum number of open files without CAP_SYS_ADMIN.
pub fn most_open() -> usize {
    match MOST_OPEN.load(Relaxed) {
        0 => LEAST_OPEN.max(frame::total() * (PAGE_SIZE / 1024) / 10),
        most => most,
    }
}

/// Changes the maximum.
pub fn set_most_open(most: usize) {
    MOST_OPEN.store(most.max(1), Relaxed);
}

/// The count of an open file, as long as it lives.
pub struct Counted;

impl Counted {
    /// Counts one more; ENFILE if there are too many.
    pub fn new() -> Result<Self> {
        let most = most_open();
        if OPEN.approximate() >= most && OPEN.exactly() >= most {
            require(CAP_SYS_ADMIN).map_err(|_| Errno::ENFILE)?;
        }
        OPEN.add(1);
        Ok(Counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.add(-1);
    }
}
