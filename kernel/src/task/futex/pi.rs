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
/// The thread is to try for itself.
const RETRY: u32 = 1;
/// With the number of a thread that is no more: the lock was its, and the thread is to write the
/// word itself.
const INHERITED: u32 = 1 << 31;
/// The time that it takes to settle the state of requeued waiters, about, in nanoseconds.
const SETTLES: u64 = 100_000;

/// How many wait for locks.
static WAITING_FOR_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// Whether anybody waits for a lock.
pub fn others_wait() -> bool {
    WAITING_FOR_LOCKS.load(Relaxed) != 0
}

/// Takes the lock at `address`, or with `waits` false only if nobody has it.
///
/// # Errors
/// EAGAIN (held, and not waited for), EDEADLK (the thread has it already, or its owner waits for a
/// lock of the thread), ESRCH (its owner has ended), ETIMEDOUT, ERESTARTNOINTR, EFAULT,
/// EINVAL, ENOMEM.
pub fn lock(address: usize, shared: bool, deadline: Option<Deadline>, waits: bool) -> Result<()> {
    let key = Key::of(address, shared, Access::Write)?;
    loop {
        // Without [`inherit::CHAINS`], which is all threads'.
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
            // No fault can be resolved with a bucket locked.
            Found::Absent => {
                let word = user::load_u32(address)?;
                user::cmpxchg_u32(address, word, word)?;
            }
            Found::Changed => {}
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

/// A thread that has ended is about to give a lock to another, and may have a lower priority.
fn settle_down() {
    wait_queue::sleep_killable(clock::deadline_in(SETTLES));
}

/// Who has a lock.
enum Found {
    /// The thread that looked: nobody had it.
    Taken,
    /// That thread, as far as it lives, and the word says that others wait.
    Held(Option<Arc<Thread>>),
    /// The word's page is absent, or cannot be written yet.
    Absent,
    /// The word changed meanwhile.
    Changed,
}

/// Takes the lock at `address`, whose bucket is locked, for `thread` if nobody has it, with `more`
/// in the word; else says there that somebody waits. Those who wait already know better than the
/// word who has it (Linux's `futex_lock_pi_atomic`).
///
/// # Errors
/// EDEADLK, ESRCH (its owner has ended), EINVAL (a program wrote into a word that others wait at,
/// or they wait for no lock).
fn look(waiters: &Queue, key: Key, address: usize, thread: &Thread, more: u32) -> Result<Found> {
    let tid = thread.tid() as u32;
    let lock = waiters.top(key).and_then(Waiter::lock);
    // Before the word, which is written first.
    let is_unsettled = lock.is_some_and(|lock| lock.is_unsettled.load(Acquire));
    let Some(old) = user::load_present_u32(address) else {
        return Ok(Found::Absent);
    };
    if old & TID == tid {
        return Err(Errno::EDEADLK);
    }
    if let Some(lock) = lock {
        let owner = lock.owner();
        // The owner of a robust lock has died, but not ended.
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
    // Also where nothing changes: the word of a lock can be written.
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

/// A place in a bucket, left when this goes.
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

    /// Leaves the bucket; returns WAITING, or the slot's value if another thread took the waiter
    /// out.
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
            // Moved to another word, or about to be settled.
            found = TABLE.iter().find_map(|bucket| bucket.remove(&self.slot));
            if found.is_none() {
                // The thread that settles it may have a lower priority.
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

/// Waits for a lock that others have; false if it must be tried again.
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
    // A thread that ends gives its locks away when it lives no more.
    let result = match pid_table::is_living(&owner) {
        // Of all waits with a deadline, only this one has no slack on Linux.
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

/// The lock is this thread's, for `dead` had it; false if yet another was quicker. Where the word
/// cannot be written, or the thread is to end, the next has it.
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
        // While others wait for this thread, nobody takes the lock by its word.
        let taken = held != 0 && held != dead && !TABLE[key.bucket()].is_own(key);
        if taken && pid_table::thread(held as i32).is_some() {
            return Ok(false);
        }
        if user::cmpxchg_u32(address, old, new)? == old {
            return Ok(true);
        }
        // Another program may change the word for as long as it likes.
        sched::cond_resched_killable()?;
    }
}

impl Queue {
    /// The waiter whose turn it is for the lock `key`, which is the current thread's.
    fn top_of_own(&self, key: Key) -> Option<&Waiter> {
        let own = Owner::new(&current());
        let is_own = |waiter: &&Waiter| waiter.lock().is_some_and(|lock| lock.owner() == own);
        self.top(key).filter(is_own)
    }
}

impl Bucket {
    /// Whether others wait for the lock `key`, which is the current thread's.
    fn is_own(&self, key: Key) -> bool {
        self.waiters.lock().top_of_own(key).is_some()
    }

    /// The word of a lock that the current thread inherited says so now.
    fn settle(&self, key: Key) {
        let waiters = self.waiters.lock();
        if let Some(lock) = waiters.top_of_own(key).and_then(Waiter::lock) {
            lock.is_unsettled.store(false, Release);
        }
    }

    /// Takes out the waiter whose turn it is for a lock that the current thread cannot inherit.
    fn pass_on(&self, key: Key) -> Option<(Waiter, Arc<PiState>)> {
        let mut waiters = self.waiters.lock();
        let slot = waiters.top_of_own(key)?.slot.clone();
        let next = waiters.remove(&slot)?;
        Some(self.owned_by(&mut waiters, next, true))
    }

    /// Takes out the waiter of the highest priority that waited longest for a lock of `owner`, who
    /// gives it up without a word; the others wait for that thread from now on.
    fn next_owner(&self, owner: Owner) -> Option<(Waiter, Arc<PiState>)> {
        let mut waiters = self.waiters.lock();
        let slot = waiters.top_of(owner)?.slot.clone();
        let next = waiters.remove(&slot)?;
        Some(self.owned_by(&mut waiters, next, true))
    }

    /// The lock that `next` waited for is its.
    fn owned_by(&self, waiters: &mut Queue, next: Waiter, died: bool) -> (Waiter, Arc<PiState>) {
        next.thread.waits_for(None);
        next.thread.sched.real_time.set_lender();
        self.count.set(waiters.len());
        let lock = next.lock().expect("it waited for one").clone();
        waiters.give_lock(&lock, Owner::new(&next.thread), died);
        (next, lock)
    }
}

/// What became of a lock that its owner gives up.
enum GivenUp {
    /// It is that thread's now, or nobody's.
    To(Option<(Waiter, Arc<PiState>)>),
    /// The word's page is absent, or cannot be written yet.
    Absent,
    /// The word changed meanwhile.
    Changed,
}

impl Bucket {
    /// Gives the lock at `address`, whose word is `old`, to the waiter whose turn it is, or to
    /// nobody, in the word as well: who enters after this finds it changed.
    ///
    /// # Errors
    /// EINVAL: those who wait know another owner, or wait for no lock.
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

/// The lock that others at `key` wait for, or else one of `owner`. ENOMEM.
fn lock_at(waiters: &Queue, key: Key, owner: &Arc<Thread>) -> Result<Arc<PiState>> {
    match waiters.top(key).and_then(Waiter::lock) {
        Some(lock) => Ok(lock.clone()),
        None => try_arc(PiState::new(key, Owner::new(owner))),
    }
}

/// Gives the lock at `address` to the waiter with the highest priority, of several to that which
/// waited longest, or to nobody.
///
/// # Errors
/// EPERM (it is not the thread's), EFAULT, EINVAL.
pub fn unlock(address: usize, shared: bool) -> Result<()> {
    let own = current().tid() as u32;
    // First whose it is, also of a word in no place for one.
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
            // No fault can be resolved with a bucket locked.
            GivenUp::Absent => _ = user::cmpxchg_u32(address, old, old)?,
            GivenUp::Changed => {}
        }
        pause()?;
    }
}

/// The current thread is no more, or leaves its memory: locks that it has and others wait for are
/// theirs.
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

/// Gives the lock at `to` to the first that waits at `from` to be moved there, or makes it and up
/// to `moves` others wait for the lock; returns how many were. All at once, under the locks of both
/// words, as is the look at the first.
///
/// # Errors
/// EAGAIN (`from` holds something else than `expected`), EINVAL (a waiter does not want that lock),
/// EDEADLK (the first has it, or its owner waits for a lock of theirs), ESRCH, EFAULT, ENOMEM.
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
            // No fault can be resolved with a bucket locked.
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
    /// The waiter that has the lock now.
    first: Option<Waiter>,
    /// The waiters for the lock, which `owner` has.
    others: Vec<(Arc<AtomicU32>, Arc<Thread>)>,
    owner: Option<Arc<Thread>>,
    /// The last owner in the chain that `owner` waits for.
    last: Option<Arc<Thread>>,
    /// Why no more were moved.
    error: Option<Errno>,
}

impl Requeue {
    fn attempt(&self) -> Result<Attempt> {
        // Dropped after the locks are released.
        let mut moved = Moved::default();
        // Nobody begins to wait for another meanwhile.
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
        // Memory first: nothing fails once the word has changed.
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

    /// Lets waiters wait for the lock, as many as are still to be moved.
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
            // There is room.
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

    /// Why a waiter cannot wait for the lock, whose owner waits for `last` in the end.
    fn refuse(&self, waiter: &Waiter, last: Option<&Arc<Thread>>) -> Option<Errno> {
        if !self.is_for(waiter) {
            return Some(Errno::EINVAL);
        }
        let circle = last.is_none_or(|last| Arc::ptr_eq(last, &waiter.thread));
        circle.then_some(Errno::EDEADLK)
    }
}

impl Moved {
    /// Wakes the waiters, without any lock; returns how many there are.
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
                // The thread is to try for itself.
                if let Kind::Lock(lock) = kind {
                    inherit::left(&lock);
                }
                slot.store(RETRY, Release);
                sched::wake(thread);
            }
            sched::cond_resched();
        }
        // Last, since it would give the lock to waiters that were not looked at.
        if let Some(first) = self.first {
            first.wake_with(OWNED);
        }
        self.error.map_or(Ok(count), Err)
    }
}

/// Whether `owner` lives and has the lock at `address`.
fn has_lock(owner: &Arc<Thread>, address: usize) -> bool {
    let held = user::load_u32(address).is_ok_and(|word| word & TID == owner.tid() as u32);
    held && pid_table::is_living(owner)
}

impl Waiter {
    /// Wakes a waiter that no bucket holds any more.
    fn wake_with(self, slot: u32) {
        self.slot.store(slot, Release);
        sched::wake(self.thread);
    }
}
