//! Members of epoll sets, counted for the user that created the set.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};
use crate::task::user::User;

/// The approximate memory of a member in bytes, with its entries in the set and in the file.
pub(super) const COST: usize = 512;

/// The maximum number of members of all sets of a user (`max_user_watches`).
pub static MAX_WATCHES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit according to the amount of memory: 1/25 of it, as on Linux.
pub fn init() {
    MAX_WATCHES.store(frame::total() / 25 * PAGE_SIZE / COST, Relaxed);
}

/// The count of a member, while it lives.
pub(super) struct Watch(Arc<User>);

impl Watch {
    /// Counts a member.
    ///
    /// # Errors
    /// ENOSPC: the user has too many.
    pub fn new(user: &Arc<User>) -> Result<Self> {
        // If it is dropped on failure, it gives the count back.
        let watch = Watch(user.clone());
        let before = user.epoll_watches.fetch_add(1, Relaxed);
        let fits = before < MAX_WATCHES.load(Relaxed);
        fits.then_some(watch).ok_or(Errno::ENOSPC)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.epoll_watches.fetch_sub(1, Relaxed);
    }
}
