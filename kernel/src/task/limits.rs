//! Resource limits of a process.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::errno::{Errno, Result};
use crate::fs::fdtable::MOST_FILES;
use crate::sync::Mutex;
use linux_raw_sys::general::*;

/// Soft and hard limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The limit in force.
    pub soft: usize,
    /// The upper bound of the soft limit.
    pub hard: usize,
}

/// No limit.
pub const INFINITY: usize = usize::MAX;
/// Kinds of limits: RLIMIT_CPU (0) to RLIMIT_RTTIME (15).
const KINDS: usize = 16;

/// The limits of a process. A single value is read without the lock, which keeps pairs consistent.
pub struct Limits {
    /// Soft and hard limits, alternating.
    values: [AtomicUsize; 2 * KINDS],
    pairs: Mutex<()>,
}

impl Limits {
    /// The limits of the first process, as on Linux.
    pub fn initial() -> Self {
        let mut limits = [INFINITY; 2 * KINDS];
        let mut set = |kind: u32, soft, hard| {
            [limits[2 * kind as usize], limits[2 * kind as usize + 1]] = [soft, hard];
        };
        set(RLIMIT_STACK, 8 << 20, INFINITY);
        set(RLIMIT_CORE, 0, INFINITY);
        set(RLIMIT_NOFILE, 1024, 4096);
        let processes = super::sched::most_threads() / 2;
        set(RLIMIT_NPROC, processes, processes);
        set(RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
        set(RLIMIT_SIGPENDING, processes, processes);
        set(RLIMIT_MSGQUEUE, 819_200, 819_200);
        set(RLIMIT_NICE, 0, 0);
        set(RLIMIT_RTPRIO, 0, 0);
        Limits {
            values: limits.map(AtomicUsize::new),
            pairs: Mutex::new(()),
        }
    }

    /// A copy for fork. Inlined, so that it is built in place.
    #[inline(always)]
    pub fn fork(&self) -> Self {
        let _pairs = self.pairs.lock();
        Limits {
            values: self
                .values
                .each_ref()
                .map(|value| AtomicUsize::new(value.load(Relaxed))),
            pairs: Mutex::new(()),
        }
    }

    fn soft_of(&self, kind: u32) -> &AtomicUsize {
        &self.values[2 * kind as usize]
    }

    /// The soft limit `kind`, which is a RLIMIT_*.
    #[inline]
    pub fn soft(&self, kind: u32) -> usize {
        self.soft_of(kind).load(Relaxed)
    }

    /// Raises the soft limit `kind` (RLIMIT_*) regardless of the hard limit.
    pub(super) fn raise(&self, kind: u32, by: usize) {
        let _pairs = self.pairs.lock();
        let raised = self.soft(kind).saturating_add(by);
        self.soft_of(kind).store(raised, Relaxed);
    }

    /// Lowers the soft limit `kind` (RLIMIT_*) to `most` if it is higher.
    pub(super) fn lower(&self, kind: u32, most: usize) {
        let _pairs = self.pairs.lock();
        self.soft_of(kind).fetch_min(most, Relaxed);
    }

    fn pair(&self, kind: u32) -> Result<&[AtomicUsize; 2]> {
        let (pairs, _) = self.values.as_chunks();
        pairs.get(kind as usize).ok_or(Errno::EINVAL)
    }

    /// Both limits `kind`.
    ///
    /// # Errors
    /// EINVAL (no such kind).
    pub fn get(&self, kind: u32) -> Result<Limit> {
        let [soft, hard] = self.pair(kind)?;
        let _pairs = self.pairs.lock();
        Ok(Limit {
            soft: soft.load(Relaxed),
            hard: hard.load(Relaxed),
        })
    }

    /// Sets limit `kind`.
    ///
    /// # Errors
    /// EINVAL (no such kind, soft above hard), EPERM (raises the hard one without privilege).
    pub fn set(&self, kind: u32, new: Limit, privileged: bool) -> Result<()> {
        let [soft, hard] = self.pair(kind)?;
        if new.soft > new.hard {
            return Err(Errno::EINVAL);
        }
        let _pairs = self.pairs.lock();
        let raises = new.hard > hard.load(Relaxed);
        if raises && !privileged || kind == RLIMIT_NOFILE && new.hard > MOST_FILES.load(Relaxed) {
            return Err(Errno::EPERM);
        }
        soft.store(new.soft, Relaxed);
        hard.store(new.hard, Relaxed);
        Ok(())
    }
}
