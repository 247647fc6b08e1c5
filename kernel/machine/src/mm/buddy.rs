//! The buddy allocator: blocks of 2^order frames, in one free list per order, linked through the
//! frames' metadata.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::frame::{FRAMES, Owner};

/// The largest block is 2^(ORDERS - 1) frames (4 MiB).
pub const ORDERS: usize = 11;

/// All free blocks, as frame numbers; 0 ends a list (frame 0 is never allocated).
pub struct Buddy {
    heads: [u32; ORDERS],
    /// Number of blocks in each list.
    counts: [usize; ORDERS],
}

/// Number of free frames; written only under the allocator's lock.
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Number of free frames.
pub fn free() -> usize {
    FREE.load(Relaxed)
}

impl Buddy {
    /// An allocator without memory.
    pub const fn new() -> Self {
        Buddy {
            heads: [0; ORDERS],
            counts: [0; ORDERS],
        }
    }

    /// Number of free blocks of each order.
    pub fn counts(&self) -> [usize; ORDERS] {
        self.counts
    }

    /// Takes a block of 2^`order` frames, aligned to its size.
    pub fn take(&mut self, order: usize) -> Option<u32> {
        let found = (order..ORDERS).find(|&o| self.heads[o] != 0)?;
        let block = self.heads[found];
        self.unlink(block, found);
        for half in (order..found).rev() {
            self.link(block + (1 << half), half);
        }
        FRAMES.meta(block).set_owner(Owner::Kernel);
        FREE.store(free() - (1 << order), Relaxed);
        Some(block)
    }

    /// Frees a block and merges it with its free buddies.
    pub fn give(&mut self, mut block: u32, mut order: usize) {
        FREE.store(free() + (1 << order), Relaxed);
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            let Some(meta) = FRAMES.get(buddy) else { break };
            if meta.owner() != Owner::Free || meta.order() != order {
                break;
            }
            self.unlink(buddy, order);
            meta.set_owner(Owner::Kernel);
            block &= !(1 << order);
            order += 1;
        }
        self.link(block, order);
    }

    fn link(&mut self, block: u32, order: usize) {
        let head = self.heads[order];
        let meta = FRAMES.meta(block);
        meta.set_owner(Owner::Free);
        meta.set_order(order);
        meta.set_links(0, head);
        if head != 0 {
            let next = FRAMES.meta(head);
            next.set_links(block, next.next());
        }
        self.heads[order] = block;
        self.counts[order] += 1;
    }

    fn unlink(&mut self, block: u32, order: usize) {
        self.counts[order] -= 1;
        let (previous, next) = FRAMES.meta(block).links();
        match previous {
            0 => self.heads[order] = next,
            _ => {
                let meta = FRAMES.meta(previous);
                meta.set_links(meta.links().0, next);
            }
        }
        if next != 0 {
            let meta = FRAMES.meta(next);
            meta.set_links(previous, meta.next());
        }
    }
}
