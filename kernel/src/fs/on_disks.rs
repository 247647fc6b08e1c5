//! File systems on disks that are mounted, or not unmounted yet.

use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::wait_queue::WaitQueue;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// How many were unmounted so far, of all kinds.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// Those who wait until one more is.
static WAITING: WaitQueue = WaitQueue::new();

/// Those of one kind, by the numbers of their devices.
pub struct OnDisks<T> {
    all: Mutex<Vec<(u64, Weak<T>)>>,
}

impl<T> OnDisks<T> {
    /// None.
    pub const fn new() -> Self {
        OnDisks {
            all: Mutex::new(Vec::new()),
        }
    }

    /// Adds the one on a device.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn add(&self, device: u64, fs: &Arc<T>) -> Result<()> {
        let mut all = self.all.lock();
        all.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        all.push((device, Arc::downgrade(fs)));
        Ok(())
    }

    /// One is unmounted.
    pub fn remove(&self, fs: &Arc<T>) {
        let mut all = self.all.lock();
        all.retain(|(_, other)| !core::ptr::eq(other.as_ptr(), Arc::as_ptr(fs)));
        drop(all);
        ENDED.fetch_add(1, Release);
        WAITING.wake_all();
    }

    /// Whether there is one on a device.
    pub fn has(&self, device: u64) -> bool {
        let all = self.all.lock();
        all.iter().any(|(number, _)| *number == device)
    }

    /// Calls `visit` with each of them, without locks.
    pub fn each(&self, mut visit: impl FnMut(&T)) {
        let mut last = None;
        loop {
            // Others may go meanwhile.
            let next = {
                let all = self.all.lock();
                let rest = all.iter().filter(|(number, _)| Some(*number) > last);
                let next = rest.min_by_key(|(number, _)| *number);
                next.map(|(number, fs)| (*number, fs.upgrade()))
            };
            let Some((number, fs)) = next else { return };
            if let Some(fs) = fs {
                visit(&fs);
            }
            last = Some(number);
        }
    }
}

/// How many were unmounted so far.
pub fn ended() -> usize {
    ENDED.load(Acquire)
}

/// Waits until more than `so_far` were unmounted.
///
/// # Errors
/// EINTR: a signal kills the process.
pub fn wait_ended(so_far: usize) -> Result<()> {
    let ended = WAITING.wait_killable(|| ended() != so_far);
    ended.map_err(|_| Errno::EINTR)
}
