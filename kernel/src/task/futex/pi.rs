//! Futexes that are locks which the kernel hands over (PI futexes): the word holds the number of
//! the thread that owns the lock.
//!
//! A waiter enters its bucket first, and then checks whether the lock is still held: either the
//! thread that releases the lock finds it there, or the waiter finds the word changed. Code that
//! removes a waiter from its bucket sets the waiter's slot.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*, fence};

use super::inherit;
use super::pi_state::{Awaited, Owner, PiState};
use super::waiters::Queue;
use super::{
    Bucket, Key, Kind, Locked, OWNER_DIED, TABLE, TID, WAITERS, WAITING, Waiter, lock_both, sleep,
};
use crate::arch::current_arc;
use crate::errno::{Errno, Result};
use crate::mm::fault::Access;
use crate::mm::heap::try_arc;
use crate::mm::user::{self, UserPtr};
use crate::task::clock::{self, Deadline};
use crate::task::sched::{self, state};
use crate::task::{Thread, current, pid_table, wait_queue};

/// The value of a slot once its thread has the lock.
const OWNED: u32 = 0;
/// The thread must try again.
const RETRY: u32 = 1;
/// With the number of an ended thread, which owned the lock: the waiter must write the word itself.
const INHERITED: u32 = 1 << 31;
/// The approximate time, in nanoseconds, in which the state of requeued waiters is settled.
const SETTLES: u64 = 100_000;

/// The number of waiters for locks.
static WAITING_FOR_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread waits for a lock.
pub fn others_wait() -> bool {
    WAITING_FOR_LOCKS.load(Relaxed) != 0
}

/// Takes the lock at `address`, or if `waits` is false, takes it only if it is free.
///
/// # Errors
/// EAGAIN (held, and not waited for), EDEADLK (the thread owns it already, or its owner waits for a
/// lock of the thread), ESRCH (its owner has ended), ETIMEDOUT, ERESTARTNOINTR, EFAULT, EINVAL,
/// ENOMEM.
pub fn lock(address: usize, shared: bool, deadline: Option<Deadline>, waits: bool) -> Result<()> {
    let key = Key::of(address, shared, Access::Write)?;
    loop {
        // Tried without [`inherit::CHAINS`], which all threads share.
        let found = look(
            &TABLE[key.bucket()].waiters.lock(),
            key,
            address,
            &current(),
            0,
        )?;
        match found {
            Found::Taken => return Ok(()),
            Found::Held(_) if !waits => return Err(Errno::EAGAIN),
            Found::Held(_) => {
                if wait_for_lock(key, address, deadline)? {
                    return Ok(());
                }
            }
            // A fault cannot be resolved while a bucket is locked.
            Found::Absent => {
                let word = user::load_u32(address)?;
                user::cmpxchg_u32(address, word, word)?;
            }
            Found::Changed => {}
        }
        pause()?;
    }
}

/// Between two tries, lets others run; fails if a signal is due.
fn pause() -> Result<()> {
    sched::cond_resched();
    if current().signal_due() {
        Err(Errno::ERESTARTNOINTR)
    } else {
        Ok(())
    }
}

/// Pauses, since an ended thread that is about to hand over a lock may have a lower priority.
fn settle_down() {
    wait_queue::sleep_killable(clock::deadline_in(SETTLES));
}

/// The state of a lock.
enum Found {
    /// It was free, and the thread took it.
    Taken,
    /// That thread owns it, if it is alive, and the word now says that others wait.
    Held(Option<Arc<Thread>>),
    /// The word's page is absent, or cannot be written yet.
    Absent,
    /// The word changed meanwhile.
    Changed,
}

/// Takes the lock at `address`, whose bucket is locked, for `thread` if it is free, with `more` in
/// the word; otherwise sets the waiters bit there. If there are waiters, their state names the
/// owner, rather than the word (Linux's `futex_lock_pi_atomic`).
///
/// # Errors
/// EDEADLK, ESRCH (its owner has ended), EINVAL (a program changed a word that has waiters, or they
/// do not wait for a lock).
fn look(waiters: &Queue, key: Key, address: usize, thread: &Thread, more: u32) -> Result<Found> {
    let tid = thread.tid() as u32;
    let lock = waiters.top(key).and_then(Waiter::lock);
    // Read before the word, which is written first.
    let is_unsettled = lock.is_some_and(|lock| lock.is_unsettled.load(Acquire));
    let Some(old) = user::load_present_u32(address) else {
        return Ok(Found::Absent);
    };
    if old & TID == tid {
        return Err(Errno::EDEADLK);
    }
    if let Some(lock) = lock {
        let owner = lock.owner();
        // The owner of a robust lock has died, but has not ended yet.
        let died = old & TID == 0 && old & OWNER_DIED != 0;
        if !is_unsettled && !died && !owner.is(old & TID) {
            return Err(Errno::EINVAL);
        }
        return Ok(Found::Held(owner.thread()));
    }
    if waiters.at(key).next().is_some() {
        return Err(Errno::EINVAL);
    }
    let new = match old & TID {
        0 => old & (OWNER_DIED | WAITERS) | tid | more,
        _ => old | WAITERS,
    };
    // Done even if the value does not change, since the word of a lock must be writable.
    match user::cmpxchg_present_u32(address, old, new) {
        None => Ok(Found::Absent),
        Some(found) if found != old => Ok(Found::Changed),
        Some(_) if old & TID == 0 => Ok(Found::Taken),
        Some(_) => match pid_table::thread((old & TID) as i32) {
            Some(owner) => Ok(Found::Held(Some(owner))),
            None if user::load_present_u32(address) != Some(new) => Ok(Found::Changed),
            None => Err(Errno::ESRCH),
        },
    }
}

/// A place in a bucket, which is left when this is dropped.
struct Place {
    slot: Arc<AtomicU32>,
}

impl Place {
    /// Enters the bucket of `key`, which is locked, to wait for that lock.
    fn enter_for_lock(mut waiters: Locked, key: Key, owner: &Arc<Thread>) -> Result<Self> {
        waiters.reserve(1)?;
        waiters.reserve_lock()?;
        let slot = try_arc(AtomicU32::new(WAITING))?;
        let lock = lock_at(&waiters, key, owner)?;
        current().waits_for(Some(Awaited {
            lock: lock.clone(),
            slot: slot.clone(),
        }));
        Self::enter(waiters, key, Kind::Lock(lock), slot)
    }

    /// Enters the bucket of `key`, which is locked.
    fn enter(mut waiters: Locked, key: Key, kind: Kind, slot: Arc<AtomicU32>) -> Result<Self> {
        waiters.push_for_lock(Waiter {
            key,
            bits: super::ANY,
            thread: current_arc(),
            index: OWNED,
            kind,
            slot: slot.clone(),
        })?;
        waiters.bring_forward();
        TABLE[key.bucket()].count.set(waiters.len());
        drop(waiters);
        WAITING_FOR_LOCKS.fetch_add(1, SeqCst);
        fence(SeqCst);
        Ok(Place { slot })
    }

    /// Leaves the bucket; returns WAITING, or the slot's value if another thread removed the
    /// waiter.
    fn leave(&self, key: Key) -> u32 {
        let mut found = TABLE[key.bucket()].remove(&self.slot);
        loop {
            if let Some(kind) = found {
                if let Kind::Lock(lock) = kind {
                    inherit::left(&lock);
                }
                return WAITING;
            }
            let settled = self.slot.load(Acquire);
            if settled != WAITING {
                return settled;
            }
            // The waiter was moved to another word, or its slot is about to be set.
            found = TABLE.iter().find_map(|bucket| bucket.remove(&self.slot));
            if found.is_none() {
                // The thread that sets it may have a lower priority.
                wait_queue::sleep_killable(clock::deadline_in(SETTLES));
                sched::yield_now();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        WAITING_FOR_LOCKS.fetch_sub(1, Relaxed);
    }
}

/// Waits for a lock that another thread owns; false if the caller must try again.
fn wait_for_lock(key: Key, address: usize, deadline: Option<Deadline>) -> Result<bool> {
    // Dropped after the locks are released.
    let owner;
    let place = {
        let _held = inherit::CHAINS.lock();
        let waiters = TABLE[key.bucket()].waiters.lock();
        match look(&waiters, key, address, &current(), 0)? {
            Found::Taken => return Ok(true),
            Found::Held(found) => owner = found,
            Found::Absent | Found::Changed => return Ok(false),
        }
        match &owner {
            Some(owner) if inherit::closes_circle(owner) => return Err(Errno::EDEADLK),
            Some(owner) => {
                owner.sched.real_time.set_lender();
                Some(Place::enter_for_lock(waiters, key, owner)?)
            }
            None => None,
        }
    };
    let (Some(place), Some(owner)) = (place, owner) else {
        settle_down();
        return Ok(false);
    };
    inherit::waits(&current());
    sched::prepare(state::INTERRUPTIBLE);
    // A thread that ends hands its locks over after it is no longer alive.
    let result = match pid_table::is_living(&owner) {
        // Of all waits with a deadline, this is the only one without slack on Linux.
        true => match deadline {
            Some(deadline) => super::sleep_until(&place.slot, deadline, 0),
            None => sleep(&place.slot, None),
        },
        false => Ok(()),
    };
    sched::cancel();
    outcome(place.leave(key), key, address, result)
}

/// The result of a wait for the lock at `address`, by the value of its slot.
fn outcome(slot: u32, key: Key, address: usize, result: Result<()>) -> Result<bool> {
    match (slot, result) {
        (OWNED, _) => Ok(true),
        (RETRY, _) | (WAITING, Ok(())) => Ok(false),
        (WAITING, Err(Errno::ERESTARTSYS)) => Err(Errno::ERESTARTNOINTR),
        (WAITING, Err(error)) => Err(error),
        (inherited, _) => inherit(key, address, inherited & !INHERITED),
    }
}

/// Takes over the lock of `dead` for this thread; false if another thread was quicker. If the word
/// cannot be written, or the thread must end, the next waiter gets it.
fn inherit(key: Key, address: usize, dead: u32) -> Result<bool> {
    let bucket = &TABLE[key.bucket()];
    let written = write_inherited(key, address, dead);
    if written.is_ok() {
        bucket.settle(key);
    } else if let Some((next, lock)) = bucket.pass_on(key) {
        inherit::handed_over(&lock, &next.thread);
        next.wake_with(INHERITED | dead);
    }
    written
}

fn write_inherited(key: Key, address: usize, dead: u32) -> Result<bool> {
    let new = current().tid() as u32 | OWNER_DIED | WAITERS;
    loop {
        let old = user::load_u32(address)?;
        let held = old & TID;
        // While others wait for this thread, no thread takes the lock through its word.
        let taken = held != 0 && held != dead && !TABLE[key.bucket()].is_own(key);
        if taken && pid_table::thread(held as i32).is_some() {
            return Ok(false);
        }
        if user::cmpxchg_u32(address, old, new)? == old {
            return Ok(true);
        }
        // Another program may keep changing the word.
        sched::cond_resched_killable()?;
    }
}

impl Queue {
    /// The first waiter for the lock `key`, which the current thread owns.
    fn top_of_own(&self, key: Key) -> Option<&Waiter> {
        let own = Owner::new(&current());
        let is_own = |waiter: &&Waiter| waiter.lock().is_some_and(|lock| lock.owner() == own);
        self.top(key).filter(is_own)
    }
}

impl Bucket {
    /// Whether others wait for the lock `key`, which the current thread owns.
    fn is_own(&self, key: Key) -> bool {
        self.waiters.lock().top_of_own(key).is_some()
    }

    /// Notes that the word of an inherited lock now names the current thread.
    fn settle(&self, key: Key) {
        let waiters = self.waiters.lock();
        if let Some(lock) = waiters.top_of_own(key).and_then(Waiter::lock) {
            lock.is_unsettled.store(false, Release);
        }
    }

    /// Removes the first waiter for a lock that the current thread cannot inherit.
    fn pass_on(&self, key: Key) -> Option<(Waiter, Arc<PiState>)> {
        let mut waiters = self.waiters.lock();
        let slot = waiters.top_of_own(key)?.slot.clone();
        let next = waiters.remove(&slot)?;
        Some(self.owned_by(&mut waiters, next, true))
    }

    /// Removes the waiter with the highest priority that waited longest for a lock of `owner`,
    /// which releases it without writing the word; the others now wait for that thread.
    fn next_owner(&self, owner: Owner) -> Option<(Waiter, Arc<PiState>)> {
        let mut waiters = self.waiters.lock();
        let slot = waiters.top_of(owner)?.slot.clone();
        let next = waiters.remove(&slot)?;
        Some(self.owned_by(&mut waiters, next, true))
    }

    /// Makes `next` the owner of the lock that it waited for.
    fn owned_by(&self, waiters: &mut Queue, next: Waiter, died: bool) -> (Waiter, Arc<PiState>) {
        next.thread.waits_for(None);
        next.thread.sched.real_time.set_lender();
        self.count.set(waiters.len());
        let lock = next.lock().expect("it waited for one").clone();
        waiters.give_lock(&lock, Owner::new(&next.thread), died);
        (next, lock)
    }
}

/// The result of releasing a lock.
enum GivenUp {
    /// That thread owns it now, or it is free.
    To(Option<(Waiter, Arc<PiState>)>),
    /// The word's page is absent, or cannot be written yet.
    Absent,
    /// The word changed meanwhile.
    Changed,
}

impl Bucket {
    /// Hands the lock at `address`, whose word is `old`, to its first waiter, or frees it, and
    /// writes the word: a thread that enters later finds it changed.
    ///
    /// # Errors
    /// EINVAL: the waiters' state has another owner, or they do not wait for a lock.
    fn give_up(&self, key: Key, address: usize, old: u32) -> Result<GivenUp> {
        let mut waiters = self.waiters.lock();
        let top = match waiters.top(key) {
            Some(top) => {
                let lock = top.lock().ok_or(Errno::EINVAL)?;
                if lock.owner() != Owner::new(&current()) {
                    return Err(Errno::EINVAL);
                }
                Some((top.slot.clone(), top.thread.tid() as u32 | WAITERS))
            }
            None if waiters.at(key).next().is_some() => return Err(Errno::EINVAL),
            None => None,
        };
        let new = top.as_ref().map_or(0, |(_, new)| *new);
        match user::cmpxchg_present_u32(address, old, new) {
            None => return Ok(GivenUp::Absent),
            Some(found) if found != old => return Ok(GivenUp::Changed),
            Some(_) => {}
        }
        let next = top.and_then(|(slot, _)| waiters.remove(&slot));
        let next = next.map(|next| self.owned_by(&mut waiters, next, false));
        Ok(GivenUp::To(next))
    }
}

/// The lock that others at `key` wait for, or else a new one with `owner`. ENOMEM.
fn lock_at(waiters: &Queue, key: Key, owner: &Arc<Thread>) -> Result<Arc<PiState>> {
    match waiters.top(key).and_then(Waiter::lock) {
        Some(lock) => Ok(lock.clone()),
        None => try_arc(PiState::new(key, Owner::new(owner))),
    }
}

/// Hands the lock at `address` to the waiter with the highest priority, among several to the one
/// that waited longest, or frees it.
///
/// # Errors
/// EPERM (the thread does not own it), EFAULT, EINVAL.
pub fn unlock(address: usize, shared: bool) -> Result<()> {
    let own = current().tid() as u32;
    // The owner is checked first, even if the word cannot be a lock.
    if UserPtr::<u32>::new(address).read()? & TID != own {
        return Err(Errno::EPERM);
    }
    let key = Key::of(address, shared, Access::Write)?;
    loop {
        let old = user::load_u32(address)?;
        if old & TID != own {
            return Err(Errno::EPERM);
        }
        match TABLE[key.bucket()].give_up(key, address, old)? {
            GivenUp::To(None) => return Ok(()),
            GivenUp::To(Some((next, lock))) => {
                inherit::handed_over(&lock, &next.thread);
                next.wake_with(OWNED);
                return Ok(());
            }
            // A fault cannot be resolved while a bucket is locked.
            GivenUp::Absent => _ = user::cmpxchg_u32(address, old, old)?,
            GivenUp::Changed => {}
        }
        pause()?;
    }
}

/// Hands the locks of the current thread, which ends or leaves its memory, to their waiters.
pub fn release_locks() {
    fence(SeqCst);
    if !current().sched.real_time.is_lender() {
        return;
    }
    let own = Owner::new(&current());
    for bucket in &TABLE {
        sched::cond_resched();
        while let Some((next, lock)) = bucket.next_owner(own) {
            inherit::handed_over(&lock, &next.thread);
            next.wake_with(INHERITED | current().tid() as u32);
            sched::cond_resched();
        }
    }
}

/// Waits at `address` while it holds `value`, until the thread is moved to the lock at `second` and
/// given that lock (the wait of a condition variable).
///
/// # Errors
/// As [`lock`]; EAGAIN also if the word holds another value, or a signal arrived after the thread
/// was moved.
pub fn wait_then_lock(
    (address, value): (usize, u32),
    second: usize,
    shared: bool,
    deadline: Option<Deadline>,
) -> Result<()> {
    let key = Key::of(address, shared, Access::Read)?;
    let target = Key::of(second, shared, Access::Write)?;
    if key == target {
        return Err(Errno::EINVAL);
    }
    let slot = try_arc(AtomicU32::new(WAITING))?;
    let place = {
        let mut waiters = TABLE[key.bucket()].waiters.lock();
        waiters.reserve(1)?;
        Place::enter(waiters, key, Kind::LockLater(target), slot)?
    };
    sched::prepare(state::INTERRUPTIBLE);
    let result = match user::load_u32(address) {
        Ok(word) if word == value => sleep(&place.slot, deadline),
        Ok(_) => Err(Errno::EAGAIN),
        Err(error) => Err(error),
    };
    sched::cancel();
    let was_moved = !TABLE[key.bucket()].holds(&place.slot);
    match outcome(place.leave(key), target, second, result) {
        // The wait cannot be restarted, since its word has changed.
        Err(Errno::ERESTARTNOINTR) if was_moved => Err(Errno::EAGAIN),
        Ok(false) => lock(second, shared, deadline, true),
        other => other.map(|_| ()),
    }
}

impl Bucket {
    fn holds(&self, slot: &Arc<AtomicU32>) -> bool {
        let waiters = self.waiters.lock();
        let found = waiters.get(slot);
        found.is_some_and(|waiter| matches!(waiter.kind, Kind::LockLater(_)))
    }
}

/// Gives the lock at `to` to the first thread that waits at `from` to be moved there, or makes it
/// and up to `moves` others wait for the lock; returns their number. This is atomic under the locks
/// of both words, including the check of the first.
///
/// # Errors
/// EAGAIN (`from` holds a value other than `expected`), EINVAL (a waiter does not want that lock),
/// EDEADLK (the first owns it, or its owner waits for a lock of theirs), ESRCH, EFAULT, ENOMEM.
pub fn requeue_to_lock(
    (from, expected): (usize, u32),
    to: usize,
    shared: bool,
    moves: usize,
) -> Result<usize> {
    let source = Key::of(from, shared, Access::Read)?;
    let target = Key::of(to, shared, Access::Write)?;
    if source == target {
        return Err(Errno::EINVAL);
    }
    let requeue = Requeue {
        from,
        expected,
        to,
        source,
        target,
        moves,
    };
    loop {
        match requeue.attempt()? {
            Attempt::Done(moved) => return moved.finish(target, to),
            // A fault cannot be resolved while a bucket is locked.
            Attempt::Absent => {
                user::load_u32(from)?;
                let word = user::load_u32(to)?;
                user::cmpxchg_u32(to, word, word)?;
            }
            Attempt::Changed => settle_down(),
        }
        pause()?;
    }
}

/// A call that moves waiters to a lock.
struct Requeue {
    from: usize,
    expected: u32,
    to: usize,
    source: Key,
    target: Key,
    moves: usize,
}

enum Attempt {
    Done(Moved),
    /// A word's page is absent, or cannot be written yet.
    Absent,
    /// The lock changed hands meanwhile.
    Changed,
}

/// The result of moving waiters to a lock.
#[derive(Default)]
struct Moved {
    /// The waiter that owns the lock now.
    first: Option<Waiter>,
    /// The waiters for the lock, which `owner` owns.
    others: Vec<(Arc<AtomicU32>, Arc<Thread>)>,
    owner: Option<Arc<Thread>>,
    /// The last thread in the chain of waits that begins at `owner`.
    last: Option<Arc<Thread>>,
    /// The reason why no more were moved.
    error: Option<Errno>,
}

impl Requeue {
    fn attempt(&self) -> Result<Attempt> {
        // Dropped after the locks are released.
        let mut moved = Moved::default();
        // Prevents threads from beginning to wait for each other meanwhile.
        let _held = inherit::CHAINS.lock();
        let (mut own, mut others) = lock_both(self.source, self.target);
        match user::load_present_u32(self.from) {
            None => return Ok(Attempt::Absent),
            Some(found) if found != self.expected => return Err(Errno::EAGAIN),
            Some(_) => {}
        }
        let Some(first) = own.at(self.source).next() else {
            return Ok(Attempt::Done(moved));
        };
        if !self.is_for(first) {
            return Err(Errno::EINVAL);
        }
        let first = first.thread.clone();
        // Memory is allocated first: nothing can fail once the word has changed.
        let most = self.moves.saturating_add(1);
        let most = own.at(self.source).take(most).count();
        let room = moved.others.try_reserve_exact(most);
        room.map_err(|_| Errno::ENOMEM)?;
        others.as_mut().map_or(Ok(()), |to| to.reserve(most))?;
        others.as_mut().unwrap_or(&mut own).reserve_lock()?;
        let waiters = others.as_deref().unwrap_or(&own);
        let lock = lock_at(waiters, self.target, &first)?;
        let is_free = match look(waiters, self.target, self.to, &first, WAITERS)? {
            Found::Absent => return Ok(Attempt::Absent),
            Found::Changed | Found::Held(None) => return Ok(Attempt::Changed),
            Found::Taken => {
                moved.owner = Some(first);
                true
            }
            Found::Held(owner) => {
                moved.owner = owner;
                false
            }
        };
        let Some(owner) = &moved.owner else {
            return Ok(Attempt::Changed);
        };
        if lock.waiters.load(Relaxed) == 0 {
            lock.set_owner(Owner::new(owner), false);
        }
        moved.last = inherit::last_of(owner);
        if is_free {
            moved.first = own.take_first(self.source);
        }
        owner.sched.real_time.set_lender();
        self.transfer((&mut own, others.as_mut()), &lock, &mut moved)?;
        Ok(Attempt::Done(moved))
    }

    /// Makes as many waiters as are still to be moved wait for the lock.
    fn transfer(
        &self,
        (own, mut others): (&mut Locked, Option<&mut Locked>),
        lock: &Arc<PiState>,
        moved: &mut Moved,
    ) -> Result<()> {
        let most = self
            .moves
            .saturating_add(usize::from(moved.first.is_none()));
        while moved.others.len() < most {
            let Some(next) = own.at(self.source).next() else {
                break;
            };
            moved.error = self.refuse(next, moved.last.as_ref());
            if moved.error.is_some() {
                break;
            }
            let Some(mut waiter) = own.take_first(self.source) else {
                break;
            };
            waiter.key = self.target;
            waiter.kind = Kind::Lock(lock.clone());
            waiter.thread.waits_for(Some(Awaited {
                lock: lock.clone(),
                slot: waiter.slot.clone(),
            }));
            let (slot, thread) = (waiter.slot.clone(), waiter.thread.clone());
            moved.others.push((slot, thread));
            // Room was reserved.
            match &mut others {
                Some(others) => others.push_for_lock(waiter)?,
                None => own.push_for_lock(waiter)?,
            }
        }
        let [from, to] = [self.source, self.target].map(|key| &TABLE[key.bucket()].count);
        match others {
            Some(others) => from.moved(own.len(), to, others.len()),
            None => from.set(own.len()),
        }
        Ok(())
    }

    /// Whether a waiter wants to be moved to the lock.
    fn is_for(&self, waiter: &Waiter) -> bool {
        matches!(waiter.kind, Kind::LockLater(target) if target == self.target)
    }

    /// The reason why a waiter cannot wait for the lock; `last` ends the chain of waits of its
    /// owner.
    fn refuse(&self, waiter: &Waiter, last: Option<&Arc<Thread>>) -> Option<Errno> {
        if !self.is_for(waiter) {
            return Some(Errno::EINVAL);
        }
        let circle = last.is_none_or(|last| Arc::ptr_eq(last, &waiter.thread));
        circle.then_some(Errno::EDEADLK)
    }
}

impl Moved {
    /// Wakes the waiters, without any lock; returns their number.
    fn finish(self, target: Key, address: usize) -> Result<usize> {
        let count = self.others.len() + usize::from(self.first.is_some());
        fence(SeqCst);
        for (slot, thread) in self.others {
            inherit::waits(&thread);
            let is_held = self
                .owner
                .as_ref()
                .is_some_and(|owner| has_lock(owner, address));
            if !is_held && let Some(kind) = TABLE[target.bucket()].remove(&slot) {
                // The thread must try again.
                if let Kind::Lock(lock) = kind {
                    inherit::left(&lock);
                }
                slot.store(RETRY, Release);
                sched::wake(thread);
            }
            sched::cond_resched();
        }
        // Done last, since the first could hand the lock to waiters that were not handled yet.
        if let Some(first) = self.first {
            first.wake_with(OWNED);
        }
        self.error.map_or(Ok(count), Err)
    }
}

/// Whether `owner` is alive and owns the lock at `address`.
fn has_lock(owner: &Arc<Thread>, address: usize) -> bool {
    let held = user::load_u32(address).is_ok_and(|word| word & TID == owner.tid() as u32);
    held && pid_table::is_living(owner)
}

impl Waiter {
    /// Wakes a waiter that is in no bucket any more.
    fn wake_with(self, slot: u32) {
        self.slot.store(slot, Release);
        sched::wake(self.thread);
    }
}
