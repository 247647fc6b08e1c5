//! Open files on their way from one process to another (SCM_RIGHTS).
//!
//! A file that is sent may be a socket in which further files wait: letting go of one must not go as deep as such a chain is
//! long. What is let go of is therefore put on one list, and whoever finds nobody at work on the list empties it.

use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::sync::Mutex;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// The most files in one message (`SCM_MAX_FD`).
pub const MAX_FILES: usize = 253;
/// The most files on their way altogether: those in sockets that only such files hold open are never received.
const MAX_IN_FLIGHT: usize = 1 << 16;

static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

struct Batch {
    files: Vec<Arc<File>>,
    next: Option<Box<Batch>>,
}

/// The files of one message.
pub struct Rights(Option<Box<Batch>>);

struct Discarded {
    first: Option<Box<Batch>>,
    busy: bool,
}

static DISCARDED: Mutex<Discarded> = Mutex::new(Discarded {
    first: None,
    busy: false,
});

impl Rights {
    /// Files that are on their way from now on. ETOOMANYREFS when too many are.
    pub fn new(files: Vec<Arc<File>>) -> Result<Self> {
        let count = files.len();
        if IN_FLIGHT.fetch_add(count, AcqRel) + count > MAX_IN_FLIGHT {
            IN_FLIGHT.fetch_sub(count, AcqRel);
            return Err(Errno::ETOOMANYREFS);
        }
        Ok(Rights(Some(Box::new(Batch { files, next: None }))))
    }

    /// The same files once more.
    pub fn copy(&self) -> Result<Self> {
        let files = self.files();
        let mut copy = Vec::new();
        copy.try_reserve_exact(files.len())
            .map_err(|_| Errno::ENOMEM)?;
        copy.extend(files.iter().cloned());
        Self::new(copy)
    }

    /// The files.
    pub fn files(&self) -> &[Arc<File>] {
        self.0.as_ref().map_or(&[], |batch| &batch.files)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        let Some(mut batch) = self.0.take() else {
            return;
        };
        IN_FLIGHT.fetch_sub(batch.files.len(), AcqRel);
        let mut discarded = DISCARDED.lock();
        batch.next = discarded.first.take();
        discarded.first = Some(batch);
        if core::mem::replace(&mut discarded.busy, true) {
            return;
        }
        while let Some(mut batch) = discarded.first.take() {
            discarded.first = batch.next.take();
            drop(discarded);
            drop(batch);
            discarded = DISCARDED.lock();
        }
        discarded.busy = false;
    }
}
