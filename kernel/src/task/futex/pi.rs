//! Futexes that are locks which the kernel hands on (PI futexes): the word holds the number of the
//! thread that has the lock.
//!
//! A thread that waits enters its bucket first, and then looks whether the lock is still held: the
//! thread that gives the lock up finds it there, or it finds the word changed. Code that removes a
//! waiter from its bucket sets the waiter's slot.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*, fence};

use super::inherit::{self, Owner};
use super::{
    Bucket, Key, Kind, OWNER_DIED, TABLE, TID, WAITERS, WAITING, Waiter, bring_forward, sleep,
};
use crate::arch::current_arc;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user;
use crate::task::clock::Deadline;
use crate::task::sched::{self, state};
use crate::task::{Thread, current, pid_table};

/// The value of a slot once its thread has the lock.
const OWNED: u32 = 0;
/// The thread is to try for itself.
const RETRY: u32 = 1;
/// With the number of a thread that is no more: the lock was its, and the thread is to write the
/// word itself.
const INHERITED: u32 = 1 << 31;

/// How many wait for locks: a thread that ends looks at the buckets only if any does.
static WAITING_FOR_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// Whether anybody waits for a lock.
pub fn others_wait() -> bool {
    WAITING_FOR_LOCKS.load(Relaxed) != 0
}

/// Takes the lock at `address`, or with `waits` false only if nobody has it.
///
/// # Errors
/// EAGAIN (held, and not waited for), EDEADLK (the thread has it already, or who has it waits for a
/// lock of the thread), ESRCH (held by nobody who lives), ETIMEDOUT, ERESTARTNOINTR, EFAULT,
/// EINVAL, ENOMEM.
pub fn lock(address: usize, shared: bool, deadline: Option<Deadline>, waits: bool) -> Result<()> {
    let key = Key::of(address, shared)?;
    loop {
        let held = match take(address, current().tid() as u32, 0)? {
            Taken::Yes => return Ok(()),
            Taken::Held(held) => held,
        };
        let Some(owner) = owner_of(address, held)? else {
            continue;
        };
        if !waits {
            return Err(Errno::EAGAIN);
        }
        if wait_for_lock(key, address, held, &owner, deadline)? {
            return Ok(());
        }
        pause()?;
    }
}

/// Between two tries: others may run, and a signal ends it.
fn pause() -> Result<()> {
    sched::cond_resched();
    if current().signal_due() {
        Err(Errno::ERESTARTNOINTR)
    } else {
        Ok(())
    }
}

enum Taken {
    Yes,
    /// The word, which says that somebody has the lock and that others wait.
    Held(u32),
}

/// Gives a lock that nobody has to thread `tid`, with `more` bits in its word; else says in the
/// word that somebody waits.
fn take(address: usize, tid: u32, more: u32) -> Result<Taken> {
    loop {
        let old = user::load_u32(address)?;
        if old & TID == tid {
            return Err(Errno::EDEADLK);
        }
        let new = match old & TID {
            0 => old & (OWNER_DIED | WAITERS) | tid | more,
            _ => old | WAITERS,
        };
        if new == old || user::cmpxchg_u32(address, old, new)? == old {
            return Ok(match old & TID {
                0 => Taken::Yes,
                _ => Taken::Held(new),
            });
        }
        pause()?;
    }
}

/// The owner of the lock whose word is `held`; none if the word has changed.
fn owner_of(address: usize, held: u32) -> Result<Option<Arc<Thread>>> {
    match pid_table::thread((held & TID) as i32) {
        Some(owner) => Ok(Some(owner)),
        None if user::load_u32(address)? != held => Ok(None),
        None => Err(Errno::ESRCH),
    }
}

/// A place in a bucket, left when this goes.
struct Place {
    slot: Arc<AtomicU32>,
}

impl Place {
    fn enter(key: Key, kind: Kind) -> Result<Self> {
        let slot = try_arc(AtomicU32::new(WAITING))?;
        let bucket = &TABLE[key.bucket()];
        let mut waiters = bucket.waiters.lock();
        waiters.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if let Kind::Lock(owner) = kind {
            current().waits_for(Some(owner));
        }
        waiters.push_back(Waiter {
            key,
            bits: super::ANY,
            thread: current_arc(),
            index: OWNED,
            kind,
            slot: slot.clone(),
        });
        bring_forward(&mut waiters);
        bucket.count.set(waiters.len());
        drop(waiters);
        WAITING_FOR_LOCKS.fetch_add(1, SeqCst);
        fence(SeqCst);
        Ok(Place { slot })
    }

    /// Leaves the bucket; what the slot holds if somebody else took the waiter out, else WAITING.
    fn leave(&self, key: Key) -> u32 {
        let mut found = TABLE[key.bucket()].remove(&self.slot);
        loop {
            if let Some(kind) = found {
                if let Kind::Lock(owner) = kind {
                    inherit::left(current(), owner);
                }
                return WAITING;
            }
            let settled = self.slot.load(Acquire);
            if settled != WAITING {
                return settled;
            }
            // Moved to another word, or about to be settled.
            found = TABLE.iter().find_map(|bucket| bucket.remove(&self.slot));
            sched::yield_now();
            sched::cond_resched();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        WAITING_FOR_LOCKS.fetch_sub(1, Relaxed);
    }
}

/// Waits for the lock that `owner` has; false if it must be tried again.
fn wait_for_lock(
    key: Key,
    address: usize,
    held: u32,
    owner: &Arc<Thread>,
    deadline: Option<Deadline>,
) -> Result<bool> {
    let place = {
        let _held = inherit::CHAINS.lock();
        if inherit::closes_circle(owner) {
            return Err(Errno::EDEADLK);
        }
        Place::enter(key, Kind::Lock(Owner::new(owner)))?
    };
    inherit::waits(current());
    sched::prepare(state::INTERRUPTIBLE);
    let result = match user::load_u32(address) {
        Ok(word) if (word | OWNER_DIED) == (held | OWNER_DIED) && pid_table::is_living(owner) => {
            sleep(&place.slot, deadline)
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    sched::cancel();
    outcome(place.leave(key), address, result)
}

/// The result of a wait for the lock at `address`, by the value of its slot.
fn outcome(slot: u32, address: usize, result: Result<()>) -> Result<bool> {
    match (slot, result) {
        (OWNED, _) => Ok(true),
        (RETRY, _) | (WAITING, Ok(())) => Ok(false),
        (WAITING, Err(Errno::ERESTARTSYS)) => Err(Errno::ERESTARTNOINTR),
        (WAITING, Err(error)) => Err(error),
        (inherited, _) => inherit(address, inherited & !INHERITED),
    }
}

/// The lock is this thread's, for `dead` had it; false if yet another was quicker.
fn inherit(address: usize, dead: u32) -> Result<bool> {
    let new = current().tid() as u32 | OWNER_DIED | WAITERS;
    loop {
        let old = user::load_u32(address)?;
        if old & TID != 0 && old & TID != dead {
            return Ok(false);
        }
        if user::cmpxchg_u32(address, old, new)? == old {
            return Ok(true);
        }
        pause()?;
    }
}

impl Bucket {
    /// Takes out the waiter of the highest priority that waited longest for a lock that `is_it`,
    /// whose other waiters wait for that thread from now on.
    fn next_owner(&self, is_it: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        let mut waiters = self.waiters.lock();
        let wants = |waiter: &Waiter| matches!(waiter.kind, Kind::Lock(_)) && is_it(waiter);
        let candidates = waiters
            .iter()
            .enumerate()
            .filter(|(_, waiter)| wants(waiter));
        // The first of several with the least key.
        let (at, _) =
            candidates.min_by_key(|(_, waiter)| Reverse(waiter.thread.sched.priority()))?;
        let next = waiters.remove(at)?;
        next.thread.waits_for(None);
        wait_for(&mut waiters, next.key, &next.thread);
        self.count.set(waiters.len());
        Some(next)
    }
}

/// Those of `waiters` that want the lock `key` wait for `owner` now.
pub fn wait_for(waiters: &mut VecDeque<Waiter>, key: Key, owner: &Thread) {
    for waiter in waiters.iter_mut().filter(|waiter| waiter.key == key) {
        if let Kind::Lock(of) = &mut waiter.kind {
            *of = Owner::new(owner);
            waiter.thread.waits_for(Some(*of));
        }
    }
}

/// Gives the lock at `address` to the waiter with the highest priority, of several to that which
/// waited longest, or to nobody.
///
/// # Errors
/// EPERM (it is not the thread's), EFAULT, EINVAL.
pub fn unlock(address: usize, shared: bool) -> Result<()> {
    let key = Key::of(address, shared)?;
    let own = current().tid() as u32;
    loop {
        let old = user::load_u32(address)?;
        if old & TID != own {
            return Err(Errno::EPERM);
        }
        fence(SeqCst);
        let Some(next) = TABLE[key.bucket()].next_owner(|waiter| waiter.key == key) else {
            if user::cmpxchg_u32(address, old, 0)? == old {
                return Ok(());
            }
            pause()?;
            continue;
        };
        return hand_over(address, next);
    }
}

fn hand_over(address: usize, next: Waiter) -> Result<()> {
    let new = next.thread.tid() as u32 | WAITERS;
    let written = loop {
        match user::load_u32(address) {
            Err(error) => break Err(error),
            Ok(old) => match user::cmpxchg_u32(address, old, new) {
                Ok(found) if found != old => continue,
                other => break other.map(|_| ()),
            },
        }
    };
    // Waiters that came meanwhile found the old owner in the word.
    inherit::handed_over(next.key, &next.thread);
    next.wake_with(OWNED);
    written
}

/// The current thread is no more, or leaves its memory: locks that it has and others wait for are
/// theirs.
pub fn release_locks() {
    fence(SeqCst);
    if WAITING_FOR_LOCKS.load(Relaxed) == 0 {
        return;
    }
    let own = Owner::new(current());
    for bucket in &TABLE {
        while let Some(next) = bucket.next_owner(|waiter| waiter.kind == Kind::Lock(own)) {
            let tid = current().tid() as u32;
            inherit::handed_over(next.key, &next.thread);
            next.wake_with(INHERITED | tid);
            sched::cond_resched();
        }
    }
}

/// Waits at `address` while it holds `value`, until it is moved to the lock at `second` and given
/// that (a condition variable's wait).
///
/// # Errors
/// As [`lock`]; EAGAIN also where the word holds something else, or a signal came when it was moved
/// already.
pub fn wait_then_lock(
    (address, value): (usize, u32),
    second: usize,
    shared: bool,
    deadline: Option<Deadline>,
) -> Result<()> {
    let (key, target) = (Key::of(address, shared)?, Key::of(second, shared)?);
    if key == target {
        return Err(Errno::EINVAL);
    }
    let place = Place::enter(key, Kind::LockLater(target))?;
    sched::prepare(state::INTERRUPTIBLE);
    let result = match user::load_u32(address) {
        Ok(word) if word == value => sleep(&place.slot, deadline),
        Ok(_) => Err(Errno::EAGAIN),
        Err(error) => Err(error),
    };
    sched::cancel();
    let was_moved = !TABLE[key.bucket()].holds(&place.slot);
    match outcome(place.leave(key), second, result) {
        // It cannot begin again as a wait, since its word has changed.
        Err(Errno::ERESTARTNOINTR) if was_moved => Err(Errno::EAGAIN),
        Ok(false) => lock(second, shared, deadline, true),
        other => other.map(|_| ()),
    }
}

impl Bucket {
    fn holds(&self, slot: &Arc<AtomicU32>) -> bool {
        let waiters = self.waiters.lock();
        waiters.iter().any(|waiter| {
            Arc::ptr_eq(&waiter.slot, slot) && matches!(waiter.kind, Kind::LockLater(_))
        })
    }

    /// Takes out the longest waiter at `key` to be moved to `target`.
    fn next_moved(&self, key: Key, target: Key) -> Result<Option<Waiter>> {
        let mut waiters = self.waiters.lock();
        let Some(at) = waiters.iter().position(|waiter| waiter.key == key) else {
            return Ok(None);
        };
        if waiters[at].kind != Kind::LockLater(target) {
            return Err(Errno::EINVAL);
        }
        let waiter = waiters.remove(at);
        self.count.set(waiters.len());
        Ok(waiter)
    }
}

/// Gives the lock at `to` to the first that waits at `from` to be moved there, or makes it and up
/// to `moves` others wait for the lock; returns how many were.
///
/// # Errors
/// EAGAIN (`from` holds something else than `expected`), EINVAL (the waiter does not want that
/// lock), ESRCH, EFAULT, ENOMEM.
pub fn requeue_to_lock(
    (from, expected): (usize, u32),
    to: usize,
    shared: bool,
    moves: usize,
) -> Result<usize> {
    let (source, target) = (Key::of(from, shared)?, Key::of(to, shared)?);
    if source == target {
        return Err(Errno::EINVAL);
    }
    if user::load_u32(from)? != expected {
        return Err(Errno::EAGAIN);
    }
    let mut done = 0;
    while done <= moves {
        let Some(mut waiter) = TABLE[source.bucket()].next_moved(source, target)? else {
            break;
        };
        let tid = waiter.thread.tid() as u32;
        let held = match take(to, tid, WAITERS) {
            Ok(Taken::Yes) => {
                waiter.wake_with(OWNED);
                done += 1;
                continue;
            }
            Ok(Taken::Held(held)) => held,
            Err(error) => {
                waiter.wake_with(RETRY);
                return Err(error);
            }
        };
        match owner_of(to, held) {
            Ok(Some(owner)) => {
                (waiter.key, waiter.kind) = (target, Kind::Lock(Owner::new(&owner)));
                move_to_lock(waiter, to, &owner);
            }
            Ok(None) => waiter.wake_with(RETRY),
            Err(error) => {
                waiter.wake_with(RETRY);
                return Err(error);
            }
        }
        done += 1;
    }
    Ok(done)
}

/// Lets a waiter wait for the lock at `address` that `owner` has, if it still has.
fn move_to_lock(waiter: Waiter, address: usize, owner: &Arc<Thread>) {
    let bucket = &TABLE[waiter.key.bucket()];
    let (slot, thread) = (waiter.slot.clone(), waiter.thread.clone());
    let mut waiters = bucket.waiters.lock();
    if waiters.try_reserve(1).is_err() {
        drop(waiters);
        return waiter.wake_with(RETRY);
    }
    thread.waits_for(Some(Owner::new(owner)));
    waiters.push_back(waiter);
    bucket.count.set(waiters.len());
    drop(waiters);
    fence(SeqCst);
    inherit::waits(&thread);
    let held = user::load_u32(address).is_ok_and(|word| word & TID == owner.tid() as u32);
    if !(held && pid_table::is_living(owner)) && bucket.remove(&slot).is_some() {
        inherit::left(&thread, Owner::new(owner));
        slot.store(RETRY, Release);
        sched::wake(thread);
    }
}

impl Waiter {
    /// Tells a waiter that no bucket holds any more.
    fn wake_with(self, slot: u32) {
        self.slot.store(slot, Release);
        sched::wake(self.thread);
    }
}
