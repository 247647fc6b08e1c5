//! The three limits on the memory of a protocol's sockets (`net.ipv4.tcp_mem`, `net.ipv4.udp_mem`).

use crate::mm::frame;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The limits in pages.
pub struct MemoryLimits {
    /// The default of the middle limit, as a fraction of the memory at boot.
    part: usize,
    /// The limits that were set, plus one; 0 for the default.
    set: [AtomicUsize; 3],
}

impl MemoryLimits {
    /// Default limits around a fraction of memory.
    pub const fn new(part: usize) -> Self {
        MemoryLimits {
            part,
            set: [const { AtomicUsize::new(0) }; 3],
        }
    }

    /// The three limits; the defaults are Linux's for the memory at boot.
    pub fn get(&self) -> [usize; 3] {
        let middle = (frame::total() / self.part).max(128);
        let usual = [middle / 4 * 3, middle, middle / 4 * 3 * 2];
        core::array::from_fn(|at| {
            self.set[at]
                .load(Relaxed)
                .checked_sub(1)
                .unwrap_or(usual[at])
        })
    }

    /// Sets one of them.
    pub fn set(&self, place: usize, pages: usize) {
        self.set[place].store(pages.saturating_add(1), Relaxed);
    }
}
