//! Reclaims pages that can be read again when memory is short: a clock, whose hand goes around all
//! of them and spares those that were used again since it last passed.

use super::{Mapping, Pages, Stats, flusher, mappings};
use crate::errno::Result;
use crate::mm::frame::{self, FrameRef};
use crate::task::sched::cond_resched;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// The number of pages that are examined under the lock.
const AT_ONCE: usize = 64;

/// How often [`relieve`] may wait for pages to be written before other memory must be freed.
const PATIENCE: usize = 1000;
static FRUITLESS: AtomicUsize = AtomicUsize::new(0);

/// The number of the mapping from which pages were last reclaimed.
static HAND: AtomicUsize = AtomicUsize::new(0);

/// The clean pages to reclaim.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// Those that no program maps, unless they were used since the last pass.
    Idle,
    /// As `Idle`, but those that programs map are unmapped first.
    Mapped,
    /// All that no program maps.
    All,
}

/// Reclaims about `wanted` clean pages; returns the number. First those that no program maps. No
/// page is spared twice in a row unless it was used in between.
pub fn reclaim(wanted: usize) -> usize {
    if Stats::now().cached == 0 {
        return 0;
    }
    let rounds = [Which::Idle, Which::Idle, Which::Mapped, Which::Mapped];
    let mut freed = rounds.iter().map(|&which| sweep(wanted, which));
    freed.find(|&freed| freed > 0).unwrap_or(0)
}

/// Reclaims pages if memory is short. If there are none, has dirty pages written, which can then be
/// reclaimed; false if that does not help either.
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

/// Makes one round over the mappings.
fn sweep(wanted: usize, which: Which) -> usize {
    let mut freed = 0;
    for _ in 0..mappings::count() {
        let next = mappings::next(HAND.load(Relaxed)).or_else(|| mappings::next(0));
        let Some((number, mapping)) = next else { break };
        HAND.store(number, Relaxed);
        if let Some(mapping) = mapping {
            freed += mapping.shrink(wanted - freed, which);
        }
        if freed >= wanted {
            break;
        }
    }
    freed
}

/// Reclaims all clean pages of all files (`vm.drop_caches`). May sleep.
pub fn drop_clean() {
    mappings::each(|mapping| _ = mapping.shrink(usize::MAX, Which::All));
}

impl Mapping {
    /// Drops unused clean pages of a range. May sleep.
    pub fn forget(&self, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at = self.evict(at..range.end, &mut usize::MAX.clone(), Which::All);
            cond_resched();
        }
    }

    /// Writes back dirty pages of a range, and drops its pages wherever they are mapped, so that
    /// they are read from the disk again. May sleep.
    ///
    /// # Errors
    /// Those of [`Mapping::write_back`].
    pub fn invalidate(&self, range: Range<usize>) -> Result<()> {
        self.write_back(range.clone())?;
        {
            let _alone = self.cleaning.lock();
            self.reverse_map.unmap(range.clone(), false);
        }
        self.forget(range.clone());
        // The disk is written bypassing this cache: a read in progress must not insert its pages.
        let pages = self.pages.lock();
        if pages.is_reading(range) {
            self.taken.fetch_add(2, AcqRel);
        }
        Ok(())
    }

    /// Lets `act` change a range on the disk of which nothing is cached. Writes by calls wait
    /// meanwhile. May sleep.
    ///
    /// # Errors
    /// Those of `act`; ENOMEM; EINTR if the thread must die.
    pub fn bypass(&self, range: Range<usize>, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let _alone = self.writing.lock_killable()?;
        self.invalidate(range.clone())?;
        let done = act();
        // Pages may have been read meanwhile.
        _ = self.invalidate(range);
        done
    }

    /// Reclaims up to `wanted` pages; returns the number.
    fn shrink(&self, wanted: usize, which: Which) -> usize {
        let mapped = which == Which::Mapped;
        // Only the holder removes entries, and does not wait.
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
                at = self.evict(at..end, &mut left, which);
                self.pages.lock().hand = at;
                cond_resched();
            }
        }
        wanted - left
    }

    /// Removes pages at the start of a range, at most `left`; returns where to continue.
    fn evict(&self, range: Range<usize>, left: &mut usize, which: Which) -> usize {
        let mut pages = self.pages.lock();
        let mut at = range.start;
        for _ in 0..AT_ONCE {
            if *left == 0 {
                break;
            }
            let Some(index) = pages.all.next_item(at).filter(|&index| index < range.end) else {
                return range.end;
            };
            let goes =
                |page: &FrameRef| page.is_unique() && (which == Which::All || !page.take_active());
            if pages.dirty.get(index).is_none() && pages.all.get(index).is_some_and(goes) {
                pages.remove(index, index);
                *left -= 1;
                // A read that began before the page was written has the old data of the disk.
                if pages.is_reading(index..index + 1) {
                    self.taken.fetch_add(2, AcqRel);
                }
            }
            at = index + 1;
        }
        at
    }
}

impl Pages {
    /// Whether a page of a range is being read.
    fn is_reading(&self, range: Range<usize>) -> bool {
        let mut reading = self.reading.iter();
        reading.any(|read| read.start.max(range.start) < read.end.min(range.end))
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn pages_that_were_read_again_outlive_those_read_once() {
        use super::fill::Ahead;
        use super::selftests::new_mapping;
        use crate::fs::io::Sink;
        use crate::mm::PAGE_SIZE;

        const PAGES: usize = 64;
        const AGAIN: Range<usize> = 0..8;
        let mapping = new_mapping(PAGES);
        let read = |ahead: &Ahead, at: usize, len: usize| {
            let mut room = [0; 1024];
            let mut to = Sink::kernel(&mut room[..len]);
            assert_eq!(mapping.read(&mut to, at as u64, ahead), Ok(len));
        };
        let there = || (0..PAGES).filter(|&index| mapping.page(index).is_some()).count();
        let ahead = Ahead::default();
        for at in (0..PAGES * PAGE_SIZE).step_by(1024) {
            read(&ahead, at, 1024);
        }
        for index in AGAIN {
            read(&Ahead::default(), index * PAGE_SIZE + 5, 1);
        }
        assert_eq!(mapping.shrink(1, Which::Idle), 1);
        assert!(AGAIN.chain([AGAIN.end + 1]).all(|index| mapping.page(index).is_some()));
        let once = PAGES - AGAIN.len() - 1;
        assert_eq!(mapping.shrink(once, Which::Idle), once);
        assert_eq!(there(), AGAIN.len());
        read(&Ahead::default(), 0, 1);
        assert_eq!(mapping.shrink(PAGES, Which::Idle), AGAIN.len() - 1);
        assert_eq!(mapping.shrink(PAGES, Which::All), 1);
    }
}
