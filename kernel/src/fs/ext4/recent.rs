//! Inodes that are no longer in use, with their pages in the page cache: they are likely to be
//! needed again. Their number is limited, and reduced when memory is short.

use super::Ext4;
use super::node::Node;
use crate::mm::frame;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use radix::Radix;

/// The number of inodes in use that are skipped in search of one that is not.
const TRIES: usize = 16;

/// Inodes by their numbers.
#[derive(Default)]
pub struct Recent {
    nodes: Radix<Arc<Node>>,
    /// Their order of arrival, with some numbers that were removed since.
    order: VecDeque<u32>,
}

/// The maximum number of inodes.
fn most() -> usize {
    (frame::total() / 64).clamp(64, 8192)
}

impl Recent {
    /// Adds an inode; returns one that was displaced, or the same.
    fn add(&mut self, node: &Arc<Node>) -> Option<Arc<Node>> {
        let at = node.number() as usize;
        // If memory is short, it is not kept.
        self.order.try_reserve(1).ok()?;
        if let Some(same) = self.nodes.insert(at, node.clone()).ok()? {
            return Some(same);
        }
        self.order.push_back(node.number());
        (self.order.len() > most()).then(|| self.oldest()).flatten()
    }

    /// Removes the least recently used one.
    fn oldest(&mut self) -> Option<Arc<Node>> {
        for turn in 0..TRIES {
            let number = self.order.pop_front()?;
            let at = number as usize;
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            let wanted = Arc::strong_count(node) > 1 || node.wanted.swap(false, Relaxed);
            if !wanted || turn + 1 == TRIES {
                return self.take(at);
            }
            self.order.push_back(number);
        }
        None
    }

    fn take(&mut self, at: usize) -> Option<Arc<Node>> {
        let mut gone = None;
        self.nodes
            .remove_range(at, at, &mut |node| gone = Some(node));
        gone
    }
}

impl Ext4 {
    /// Keeps an inode for its next user.
    pub fn remember(&self, node: &Arc<Node>) {
        let gone = self.recent.lock().add(node);
        drop(gone);
    }

    /// Stops keeping an inode.
    pub fn forget(&self, number: u32) {
        let gone = self.recent.lock().take(number as usize);
        drop(gone);
    }

    /// Keeps at most `most` inodes.
    pub fn shrink(&self, most: usize) {
        loop {
            let gone = {
                let mut recent = self.recent.lock();
                match recent.order.len() > most {
                    true => recent.order.pop_front().map(|at| recent.take(at as usize)),
                    false => None,
                }
            };
            let Some(gone) = gone else { return };
            drop(gone);
            crate::task::sched::cond_resched();
        }
    }

    /// The number of kept inodes.
    pub fn remembered(&self) -> usize {
        self.recent.lock().order.len()
    }
}
