//! Futexes that are locks which the kernel hands on (PI futexes): the word holds the number of the
//! thread that has the lock.
//!
//! A thread that waits enters its bucket first, and then looks whether the lock is still held: the
//! thread that gives the lock up finds it there, or it finds the word changed. Code that removes a
//! waiter from its bucket sets the waiter's slot.

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
        let held = match take(address)? {
            Taken::Yes => return Ok(()),
            Taken::Held(held) => held,
        };
        let Some(owner) = owner_of(address, held)? else {
            pause()?;
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

/// Gives a lock that nobody has to the current thread; else says in the word that somebody waits.
fn take(address: usize) -> Result<Taken> {
    let tid = current().tid() as u32;
    loop {
        let old = user::load_u32(address)?;
        if old & TID == tid {
            return Err(Errno::EDEADLK);
        }
        let new = match old & TID {
            0 => old & (OWNER_DIED | WAITERS) | tid,
            _ => old | WAITERS,
        };
        // Also where nothing changes: the word of a lock can be written.
        if user::cmpxchg_u32(address, old, new)? == old {
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

/// What a thread enters a bucket for.
enum Wants {
    /// The lock that the word is, which this thread has, unless others wait who know better.
    Lock(Owner),
    /// To be moved to that word.
    LockLater(Key),
}

impl Place {
    fn enter(key: Key, wants: Wants) -> Result<Self> {
        let slot = try_arc(AtomicU32::new(WAITING))?;
        let bucket = &TABLE[key.bucket()];
        let mut waiters = bucket.waiters.lock();
        waiters.reserve(1)?;
        let kind = match wants {
            Wants::LockLater(target) => Kind::LockLater(target),
            Wants::Lock(owner) => {
                let lock = lock_at(&waiters, key, owner)?;
                current().waits_for(Some(Awaited {
                    lock: lock.clone(),
                    slot: slot.clone(),
                }));
                Kind::Lock(lock)
            }
        };
        waiters.push(Waiter {
            key,
            bits: super::ANY,
            thread: current_arc(),
            index: OWNED,
            kind,
            slot: slot.clone(),
        })?;
        waiters.bring_forward();
        bucket.count.set(waiters.len());
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
        owner.sched.real_time.set_lender();
        Place::enter(key, Wants::Lock(Owner::new(owner)))?
    };
    inherit::waits(&current());
    sched::prepare(state::INTERRUPTIBLE);
    let result = match user::load_u32(address) {
        Ok(word) if (word | OWNER_DIED) == (held | OWNER_DIED) && pid_table::is_living(owner) => {
            // Of all waits with a deadline, only this one has no slack on Linux.
            match deadline {
                Some(deadline) => super::sleep_until(&place.slot, deadline, 0),
                None => sleep(&place.slot, None),
            }
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
    /// Takes out the waiter of the highest priority that waited longest for the lock `key`, or for
    /// one of `owner`; the others wait for that thread from now on.
    fn next_owner(&self, wanted: Wanted) -> Option<(Waiter, Arc<PiState>)> {
        let mut waiters = self.waiters.lock();
        let (slot, lock) = match wanted {
            Wanted::At(key) => {
                let top = waiters.top(key)?;
                (top.slot.clone(), top.lock()?.clone())
            }
            Wanted::Of(owner) => {
                let is_it = |waiter: &&Waiter| {
                    let lock = waiter.lock();
                    lock.is_some_and(|lock| lock.owner() == owner)
                };
                let any = waiters.all().find(is_it)?;
                let lock = any.lock()?.clone();
                let top = waiters.top(lock.key).filter(|top| top.awaits(&lock));
                (top.unwrap_or(any).slot.clone(), lock)
            }
        };
        let next = waiters.remove(&slot)?;
        next.thread.waits_for(None);
        next.thread.sched.real_time.set_lender();
        lock.set_owner(Owner::new(&next.thread));
        self.count.set(waiters.len());
        Some((next, lock))
    }
}

impl Bucket {
    /// Writes into the word, if it still is `old`, that nobody has the lock, unless somebody waits
    /// for it; whether it did. None where the word's page is absent, or cannot be written yet.
    fn free(&self, key: Key, address: usize, old: u32) -> Option<bool> {
        // Who enters after this finds the word changed.
        let waiters = self.waiters.lock();
        let is_free = waiters.top(key).is_none();
        match is_free {
            true => user::cmpxchg_present_u32(address, old, 0).map(|found| found == old),
            false => Some(false),
        }
    }
}

/// The lock that is handed on.
enum Wanted {
    /// The one that the word is.
    At(Key),
    /// Any of a thread.
    Of(Owner),
}

/// The lock that others at `key` wait for, or else one of `owner`. ENOMEM.
fn lock_at(waiters: &Queue, key: Key, owner: Owner) -> Result<Arc<PiState>> {
    match waiters.top(key).and_then(Waiter::lock) {
        Some(lock) => Ok(lock.clone()),
        None => try_arc(PiState::new(key, owner)),
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
        let bucket = &TABLE[key.bucket()];
        if let Some((next, lock)) = bucket.next_owner(Wanted::At(key)) {
            return hand_over(address, next, &lock);
        }
        match bucket.free(key, address, old) {
            Some(true) => return Ok(()),
            Some(false) => {}
            // No fault can be resolved with a bucket locked.
            None => _ = user::cmpxchg_u32(address, old, old)?,
        }
        pause()?;
    }
}

/// Writes `next` into the word as the owner, and wakes it; where that fails it tries for itself.
fn hand_over(address: usize, next: Waiter, lock: &Arc<PiState>) -> Result<()> {
    let own = current().tid() as u32;
    let new = next.thread.tid() as u32 | WAITERS;
    let written = loop {
        let old = match user::load_u32(address) {
            Ok(old) if old & TID == own => old,
            // A program wrote into a word that is not its to change.
            Ok(_) => break Err(Errno::EINVAL),
            Err(error) => break Err(error),
        };
        match user::cmpxchg_u32(address, old, new) {
            Ok(found) if found != old => sched::cond_resched(),
            other => break other.map(|_| ()),
        }
    };
    // Waiters that came meanwhile found the old owner in the word.
    inherit::handed_over(lock, &next.thread);
    next.wake_with(if written.is_ok() { OWNED } else { RETRY });
    written
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
        while let Some((next, lock)) = bucket.next_owner(Wanted::Of(own)) {
            let tid = current().tid() as u32;
            inherit::handed_over(&lock, &next.thread);
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
    let key = Key::of(address, shared, Access::Read)?;
    let target = Key::of(second, shared, Access::Write)?;
    if key == target {
        return Err(Errno::EINVAL);
    }
    let place = Place::enter(key, Wants::LockLater(target))?;
    sched::prepare(state::INTERRUPTIBLE);
    let result = match user::load_u32(address) {
        Ok(word) if word == value => sleep(&place.slot, deadline),
        Ok(_) => Err(Errno::EAGAIN),
        Err(error) => Err(error),
    };
    sched::cancel();
    let was_moved = !TABLE[key.bucket()].holds(&place.slot);
    match outcome(place.leave(key), second, result) {
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
            Attempt::Changed => {}
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
        let Some(word) = user::load_present_u32(self.to) else {
            return Ok(Attempt::Absent);
        };
        let tid = first.tid() as u32;
        if word & TID == tid {
            return Err(Errno::EDEADLK);
        }
        moved.owner = match word & TID {
            0 => Some(first),
            held => pid_table::thread(held as i32),
        };
        let Some(owner) = &moved.owner else {
            return match user::load_present_u32(self.to) {
                Some(found) if found == word => Err(Errno::ESRCH),
                _ => Ok(Attempt::Changed),
            };
        };
        let waiters = others.as_deref().unwrap_or(&own);
        let lock = lock_at(waiters, self.target, Owner::new(owner))?;
        let is_free = word & TID == 0;
        let new = match is_free {
            true => word & OWNER_DIED | tid | WAITERS,
            false => word | WAITERS,
        };
        match user::cmpxchg_present_u32(self.to, word, new) {
            None => return Ok(Attempt::Absent),
            Some(found) if found != word => return Ok(Attempt::Changed),
            Some(_) => {}
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
                Some(others) => others.push(waiter)?,
                None => own.push(waiter)?,
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
