//! Futexes: threads that wait for a word of memory to change.
//!
//! A thread enters its bucket first, and then reads the word, so a thread that changes the word and
//! wakes finds it there. Faults on program memory are not resolved while a bucket is locked.

extern crate alloc;

mod inherit;
mod pi;
mod pi_state;
mod robust;
mod waiters;

pub use inherit::reclassify;
pub use pi::{lock, release_locks, requeue_to_lock, unlock, wait_then_lock};
pub use pi_state::Awaited;
pub use robust::release_robust;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use super::clock::Deadline;
use super::sched::{self, state};
use super::timer::Timer;
use super::{Thread, current};
use crate::arch::{self, current_arc, time, uaccess, user_end};
use crate::errno::{Errno, Result};
use crate::mm::active::{self, Holder};
use crate::mm::fault::Access;
use crate::mm::heap::try_arc;
use crate::mm::user;
use crate::random;
use crate::sync::{Mutex, MutexGuard};
use pi_state::PiState;
use waiters::{Queue, Those, after, first_of};
use wakeup::Waiters;

/// All bits: FUTEX_BITSET_MATCH_ANY.
pub const ANY: u32 = u32::MAX;
/// FUTEX_WAITERS: the unlocking thread calls the kernel.
const WAITERS: u32 = 1 << 31;
/// FUTEX_OWNER_DIED
const OWNER_DIED: u32 = 1 << 30;
/// FUTEX_TID_MASK
const TID: u32 = OWNER_DIED - 1;

/// The identity of a word, which is the same for all processes that share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    /// Address of the waiter's address space, or number of the shared object in any space.
    of: usize,
    /// The address or offset in it, and the kind of the key in the lowest bits.
    at: usize,
}

/// The key of a private page, from a call that other processes could make too (FUT_OFF_MMSHARED).
/// It differs from that of a call with FUTEX_PRIVATE_FLAG.
const OF_SPACE: usize = 1;
/// The key of a shared object (FUT_OFF_INODE).
const OF_OBJECT: usize = 2;

impl Key {
    /// The key of the word at `address`, like Linux's `get_futex_key`. With `shared`, other
    /// processes may use it too; `access` is what the call does to the word.
    fn of(address: usize, shared: bool, access: Access) -> Result<Key> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        if address >= user_end() && !uaccess::takes_tagged(address, 4, user_end()) {
            return Err(Errno::EFAULT);
        }
        if shared {
            return Self::of_shared(address, access);
        }
        Ok(Key {
            of: active::id().ok_or(Errno::EFAULT)?,
            at: address,
        })
    }

    /// The key of a word in memory that other processes may share.
    fn of_shared(address: usize, access: Access) -> Result<Key> {
        // Linux faults the page in, too.
        if let Err(error) = user::load_u32(address) {
            Self::look_unchecked(address).ok_or(error)?;
        }
        let plain = uaccess::untagged(address);
        let of_object = |of, at| Key {
            of,
            at: at | OF_OBJECT,
        };
        match active::holder(plain, access).ok_or(Errno::EFAULT)? {
            Holder::Space => Ok(Key {
                of: active::id().ok_or(Errno::EFAULT)?,
                at: address | OF_SPACE,
            }),
            Holder::Object(of, at) => Ok(of_object(of, at)),
            Holder::Original(of, at) if !Self::is_copied(plain)? => Ok(of_object(of, at)),
            // Such a page never changes.
            Holder::Original(..) | Holder::Constant => Err(Errno::EFAULT),
        }
    }

    /// Whether the page of a file at an address is a copy.
    #[cold]
    fn is_copied(address: usize) -> Result<bool> {
        let space = active::own().ok_or(Errno::EFAULT)?;
        Ok(space.frame(address, Access::Read)?.meta().is_anonymous())
    }

    /// The same for an address whose tag need not match the memory's.
    #[cold]
    #[inline(never)]
    fn look_unchecked(address: usize) -> Option<()> {
        let (thread, plain) = (current(), uaccess::untagged(address));
        let checked = arch::tag_checks(&thread.arch) != 0 && address.is_multiple_of(4);
        let taken = plain == address || thread.tags_addresses();
        let space = thread.space().filter(|_| checked && taken)?;
        space.frame(plain, Access::Read).ok().map(drop)
    }

    fn bucket(self) -> usize {
        let [of, at] = [&MIX[0], &MIX[1]].map(|factor| factor.load(Relaxed));
        let mixed = self
            .of
            .wrapping_mul(of)
            .wrapping_add(self.at.wrapping_mul(at));
        mixed >> (usize::BITS - BUCKETS.ilog2())
    }
}

/// The factors for the parts of a key: random, so that programs cannot choose words that share a
/// bucket. They are never changed once there is a program.
static MIX: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Initialises the hash of words.
pub fn init() {
    for factor in &MIX {
        let mut bytes = [0; size_of::<usize>()];
        random::fill(&mut bytes);
        // Odd, so that no bit of a key is lost.
        factor.store(usize::from_ne_bytes(bytes) | 1, Relaxed);
    }
}

/// A waiting thread.
struct Waiter {
    key: Key,
    bits: u32,
    thread: Arc<Thread>,
    /// The index of this word among those that the thread waits for.
    index: u32,
    kind: Kind,
    slot: Arc<AtomicU32>,
}

impl Waiter {
    fn priority(&self) -> u32 {
        self.thread.sched.priority()
    }

    /// The lock that it waits for.
    fn lock(&self) -> Option<&Arc<PiState>> {
        match &self.kind {
            Kind::Lock(lock) => Some(lock),
            _ => None,
        }
    }

    /// Whether it waits for that lock.
    fn awaits(&self, lock: &Arc<PiState>) -> bool {
        self.lock().is_some_and(|own| Arc::ptr_eq(own, lock))
    }

    /// Whether it waits with any of `bits`.
    fn has(&self, bits: u32) -> bool {
        self.bits & bits != 0
    }

    /// Whether it waits to be woken.
    ///
    /// # Errors
    /// EINVAL.
    fn check(&self) -> Result<()> {
        match self.kind {
            Kind::Wake => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// What a thread waits for at a word.
enum Kind {
    /// To be woken.
    Wake,
    /// To be given the lock that is the word.
    Lock(Arc<PiState>),
    /// To be requeued to that word, and to be given the lock that is there.
    LockLater(Key),
}

/// The value of `Waiter::slot` until a thread wakes it; then the index.
const WAITING: u32 = u32::MAX;

const BUCKETS: usize = 256;

/// A bucket, in cache lines of its own.
#[repr(align(128))]
struct Bucket {
    waiters: Mutex<Queue>,
    count: Waiters,
}

static TABLE: [Bucket; BUCKETS] = [const {
    Bucket {
        waiters: Mutex::new(Queue::new()),
        count: Waiters::new(),
    }
}; BUCKETS];

impl Bucket {
    /// Removes the waiter with that slot; returns the kind of its wait, if it was there.
    fn remove(&self, slot: &Arc<AtomicU32>) -> Option<Kind> {
        let mut waiters = self.waiters.lock();
        let gone = waiters.remove(slot);
        self.count.set(waiters.len());
        if let Some(waiter) = gone.as_ref().filter(|waiter| waiter.lock().is_some()) {
            waiter.thread.waits_for(None);
        }
        drop(waiters);
        gone.map(|waiter| waiter.kind)
    }
}

/// A word to wait for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Its address.
    pub address: usize,
    /// The value that it must hold for the wait to begin.
    pub value: u32,
    /// The bit set: a wake-up must share one of these bits.
    pub bits: u32,
    /// Whether other processes may wake the thread.
    pub shared: bool,
}

/// Waits until one of `words` is woken; returns its index.
///
/// # Errors
/// EAGAIN (a word holds another value), ETIMEDOUT, ERESTARTSYS, EFAULT, EINVAL, ENOMEM.
pub fn wait(words: &[Wanted], deadline: Option<Deadline>) -> Result<usize> {
    if let [word] = words {
        return wait_at(
            words,
            &[Key::of(word.address, word.shared, Access::Read)?],
            deadline,
        );
    }
    let mut keys = Vec::new();
    keys.try_reserve_exact(words.len())
        .map_err(|_| Errno::ENOMEM)?;
    for word in words {
        keys.push(Key::of(word.address, word.shared, Access::Read)?);
    }
    wait_at(words, &keys, deadline)
}

/// Like [`wait`], with the words' keys.
fn wait_at(words: &[Wanted], keys: &[Key], deadline: Option<Deadline>) -> Result<usize> {
    let slot = try_arc(AtomicU32::new(WAITING))?;
    let mut entered = 0;
    let result = enter_and_wait(words, keys, &slot, deadline, &mut entered);
    sched::cancel();
    // The slot is set after the waiter was removed from its bucket: with a single word, none is
    // left.
    if entered == 1 && slot.load(Acquire) != WAITING {
        entered = 0;
    }
    let mut missing = 0;
    for key in &keys[..entered] {
        sched::cond_resched();
        // A waiter that is not in its bucket and was not woken was moved to another word.
        while TABLE[key.bucket()].remove(&slot).is_none() {
            if slot.load(Acquire) != WAITING {
                missing += 1;
                break;
            }
            if TABLE.iter().any(|bucket| bucket.remove(&slot).is_some()) {
                break;
            }
        }
    }
    // One waiter was removed to be woken. Others may have been moved before; none is moved from
    // then on.
    if missing > 1 {
        for bucket in &TABLE {
            while bucket.remove(&slot).is_some() {
                sched::cond_resched();
            }
        }
    }
    // Checked even if something else ended the wait, since the waker counted this thread.
    match slot.load(Acquire) {
        WAITING => result.map(|()| 0),
        index => Ok(index as usize),
    }
}

fn enter_and_wait(
    words: &[Wanted],
    keys: &[Key],
    slot: &Arc<AtomicU32>,
    deadline: Option<Deadline>,
    entered: &mut usize,
) -> Result<()> {
    sched::prepare(state::INTERRUPTIBLE);
    for (index, (word, &key)) in words.iter().zip(keys).enumerate() {
        let bucket = &TABLE[key.bucket()];
        let mut waiters = bucket.waiters.lock();
        // Built in place, without a copy on the stack.
        let waiter = || Waiter {
            key,
            bits: word.bits,
            thread: current_arc(),
            index: index as u32,
            kind: Kind::Wake,
            slot: slot.clone(),
        };
        if waiters.is_full() {
            waiters.push_among(waiter)?;
            bucket.count.set(waiters.len());
        } else {
            waiters.row.push_back(waiter());
            bucket.count.set(waiters.row.len());
        }
        if current().sched.is_real_time() {
            waiters.bring_forward();
        }
        drop(waiters);
        *entered += 1;
        bucket.count.entered();
        if user::load_u32(word.address)? != word.value {
            return Err(Errno::EAGAIN);
        }
    }
    sleep(slot, deadline)
}

/// Whether another thread has set `slot`.
///
/// # Errors
/// ERESTARTSYS.
fn is_woken(slot: &AtomicU32) -> Result<bool> {
    if slot.load(Acquire) != WAITING {
        return Ok(true);
    }
    if current().signal_due() {
        return Err(Errno::ERESTARTSYS);
    }
    Ok(false)
}

/// Sleeps, as announced, until another thread sets `slot`.
fn sleep(slot: &AtomicU32, deadline: Option<Deadline>) -> Result<()> {
    if let Some(deadline) = deadline {
        return sleep_until(slot, deadline, current().slack_ticks());
    }
    while !is_woken(slot)? {
        sched::schedule();
        sched::prepare(state::INTERRUPTIBLE);
    }
    Ok(())
}

#[inline(never)]
fn sleep_until(slot: &AtomicU32, deadline: Deadline, slack: u64) -> Result<()> {
    let _sleeper = deadline.follow()?;
    let mut timer: Option<(u64, Timer)> = None;
    loop {
        let due = deadline.ticks();
        if slot.load(Acquire) == WAITING && time::now_ticks() >= due {
            return Err(Errno::ETIMEDOUT);
        }
        if is_woken(slot)? {
            return Ok(());
        }
        if timer.as_ref().is_none_or(|(of, _)| *of != due) {
            timer = Some((due, Timer::wake(due, slack, current_arc())?));
        }
        sched::schedule();
        sched::prepare(state::INTERRUPTIBLE);
    }
}

/// Wakes up to `most` threads that wait for the word with any of `bits`; returns their number.
///
/// # Errors
/// EFAULT, EINVAL (also if a thread waits for a lock there).
pub fn wake(address: usize, most: usize, bits: u32, shared: bool) -> Result<usize> {
    let key = Key::of(address, shared, Access::Read)?;
    wake_key(key, most, bits)
}

fn wake_key(key: Key, most: usize, bits: u32) -> Result<usize> {
    let bucket = &TABLE[key.bucket()];
    if bucket.count.after_change() == 0 {
        return Ok(0);
    }
    let (mut woken, mut most) = (0, most);
    let waits = |waiter: &Waiter| waiter.key == key && waiter.has(bits);
    if most > 1 {
        // A woken thread that waits again before the next one is looked for must not be woken
        // twice.
        let waiters = bucket.waiters.lock();
        if waiters.many.is_empty() {
            most = most.min(waiters.row.iter().filter(|&waiter| waits(waiter)).count());
        }
    }
    while woken < most {
        let waiter = {
            let mut waiters = bucket.waiters.lock();
            let Some(at) = waiters.row.iter().position(waits) else {
                if waiters.many.is_empty() {
                    break;
                }
                drop(waiters);
                return Ok(woken + wake_of_many(bucket, key, most - woken, bits)?);
            };
            waiters.row[at].check()?;
            let waiter = waiters.row.remove(at);
            bucket.count.set(waiters.row.len());
            waiter
        };
        let Some(waiter) = waiter else { break };
        if waiter
            .slot
            .compare_exchange(WAITING, waiter.index, AcqRel, Relaxed)
            .is_ok()
        {
            woken += 1;
            sched::wake(waiter.thread);
        }
    }
    Ok(woken)
}

/// Wakes `most` of many waiters. Other threads run in between; those that arrive meanwhile, perhaps
/// to wait again, are not woken.
#[cold]
#[inline(never)]
fn wake_of_many(bucket: &Bucket, key: Key, most: usize, bits: u32) -> Result<usize> {
    let (mut count, mut from) = (0, first_of(key));
    let end = bucket.waiters.lock().many.next();
    while count < most {
        let waiter = {
            let mut waiters = bucket.waiters.lock();
            let Some((order, waiter)) = waiters.many.from(from) else {
                break;
            };
            from = after(order);
            let (_, _, number) = order;
            if number < end && waiter.has(bits) {
                waiter.check()?;
                let waiter = waiters.many.take(order);
                bucket.count.set(waiters.len());
                waiter
            } else {
                None
            }
        };
        if let Some(waiter) = waiter {
            let settled = (waiter.slot).compare_exchange(WAITING, waiter.index, AcqRel, Relaxed);
            if settled.is_ok() {
                count += 1;
                sched::wake(waiter.thread);
            }
        }
        sched::cond_resched();
    }
    Ok(count)
}

/// The number of waiters that are woken or moved at a time under the locks of both words: as many
/// as a list holds.
const AT_ONCE: usize = 128;
const _: () = assert!(AT_ONCE >= waiters::ROW);

/// Wakes up to `wakes` threads that wait for one word, and moves up to `moves` others to the
/// second; returns how many were woken or moved. The word is checked, and the first of them
/// handled, under the locks of both words, and so is each of the others: a thread that changes the
/// word and wakes, at one word and then at the other, finds each. Waiters that arrive meanwhile are
/// left alone.
///
/// # Errors
/// EFAULT, EINVAL, EAGAIN (the word does not hold `expected`), ENOMEM.
pub fn requeue(
    from: (usize, bool),
    to: (usize, bool),
    wakes: usize,
    moves: usize,
    expected: Option<u32>,
) -> Result<(usize, usize)> {
    let [source, target] = [from, to].map(|(at, shared)| Key::of(at, shared, Access::Read));
    let (source, target) = (source?, target?);
    let mut locked = loop {
        let locked = lock_both(source, target);
        let Some(expected) = expected else {
            break locked;
        };
        match user::load_present_u32(from.0) {
            Some(found) if found == expected => break locked,
            Some(_) => return Err(Errno::EAGAIN),
            // A fault cannot be resolved while a bucket is locked.
            None => drop(locked),
        }
        user::load_u32(from.0)?;
        sched::cond_resched_killable()?;
    };
    let mut transfer = Transfer {
        source,
        target,
        rest: locked.0.those_at(source),
        wakes,
        moves,
        woken: Vec::new(),
    };
    loop {
        let is_more = transfer.go_on(&mut locked);
        drop(locked);
        for waiter in mem::take(&mut transfer.woken) {
            sched::wake(waiter.thread);
            sched::cond_resched();
        }
        if !is_more? {
            return Ok((wakes - transfer.wakes, moves - transfer.moves));
        }
        sched::cond_resched();
        locked = lock_both(source, target);
    }
}

/// The waiters at one word that are woken, or moved to another.
struct Transfer {
    source: Key,
    target: Key,
    /// The waiters that are left.
    rest: Those,
    /// How many are still to be woken, and how many to be moved after that.
    wakes: usize,
    moves: usize,
    /// The waiters that were removed, for the caller to wake.
    woken: Vec<Waiter>,
}

impl Transfer {
    /// Handles some waiters; returns whether there may be more.
    fn go_on(&mut self, (own, others): &mut (Locked, Option<Locked>)) -> Result<bool> {
        let most = own.len().min(AT_ONCE);
        let room = self.woken.try_reserve_exact(most.min(self.wakes));
        room.map_err(|_| Errno::ENOMEM)?;
        if self.source != self.target {
            let to = others.as_deref_mut().unwrap_or(own);
            to.reserve(most.min(self.moves))?;
        }
        if self.rest.in_row {
            // They may be too many for a list now.
            self.rest = own.those_at(self.source);
        }
        let mut is_more = Ok(true);
        for _ in 0..AT_ONCE {
            is_more = self.take_next(own, others.as_deref_mut());
            if is_more != Ok(true) {
                break;
            }
        }
        let [from, to] = [self.source, self.target].map(|key| &TABLE[key.bucket()].count);
        match others {
            Some(others) => from.moved(own.len(), to, others.len()),
            None => from.set(own.len()),
        }
        is_more
    }

    /// Wakes or moves the next waiter; returns whether there was one.
    fn take_next(&mut self, own: &mut Queue, others: Option<&mut Queue>) -> Result<bool> {
        if self.wakes == 0 && self.moves == 0 {
            return Ok(false);
        }
        let Some(next) = self.rest.clone().next(own) else {
            return Ok(false);
        };
        next.check()?;
        if self.wakes == 0 && self.source == self.target {
            self.moves -= usize::from(self.rest.next(own).is_some());
            return Ok(true);
        }
        let Some(mut waiter) = self.rest.take(own) else {
            return Ok(false);
        };
        // A waiter that was woken through another word meanwhile is about to leave.
        let slot = &waiter.slot;
        if self.wakes > 0 {
            let settled = slot.compare_exchange(WAITING, waiter.index, AcqRel, Relaxed);
            if settled.is_ok() {
                self.wakes -= 1;
                self.woken.push(waiter);
            }
        } else if slot.load(Acquire) == WAITING {
            self.moves -= 1;
            waiter.key = self.target;
            let to = others.unwrap_or(own);
            to.push(waiter)?;
            to.bring_forward();
        }
        Ok(true)
    }
}

type Locked = MutexGuard<'static, Queue>;

/// Locks the waiters of both keys, in the order of their buckets; if both have the same bucket, the
/// first lock covers both.
fn lock_both(one: Key, other: Key) -> (Locked, Option<Locked>) {
    let [lock, next] = [one, other].map(|key| &TABLE[key.bucket()].waiters);
    match one.bucket().cmp(&other.bucket()) {
        Ordering::Less => {
            let first = lock.lock();
            (first, Some(next.lock()))
        }
        Ordering::Equal => (lock.lock(), None),
        Ordering::Greater => {
            let second = next.lock();
            (lock.lock(), Some(second))
        }
    }
}

/// FUTEX_WAKE_OP: changes the second word, wakes waiters of the first, and waiters of the second if
/// its old value meets the comparison.
///
/// # Errors
/// EFAULT, EINVAL, ENOSYS (no such operation).
pub fn wake_op(
    first: (usize, bool),
    second: (usize, bool),
    wakes: usize,
    more: usize,
    operation: u32,
) -> Result<usize> {
    let one = Key::of(first.0, first.1, Access::Read)?;
    let two = Key::of(second.0, second.1, Access::Write)?;
    let sign_extend = |value: u32| ((value << 20) as i32 >> 20) as u32;
    let (kind, compare) = (operation >> 28 & 7, operation >> 24 & 15);
    let mut argument = sign_extend(operation >> 12 & 0xfff);
    if operation >> 31 != 0 {
        argument = 1u32.wrapping_shl(argument & 31);
    }
    let expected = sign_extend(operation & 0xfff);
    let mut old = user::load_u32(second.0)?;
    loop {
        let new = match kind {
            0 => argument,
            1 => old.wrapping_add(argument),
            2 => old | argument,
            3 => old & !argument,
            4 => old ^ argument,
            _ => return Err(Errno::ENOSYS),
        };
        let found = user::cmpxchg_u32(second.0, old, new)?;
        if found == old {
            break;
        }
        // Another program may keep changing the word.
        sched::cond_resched_killable()?;
        old = found;
    }
    let (old, expected) = (old as i32, expected as i32);
    let holds = match compare {
        0 => old == expected,
        1 => old != expected,
        2 => old < expected,
        3 => old <= expected,
        4 => old > expected,
        5 => old >= expected,
        _ => return Err(Errno::ENOSYS),
    };
    let woken = wake_key(one, wakes, ANY)?;
    Ok(woken + if holds { wake_key(two, more, ANY)? } else { 0 })
}
