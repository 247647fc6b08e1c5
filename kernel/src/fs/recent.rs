//! Inodes that are no longer in use, with their pages in the page cache: they are likely to be
//! needed again. Their number is limited, and reduced when memory is short.

use crate::mm::frame;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::*};
use radix::Radix;

/// The number of inodes in use that are skipped in search of one that is not.
const TRIES: usize = 16;

/// An inode that can be kept.
pub trait Numbered {
    /// Its number.
    fn place(&self) -> usize;

    /// Set by who looks it up.
    fn wanted(&self) -> &AtomicBool;
}

/// Inodes of one file system by their numbers.
pub struct Recent<T> {
    nodes: Radix<Arc<T>>,
    /// The order in which they came, with some that are not there any more.
    order: VecDeque<usize>,
}

/// The maximum number of inodes.
fn most() -> usize {
    (frame::total() / 64).clamp(64, 8192)
}

impl<T: Numbered> Recent<T> {
    /// None.
    pub const fn new() -> Self {
        Recent {
            nodes: Radix::new(),
            order: VecDeque::new(),
        }
    }

    /// Adds one; returns one that gave its place, or the same.
    fn add(&mut self, node: &Arc<T>) -> Option<Arc<T>> {
        let at = node.place();
        // Where memory is short, it is not kept.
        self.order.try_reserve(1).ok()?;
        if let Some(same) = self.nodes.insert(at, node.clone()).ok()? {
            return Some(same);
        }
        self.order.push_back(at);
        (self.order.len() > most()).then(|| self.oldest()).flatten()
    }

    /// Takes the one out that was used last.
    fn oldest(&mut self) -> Option<Arc<T>> {
        for turn in 0..TRIES {
            let at = self.order.pop_front()?;
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            let wanted = Arc::strong_count(node) > 1 || node.wanted().swap(false, Relaxed);
            if !wanted || turn + 1 == TRIES {
                return self.take(at);
            }
            self.order.push_back(at);
        }
        None
    }

    fn take(&mut self, at: usize) -> Option<Arc<T>> {
        let mut gone = None;
        self.nodes
            .remove_range(at, at, &mut |node| gone = Some(node));
        gone
    }
}

/// What is dropped is dropped without the lock: an inode's end takes others.
impl<T: Numbered> Recent<T> {
    /// Keeps an inode for who wants it next.
    pub fn remember(this: &Mutex<Self>, node: &Arc<T>) {
        let gone = this.lock().add(node);
        drop(gone);
    }

    /// Keeps an inode no longer.
    pub fn forget(this: &Mutex<Self>, at: usize) {
        let gone = this.lock().take(at);
        drop(gone);
    }

    /// Keeps at most so many inodes.
    pub fn shrink(this: &Mutex<Self>, most: usize) {
        loop {
            let gone = {
                let mut recent = this.lock();
                match recent.order.len() > most {
                    true => recent.order.pop_front().map(|at| recent.take(at)),
                    false => None,
                }
            };
            let Some(gone) = gone else { return };
            drop(gone);
            cond_resched();
        }
    }

    /// How many are kept.
    pub fn len(this: &Mutex<Self>) -> usize {
        this.lock().order.len()
    }
}
