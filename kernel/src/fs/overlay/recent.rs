//! Dentries that were looked up last: they are likely to be wanted again.

use super::super::dentry::Dentry;
use super::Overlay;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;

/// How many are kept.
const PLACES: usize = 1024;

/// The dentries, and the place of the next.
pub struct Recent {
    places: Vec<Option<Arc<Dentry>>>,
    next: usize,
}

impl Recent {
    /// None.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> Result<Self> {
        let mut places = Vec::new();
        places
            .try_reserve_exact(PLACES)
            .map_err(|_| Errno::ENOMEM)?;
        places.resize(PLACES, None);
        Ok(Recent { places, next: 0 })
    }
}

impl Overlay {
    /// Keeps a dentry of this node in place of the oldest, unless another of it is kept.
    pub(super) fn keep(&self, node: &Node, dentry: &Arc<Dentry>) {
        let is_of_node = |kept: &Arc<Dentry>| Arc::ptr_eq(kept.inode(), dentry.inode());
        let mut recent = self.recent.lock();
        let known = recent.places.get(node.kept.load(Relaxed));
        if known.and_then(Option::as_ref).is_some_and(is_of_node) {
            return;
        }
        let at = recent.next;
        recent.next = (at + 1) % PLACES;
        let oldest = recent.places[at].replace(dentry.clone());
        node.kept.store(at, Relaxed);
        drop(recent);
        drop(oldest);
        if dentry.is_removed() {
            // It was let go of before it was kept.
            self.let_go(node, dentry);
        }
    }

    /// Keeps a dentry no longer, since its name is gone.
    pub(super) fn let_go(&self, node: &Node, dentry: &Arc<Dentry>) {
        let mut recent = self.recent.lock();
        let place = recent.places.get_mut(node.kept.load(Relaxed));
        let gone = place.and_then(|place| place.take_if(|kept| Arc::ptr_eq(kept, dentry)));
        drop(recent);
        drop(gone);
    }

    /// Keeps none.
    pub(super) fn forget_recent(&self) {
        for at in 0..PLACES {
            let gone = self.recent.lock().places[at].take();
            drop(gone);
            cond_resched();
        }
    }
}
