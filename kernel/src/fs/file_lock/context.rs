//! An inode's locks (Linux's `struct file_lock_context`).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use locks::{Locks, NoMemory, Promise};
use tree::{Member, Tree};

use super::super::inode::{Inode, Key};
use super::super::poll::WaitSource;
use super::{Lock, Owner};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap, Keyed};
use crate::mm::heap::{check_room, try_arc};
use crate::sync::Mutex;
use crate::task::sched::cond_resched;

/// The number of locks of one owner that are released at a time, with interrupts masked.
const AT_ONCE: usize = 64;

/// The locks of an inode.
#[derive(Default)]
struct Held {
    flock: Locks<Owner>,
    records: Locks<Owner>,
}

impl Held {
    fn of(&mut self, owner: Owner) -> &mut Locks<Owner> {
        match owner {
            Owner::Flock(_) => &mut self.flock,
            _ => &mut self.records,
        }
    }

    fn len(&self) -> usize {
        self.flock.len() + self.records.len()
    }
}

/// The locks of an inode, and their waiters.
pub struct Context {
    /// The inode.
    pub key: Key,
    /// As its attributes showed it at first.
    pub shown: Key,
    held: Mutex<Held>,
    waits: Mutex<Waits>,
    /// Notified when a lock is released, or becomes shared.
    pub changed: Arc<WaitSource>,
}

/// The locks that are waited for.
#[derive(Default)]
struct Waits {
    /// By the numbers of the waiters.
    by_number: BTreeMap<u64, Lock>,
    by_place: Tree<Wait>,
}

struct Wait {
    number: u64,
    wanted: Lock,
}

impl Member for Wait {
    type Key = (u64, u64);
    /// The highest last byte.
    type Sum = u64;

    fn key(&self) -> (u64, u64) {
        (self.wanted.first, self.number)
    }

    fn sum(&self) -> u64 {
        self.wanted.last
    }

    fn join(one: u64, other: u64) -> u64 {
        one.max(other)
    }
}

impl Waits {
    /// Whether any lock intersects that range.
    fn any_in(&self, range: &Lock) -> bool {
        let first = self.by_place.first(|last| *last >= range.first);
        first.is_some_and(|wait| wait.wanted.first <= range.last)
    }
}

const SHARDS: usize = 64;
/// The inodes that have locks, or are being examined.
static CONTEXTS: [Mutex<HashMap<Key, Arc<Context>>>; SHARDS] =
    [const { Mutex::new(hash::new()) }; SHARDS];
/// The number of contexts: if it is 0, a close does nothing more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether any inode has locks.
#[inline]
pub fn any() -> bool {
    COUNT.load(Relaxed) != 0
}

fn shard(key: Key) -> &'static Mutex<HashMap<Key, Arc<Context>>> {
    let hash = Keyed.hash_one(key);
    &CONTEXTS[hash as usize % SHARDS]
}

fn no_locks(NoMemory: NoMemory) -> Errno {
    Errno::ENOLCK
}

impl Context {
    /// The context of an inode, if it has one.
    pub fn find(key: Key) -> Option<Used> {
        let context = shard(key).lock().get(&key).cloned();
        Some(Used(Some(context?)))
    }

    /// The context of an inode, created if there is none.
    ///
    /// # Errors
    /// ENOLCK.
    pub fn get(inode: &Arc<dyn Inode>) -> Result<Used> {
        let key = inode.key();
        if let Some(known) = Self::find(key) {
            return Ok(known);
        }
        let fresh = try_arc(Context {
            key,
            shown: inode.shown_key(),
            held: Mutex::new(Held::default()),
            waits: Mutex::new(Waits::default()),
            changed: WaitSource::new().map_err(|_| Errno::ENOLCK)?,
        });
        let fresh = fresh.map_err(|_| Errno::ENOLCK)?;
        let mut contexts = shard(key).lock();
        let room = contexts.try_reserve(1);
        room.map_err(|_| Errno::ENOLCK)?;
        let context = contexts.get_or_insert_with(key, || {
            COUNT.fetch_add(1, Relaxed);
            fresh.clone()
        });
        Ok(Used(Some(context.clone())))
    }

    /// The first lock that conflicts with `wanted`.
    pub fn conflict(&self, wanted: &Lock) -> Option<Lock> {
        self.held.lock().of(wanted.owner).conflict(wanted).copied()
    }

    /// The first lock that the owner of `range` holds in it.
    pub fn own(&self, range: &Lock) -> Option<Lock> {
        self.held.lock().of(range.owner).own(range)
    }

    /// Grants `wanted`, or returns the conflicting lock. As on Linux, converting a lock of flock(2)
    /// drops the old lock first, so that one of two processes that exchange their locks can
    /// proceed.
    ///
    /// # Errors
    /// ENOLCK.
    pub fn take(&self, wanted: Lock) -> Result<Option<Lock>> {
        let mut held = self.held.lock();
        let locks = held.of(wanted.owner);
        if let Some(&against) = locks.conflict(&wanted) {
            let exchanges = matches!(wanted.owner, Owner::Flock(_));
            let given_up = exchanges && locks.cut(&wanted, 1).map_err(no_locks)? != 0;
            drop(held);
            if given_up {
                self.wake_waiters(&wanted);
            }
            return Ok(Some(against));
        }
        let kept = if locks.set(wanted, AT_ONCE).map_err(no_locks)? {
            drop(held);
            Ok(())
        } else {
            let promise = locks.promise(wanted).map_err(no_locks)?;
            drop(held);
            self.keep(promise, wanted)
        };
        // A lock that became shared may admit waiters, and waiters may be blocked by the new lock
        // from now on.
        self.wake_waiters(&wanted);
        kept.map(|()| None)
    }

    /// Replaces many locks of the owner of `wanted` by that lock, in parts. As on Linux, it is done
    /// completely or not at all: no signal ends the walk over the owner's own locks.
    ///
    /// # Errors
    /// ENOLCK.
    fn keep(&self, promise: Promise<Owner>, wanted: Lock) -> Result<()> {
        loop {
            cond_resched();
            let mut held = self.held.lock();
            let locks = held.of(wanted.owner);
            let set = locks.set(wanted, AT_ONCE).map_err(no_locks);
            if set != Ok(false) {
                locks.end(promise);
                return set.map(|_| ());
            }
        }
    }

    /// Releases the range of `lock`, a limited number of locks at a time.
    ///
    /// # Errors
    /// ENOLCK.
    pub fn release(&self, lock: &Lock) -> Result<()> {
        loop {
            let cut = self.held.lock().of(lock.owner).cut(lock, AT_ONCE);
            let count = cut.map_err(no_locks)?;
            if count != 0 {
                self.wake_waiters(lock);
            }
            if count < AT_ONCE {
                return Ok(());
            }
            cond_resched();
        }
    }

    /// Releases all locks of an owner: at once if there are no others.
    pub fn release_all(&self, owner: Owner) {
        let all = self.held.lock().of(owner).take_if_all_of(owner);
        if let Some(all) = all {
            drop(all);
            self.wake_waiters(&owner.everything());
        } else {
            // Removing whole locks creates none, so it cannot fail.
            _ = self.release(&owner.everything());
        }
    }

    /// Wakes all waiters if the range of `changed` concerns any: thousands may wait for another
    /// range.
    fn wake_waiters(&self, changed: &Lock) {
        if self.waits.lock().any_in(changed) {
            self.changed.notify();
        }
    }

    /// The memory of the locks of some owners.
    pub fn memory(&self, owners: [Owner; 3]) -> usize {
        let mut held = self.held.lock();
        let counts = owners.map(|owner| held.of(owner).count_of(owner));
        counts.iter().sum::<usize>() * Locks::<Owner>::LOCK
    }

    /// Records a waiter for the lock `wanted`, under a unique number.
    ///
    /// # Errors
    /// ENOLCK.
    pub fn begin_wait(&self, number: u64, wanted: Lock) -> Result<()> {
        let _room = check_room().map_err(|_| Errno::ENOLCK)?;
        let mut waits = self.waits.lock();
        let placed = waits.by_place.insert(Wait { number, wanted });
        placed.map_err(no_locks)?;
        waits.by_number.insert(number, wanted);
        Ok(())
    }

    /// Removes a waiter.
    pub fn end_wait(&self, number: u64) {
        let mut waits = self.waits.lock();
        if let Some(wanted) = waits.by_number.remove(&number) {
            waits.by_place.remove(&(wanted.first, number));
        }
    }

    /// The first waiter with this number or a higher one, and the lock that it waits for.
    pub fn next_wait(&self, from: u64) -> Option<(u64, Lock)> {
        let waits = self.waits.lock();
        let (number, wanted) = waits.by_number.range(from..).next()?;
        Some((*number, *wanted))
    }

    /// The next locks after one, first those of flock and then record locks, each in the order of
    /// their first bytes; none after the last.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn after(&self, last: Option<&Lock>) -> Result<Vec<Lock>> {
        let mut next = Vec::new();
        let room = next.try_reserve_exact(AT_ONCE);
        room.map_err(|_| Errno::ENOMEM)?;
        let held = self.held.lock();
        // All flock locks begin at the first byte, and their owners sort before others.
        let all = held.flock.after(last).chain(held.records.after(last));
        next.extend(all.take(AT_ONCE));
        Ok(next)
    }
}

/// A context in use: without locks, it is freed with its last user.
pub struct Used(Option<Arc<Context>>);

impl Deref for Used {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.0.as_deref().expect("it is used")
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let Some(context) = self.0.take() else {
            return;
        };
        let key = context.key;
        let mut contexts = shard(key).lock();
        drop(context);
        let unused = |context: &Arc<Context>| {
            Arc::strong_count(context) == 1 && context.held.lock().len() == 0
        };
        let gone = match contexts.get(&key).is_some_and(unused) {
            true => contexts.remove(&key),
            false => None,
        };
        drop(contexts);
        if gone.is_some() {
            COUNT.fetch_sub(1, Relaxed);
        }
    }
}

/// The first inodes of a shard after one, or from the first on, in reverse order. `None` if there
/// is no such shard.
///
/// # Errors
/// ENOMEM.
pub fn keys_after(shard: usize, before: Option<Key>) -> Result<Option<Vec<Key>>> {
    let Some(shard) = CONTEXTS.get(shard) else {
        return Ok(None);
    };
    let mut first: Vec<Key> = Vec::new();
    let room = first.try_reserve_exact(AT_ONCE);
    room.map_err(|_| Errno::ENOMEM)?;
    let contexts = shard.lock();
    for &key in contexts.keys().filter(|&&key| before < Some(key)) {
        let at = first.partition_point(|&known| known > key);
        if first.len() < AT_ONCE {
            first.insert(at, key);
        } else if let Some(at) = at.checked_sub(1) {
            first[..=at].rotate_left(1);
            first[at] = key;
        }
    }
    Ok(Some(first))
}
