//! Walks through keyrings, which a program may link to each other in many ways. A walk visits each
//! once.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::{Key, right};
use crate::errno::{Errno, Result};
use crate::sync::{SleepMutex, SleepMutexGuard};
use crate::task::{current, sched};

/// The maximum depth of nested keyrings (Linux's KEYRING_SEARCH_MAX_DEPTH).
const DEEPEST: usize = 6;

/// What the last walk that visited a key found.
#[derive(Default)]
pub(super) struct Mark {
    /// The number of that walk.
    walk: AtomicU64,
    depth: AtomicUsize,
}

/// Counts walks.
static WALKS: SleepMutex<u64> = SleepMutex::new(0);

/// A walk through keyrings in breadth-first order.
pub(super) struct Walk {
    number: SleepMutexGuard<'static, u64>,
    found: Vec<Arc<Key>>,
    /// The index from which `found` was not visited yet.
    next: usize,
    /// The index in `found` at which the next depth begins, and the current depth.
    deeper: usize,
    depth: usize,
}

impl Walk {
    /// Starts a walk at the keyrings `start`.
    ///
    /// # Errors
    /// EINTR: the caller is killed. ENOMEM.
    pub fn from(start: &[Arc<Key>]) -> Result<Self> {
        let mut number = WALKS.lock_killable()?;
        *number += 1;
        let mut walk = Walk {
            number,
            found: Vec::new(),
            next: 0,
            deeper: 0,
            depth: 0,
        };
        start.iter().try_for_each(|key| walk.add(key))?;
        walk.deeper = walk.found.len();
        Ok(walk)
    }

    fn add(&mut self, key: &Arc<Key>) -> Result<()> {
        if key.mark.walk.swap(*self.number, Relaxed) != *self.number {
            self.found.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.found.push(key.clone());
        }
        Ok(())
    }

    /// The next key.
    ///
    /// # Errors
    /// EINTR: the caller is killed.
    pub fn next(&mut self) -> Result<Option<Arc<Key>>> {
        pause()?;
        if self.next == self.deeper {
            self.deeper = self.found.len();
            self.depth += 1;
        }
        let key = self.found.get(self.next).cloned();
        self.next += 1;
        Ok(key)
    }

    /// Adds the keyrings in `ring`, which was returned last, unless they are too deep; returns
    /// whether it did.
    pub fn descend(&mut self, ring: &Key) -> Result<bool> {
        if self.depth >= DEEPEST {
            return Ok(false);
        }
        let state = ring.state.lock();
        state.rings().iter().try_for_each(|ring| self.add(ring))?;
        Ok(true)
    }
}

/// Whether `rings` lead to `key`, whatever the permissions are.
pub(super) fn leads_to(rings: &[Arc<Key>], key: &Key) -> Result<bool> {
    let mut walk = Walk::from(rings)?;
    while let Some(met) = walk.next()? {
        if core::ptr::eq(&*met, key) || walk.descend(&met)? && met.has_link(key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a caller with the keyrings `rings` possesses `key`: it may search the keyrings on some
/// path to the key, and the key itself.
pub(super) fn possesses(rings: &[Arc<Key>], key: &Key) -> Result<bool> {
    let is_open = |key: &Key| key.grants(true) & right::SEARCH != 0;
    if !is_open(key) {
        return Ok(false);
    }
    let mut walk = Walk::from(rings)?;
    while let Some(met) = walk.next()? {
        let is_it = |walk: &mut Walk| {
            Ok(core::ptr::eq(&*met, key) || walk.descend(&met)? && met.has_link(key))
        };
        if is_open(&met) && is_it(&mut walk)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a keyring may link to `ring`.
///
/// # Errors
/// ELOOP: keyrings would be nested too deeply. EINTR, ENOMEM.
pub(super) fn check_depth(ring: &Key) -> Result<()> {
    let mut number = WALKS.lock_killable()?;
    *number += 1;
    depth(ring, *number, 0).map(drop)
}

/// The depth of the keyrings nested below `ring`, which is itself at the depth `above`. Fails if
/// the sum exceeds the maximum.
fn depth(ring: &Key, walk: u64, above: usize) -> Result<usize> {
    pause()?;
    let mut deepest = 0;
    if ring.mark.walk.load(Relaxed) == walk {
        deepest = ring.mark.depth.load(Relaxed);
    } else if above <= DEEPEST {
        for below in ring.rings()? {
            deepest = deepest.max(1 + depth(&below, walk, above + 1)?);
        }
    }
    if above + deepest > DEEPEST {
        return Err(Errno::ELOOP);
    }
    ring.mark.depth.store(deepest, Relaxed);
    ring.mark.walk.store(walk, Relaxed);
    Ok(deepest)
}

/// Lets other threads run; EINTR if the thread is killed.
fn pause() -> Result<()> {
    sched::cond_resched();
    if current().must_die() {
        return Err(Errno::EINTR);
    }
    Ok(())
}

/// Drops `key` and the keys that only it links to, iteratively, since a chain of keyrings may be
/// long.
pub(super) fn put_tree(key: Arc<Key>) {
    // A keyring that is being dropped stores, in place of a removed link, the keyring to continue
    // with after it.
    let mut waiting: Option<Arc<Key>> = None;
    let mut next = Some(key);
    while let Some(key) = next {
        let last = if Key::retire(&key) {
            key.state.lock().links.pop()
        } else {
            None
        };
        if last.is_some() {
            key.state.lock().links.extend(waiting.take());
            waiting = Some(key);
            next = last;
        } else {
            drop(key);
            next = waiting.take();
        }
    }
}
