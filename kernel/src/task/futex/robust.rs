//! Robust futexes: the locks that a thread held when it ended.

use super::{ANY, OWNER_DIED, TID, WAITERS, wake};
use crate::errno::{Errno, Result};
use crate::mm::user::{self, UserPtr};
use crate::task::sched;

/// The maximum number of entries of a robust list that are processed (ROBUST_LIST_LIMIT).
const MOST: usize = 2048;

/// Marks the robust futexes of thread `tid` as held by a dead owner, and wakes one waiter of each.
/// `compat`: the list is a 32-bit program's.
pub fn release_robust(head: usize, tid: i32, compat: bool) {
    let size = if compat { 4 } else { 8 };
    let word = |address: usize| {
        if compat {
            user::load_u32(address).map(|word| word as usize)
        } else {
            UserPtr::<usize>::new(address).read()
        }
    };
    let (Ok(first), Ok(offset), Ok(pending)) = (
        word(head),
        word(head.wrapping_add(size)),
        word(head.wrapping_add(2 * size)),
    ) else {
        return;
    };
    let held_at = |entry: usize| {
        let mut held = Held::at(entry, offset);
        if compat {
            held.address = held.address as u32 as usize;
        }
        held
    };
    let mut entry = first;
    for _ in 0..MOST {
        // Each may be in another bucket, with waiters, or on an absent page.
        sched::cond_resched();
        if entry & !1 == head {
            break;
        }
        // The next entry is read first: the woken thread may free this one.
        let next = word(entry & !1);
        let held = held_at(entry);
        if entry & !1 != pending & !1 && held.release(tid, false).is_err() {
            return;
        }
        let Ok(next) = next else { return };
        entry = next;
    }
    if pending & !1 != 0 {
        // An invalid address has no waiters.
        _ = held_at(pending).release(tid, true);
    }
}

/// A futex of the list.
struct Held {
    address: usize,
    /// Whether the futex is a PI futex, whose waiters the kernel knows (lowest bit of the entry).
    is_lock: bool,
}

impl Held {
    fn at(entry: usize, offset: usize) -> Self {
        Held {
            address: (entry & !1).wrapping_add(offset),
            is_lock: entry & 1 != 0,
        }
    }

    fn release(&self, tid: i32, pending: bool) -> Result<()> {
        let address = self.address;
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        loop {
            let old = user::load_u32(address)?;
            // A thread that was woken because of an owner's death may have died before it took the
            // futex.
            if pending && !self.is_lock && old & TID == 0 {
                wake(address, 1, ANY, true)?;
                return Ok(());
            }
            if old & TID != tid as u32 {
                return Ok(());
            }
            if user::cmpxchg_u32(address, old, old & WAITERS | OWNER_DIED)? == old {
                // A waiter gets the lock when the thread has ended.
                if old & WAITERS != 0 && !self.is_lock {
                    wake(address, 1, ANY, true)?;
                }
                return Ok(());
            }
            // Another program may keep changing the word.
            sched::cond_resched();
        }
    }
}
