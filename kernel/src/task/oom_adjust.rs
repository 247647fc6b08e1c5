//! The adjustment of a process's likelihood to be killed for lack of memory (`oom_score_adj`).

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use linux_raw_sys::general::CAP_SYS_RESOURCE;

use super::can;
use crate::errno::{Errno, Result};

/// The adjustment, from -1000 (never killed) to 1000.
#[derive(Default)]
pub struct OomAdjust {
    value: AtomicI32,
    /// The lower bound for a process without CAP_SYS_RESOURCE.
    least: AtomicI32,
    /// Whether the process was chosen before: it ends, or never will.
    chosen: AtomicBool,
}

impl OomAdjust {
    /// A child's adjustment.
    pub fn fork(&self) -> Self {
        OomAdjust {
            value: AtomicI32::new(self.get()),
            least: AtomicI32::new(self.least.load(Relaxed)),
            chosen: AtomicBool::new(false),
        }
    }

    /// Notes that the process was chosen to end, so that it is not chosen again.
    pub fn choose(&self) {
        self.chosen.store(true, Relaxed);
    }

    /// Whether the process was chosen.
    pub fn was_chosen(&self) -> bool {
        self.chosen.load(Relaxed)
    }

    /// The value.
    pub fn get(&self) -> i32 {
        self.value.load(Relaxed)
    }

    /// Sets the value, and if the caller may set any, the lower bound for others.
    ///
    /// # Errors
    /// EACCES: it is too low for the caller.
    pub fn set(&self, value: i32) -> Result<()> {
        if can(CAP_SYS_RESOURCE) {
            self.least.store(value, Relaxed);
        } else if value < self.least.load(Relaxed) {
            return Err(Errno::EACCES);
        }
        self.value.store(value, Relaxed);
        Ok(())
    }
}
