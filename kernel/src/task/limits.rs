//! Resource limits of a process.

use crate::errno::{Errno, Result};
use crate::fs::fdtable::MAX_FILES;
use crate::sync::Mutex;
use linux_raw_sys::general::*;

/// Soft and hard limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// In force.
    pub soft: usize,
    /// What the soft one can be raised to.
    pub hard: usize,
}

/// No limit.
pub const INFINITY: usize = usize::MAX;
/// Kinds of limits: RLIMIT_CPU (0) to RLIMIT_RTTIME (15).
const KINDS: usize = 16;

/// The limits of a process.
pub struct Limits(Mutex<[Limit; KINDS]>);

impl Limits {
    /// What the first process has, as on Linux.
    pub fn initial() -> Self {
        let mut limits = [Limit {
            soft: INFINITY,
            hard: INFINITY,
        }; KINDS];
        let mut set = |kind: u32, soft, hard| limits[kind as usize] = Limit { soft, hard };
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
        Limits(Mutex::new(limits))
    }

    /// A copy, as fork makes it.
    pub fn fork(&self) -> Self {
        Limits(Mutex::new(*self.0.lock()))
    }

    /// The soft limit `kind`, which is a RLIMIT_*.
    pub fn soft(&self, kind: u32) -> usize {
        self.0.lock()[kind as usize].soft
    }

    /// Raises the soft limit `kind`, which is a RLIMIT_*, whatever the hard one is.
    pub(super) fn raise(&self, kind: u32, by: usize) {
        let soft = &mut self.0.lock()[kind as usize].soft;
        *soft = soft.saturating_add(by);
    }

    /// Lowers the soft limit `kind`, which is a RLIMIT_*, where it is above `most`.
    pub(super) fn lower(&self, kind: u32, most: usize) {
        let soft = &mut self.0.lock()[kind as usize].soft;
        *soft = most.min(*soft);
    }

    /// What the address space, and what of it is private and written to, may be long at most (RLIMIT_AS, RLIMIT_DATA).
    #[inline(always)]
    pub fn memory(&self) -> (usize, usize) {
        let limits = self.0.lock();
        (
            limits[RLIMIT_AS as usize].soft,
            limits[RLIMIT_DATA as usize].soft,
        )
    }

    /// Both limits `kind`.
    ///
    /// # Errors
    /// EINVAL (no such kind).
    pub fn get(&self, kind: u32) -> Result<Limit> {
        self.0
            .lock()
            .get(kind as usize)
            .copied()
            .ok_or(Errno::EINVAL)
    }

    /// Sets limit `kind`.
    ///
    /// # Errors
    /// EINVAL (no such kind, soft above hard), EPERM (raises the hard one without privilege).
    pub fn set(&self, kind: u32, new: Limit, privileged: bool) -> Result<()> {
        let mut limits = self.0.lock();
        let limit = limits.get_mut(kind as usize).ok_or(Errno::EINVAL)?;
        if new.soft > new.hard {
            return Err(Errno::EINVAL);
        }
        if new.hard > limit.hard && !privileged || kind == RLIMIT_NOFILE && new.hard > MAX_FILES {
            return Err(Errno::EPERM);
        }
        *limit = new;
        Ok(())
    }
}
