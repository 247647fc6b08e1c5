//! Members of epoll sets, counted for the user that created the set.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};
use crate::task::user::User;

/// Bytes that a member takes, roughly, with its entries in the set and in the file.
pub(super) const COST: usize = 512;

/// Members of all sets of a user, at most (`max_user_watches`).
pub static MAX_WATCHES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit by how much memory there is: a part of 25, as on Linux.
pub fn init() {
    MAX_WATCHES.store(frame::total() / 25 * PAGE_SIZE / COST, Relaxed);
}

/// One member, while it lives.
pub(super) struct Watch(Arc<User>);

impl Watch {
    /// Counts one.
    ///
    /// # Errors
    /// ENOSPC: the user has too many.
    pub fn new(user: &Arc<User>) -> Result<Self> {
        // Dropped, it gives back what it took.
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
