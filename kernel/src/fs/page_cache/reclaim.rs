//! Giving up pages that can be read again, when memory is wanted for something else.

use super::{Mapping, Stats, flusher, mappings};
use crate::mm::frame;
use crate::task::sched::cond_resched;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// Pages that are looked at under the lock.
const AT_ONCE: usize = 64;

/// How often [`relieve`] may wait for pages to be written before others must give memory.
const PATIENCE: usize = 1000;
static FRUITLESS: AtomicUsize = AtomicUsize::new(0);

/// The number of the mapping that gave up pages last.
static HAND: AtomicUsize = AtomicUsize::new(0);

/// Gives up about so many unchanged pages; returns how many there were. First those that no program
/// maps.
pub fn reclaim(wanted: usize) -> usize {
    if Stats::now().cached == 0 {
        return 0;
    }
    let mut freed = sweep(wanted, false);
    if freed == 0 {
        freed = sweep(wanted, true);
    }
    freed
}

/// Gives up pages where memory is short. Without any it lets changed pages be written, which can be
/// given up then; false if that does not help either.
pub fn relieve() -> bool {
    if reclaim(frame::total() / 256) > 0 {
        FRUITLESS.store(0, Relaxed);
        return true;
    }
    let now = Stats::now();
    if now.dirty + now.writeback == 0 {
        return false;
    }
    flusher::wake();
    FRUITLESS.fetch_add(1, Relaxed) < PATIENCE
}

/// Goes around the mappings once.
fn sweep(wanted: usize, mapped: bool) -> usize {
    let mut freed = 0;
    for _ in 0..mappings::count() {
        let next = mappings::next(HAND.load(Relaxed)).or_else(|| mappings::next(0));
        let Some((number, mapping)) = next else { break };
        HAND.store(number, Relaxed);
        if let Some(mapping) = mapping {
            freed += mapping.shrink(wanted - freed, mapped);
        }
        if freed >= wanted {
            break;
        }
    }
    freed
}

/// Gives up all unchanged pages of all files (`vm.drop_caches`). May sleep.
pub fn drop_clean() {
    mappings::each(|mapping| _ = mapping.shrink(usize::MAX, false));
}

impl Mapping {
    /// Gives up unchanged pages of a range that nobody uses. May sleep.
    pub fn forget(&self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at = self.evict(at..range.end, &mut usize::MAX.clone()).1;
            cond_resched();
        }
    }

    /// Writes back what is changed in a range, and gives up its pages wherever they are mapped:
    /// what the disk has is read anew. May sleep.
    pub fn invalidate(&self, range: Range<usize>) {
        self.write_back(range.clone());
        {
            let _alone = self.cleaning.lock();
            self.reverse_map.unmap(range.clone(), false);
        }
        self.forget(range);
    }

    /// Gives up so many pages; `mapped`: also such that programs map.
    fn shrink(&self, wanted: usize, mapped: bool) -> usize {
        // Only the holder takes entries away, and waits for nobody.
        let alone = self.cleaning.try_lock();
        if mapped && alone.is_none() {
            return 0;
        }
        let (mut left, start) = (wanted, self.pages.lock().hand);
        for (mut at, end) in [(start, usize::MAX), (0, start)] {
            while at < end && left > 0 {
                if mapped {
                    self.reverse_map
                        .unmap(at..at.saturating_add(AT_ONCE), false);
                }
                at = self.evict(at..end, &mut left).1;
                self.pages.lock().hand = at;
                cond_resched();
            }
        }
        wanted - left
    }

    /// Takes away pages of the start of a range, at most `left`; returns how many, and where to go
    /// on.
    fn evict(&self, range: Range<usize>, left: &mut usize) -> (usize, usize) {
        let mut pages = self.pages.lock();
        let (mut at, mut freed) = (range.start, 0);
        for _ in 0..AT_ONCE {
            if *left == 0 {
                break;
            }
            let Some(index) = pages.all.next_item(at).filter(|&index| index < range.end) else {
                return (freed, range.end);
            };
            let unused = pages.all.get(index).is_some_and(|page| page.is_unique());
            if unused && pages.dirty.get(index).is_none() {
                pages.remove(index, index);
                freed += 1;
                *left -= 1;
            }
            at = index + 1;
        }
        (freed, at)
    }
}
