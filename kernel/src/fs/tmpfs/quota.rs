//! Limits of a tmpfs, in pages or in bytes of inodes.

use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering::*};

/// No limit.
const NONE: u64 = u64::MAX;

/// A limit, and how much of it is used. Without a limit nothing is counted.
pub struct Quota {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Quota {
    /// A quota with a limit, or without.
    pub const fn new(limit: Option<u64>) -> Self {
        let limit = match limit {
            Some(limit) => limit,
            None => NONE,
        };
        Quota {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
        }
    }

    /// The limit and how much of it is used, if there is a limit.
    pub fn state(&self) -> Option<(u64, u64)> {
        let limit = self.limit.load(Relaxed);
        (limit != NONE).then(|| (limit, self.used.load(Relaxed)))
    }

    /// Takes one unit; ENOSPC if all are used.
    #[inline]
    pub fn take(&self) -> Result<()> {
        self.take_many(1)
    }

    /// Takes `count` units; ENOSPC if there are not so many left.
    #[inline]
    pub fn take_many(&self, count: u64) -> Result<()> {
        let limit = self.limit.load(Relaxed);
        if limit == NONE || self.used.fetch_add(count, Relaxed) + count <= limit {
            return Ok(());
        }
        self.used.fetch_sub(count, Relaxed);
        Err(Errno::ENOSPC)
    }

    /// Checks that `count` units are left now; ENOSPC if not.
    pub fn check_room(&self, count: u64) -> Result<()> {
        match self.state() {
            Some((limit, used)) if count > limit.saturating_sub(used) => Err(Errno::ENOSPC),
            _ => Ok(()),
        }
    }

    /// Gives `count` units back.
    pub fn give(&self, count: u64) {
        if self.limit.load(Relaxed) != NONE {
            self.used.fetch_sub(count, Relaxed);
        }
    }

    /// Whether `limit` can replace the present limit, where 0 means none. EINVAL if there was no
    /// limit, or if more is used.
    pub fn check(&self, limit: u64) -> Result<()> {
        match self.state() {
            _ if limit == 0 => Ok(()),
            Some((_, used)) if used <= limit => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets another limit, where 0 means none. The caller has called [`check`](Self::check).
    pub fn change(&self, limit: u64) {
        let limit = if limit == 0 { NONE } else { limit };
        self.limit.store(limit, Relaxed);
    }
}
