//! Priority inheritance: the owner of a lock that real-time threads wait for runs at the highest of
//! their priorities, and so does the owner of a lock that it waits for in turn.
//!
//! Each waiter of a real-time policy stands in a tree, by whose lock it waits for and by its
//! priority. Code that changes the lock that a waiter waits for repositions the waiter after the
//! change.

use alloc::sync::Arc;
use core::cmp::Reverse;
use core::sync::atomic::{Ordering::*, fence};

use tree::{Member, Tree};

use super::{Key, TABLE, pi};
use crate::arch::current_arc;
use crate::sync::Mutex;
use crate::task::sched::{self, Class};
use crate::task::{self, Thread, current};

/// A thread of a real-time policy that waits for another's lock.
pub struct Donor {
    /// The thread that has the lock, by address.
    heir: usize,
    priority: u32,
    /// Its own address.
    thread: usize,
}

impl Member for Donor {
    type Key = (usize, Reverse<u32>, usize);
    type Sum = ();

    fn key(&self) -> Self::Key {
        (self.heir, Reverse(self.priority), self.thread)
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

/// The waiters. Guards inherited priorities and the scheduling that follows from them, and keeps
/// circles of waits from forming.
pub static CHAINS: Mutex<Donors> = Mutex::new(Tree::new());

/// By heir, the highest priority first.
pub type Donors = Tree<Donor>;

/// A chain of waits that is longer is taken for a circle, as on Linux.
const LONGEST: usize = 1024;

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    tid: i32,
    /// Its address: another thread may have the number later.
    address: usize,
}

impl Owner {
    /// `thread`, as an owner.
    pub fn new(thread: &Thread) -> Self {
        Owner {
            tid: thread.tid(),
            address: core::ptr::from_ref(thread).addr(),
        }
    }

    fn thread(self) -> Option<Arc<Thread>> {
        task::pid_table::thread(self.tid).filter(|thread| Owner::new(thread) == self)
    }
}

/// The owner of the lock that `thread` waits for.
fn lock_owner(thread: &Thread) -> Option<Arc<Thread>> {
    thread.awaited_owner()?.thread()
}

fn address(thread: &Thread) -> usize {
    core::ptr::from_ref(thread).addr()
}

/// The highest priority of those who wait for locks of `thread`, 0 where none is of a real-time
/// policy.
fn highest_waiting(donors: &Donors, thread: &Thread) -> u32 {
    let own = address(thread);
    let first = donors.from(&(own, Reverse(u32::MAX), 0));
    first
        .filter(|donor| donor.heir == own)
        .map_or(0, |donor| donor.priority)
}

/// Puts `thread` in its place by the lock that it waits for and its priority now. Without memory it
/// inherits nothing.
pub fn place(donors: &mut Donors, thread: &Thread) {
    let state = &thread.sched.real_time;
    let heir = thread.awaited_owner().map_or(0, |owner| owner.address);
    let now = match thread.sched.priority() {
        0 => (0, 0),
        priority if heir != 0 => (heir, priority),
        _ => (0, 0),
    };
    let before = state.given();
    if now == before {
        return;
    }
    let donor = |(heir, priority)| Donor {
        heir,
        priority,
        thread: address(thread),
    };
    if before.0 != 0 {
        donors.remove(&donor(before).key());
    }
    let placed = now.0 == 0 || donors.insert(donor(now)).is_ok();
    state.set_given(if placed { now } else { (0, 0) });
}

/// Whether the current thread would wait for itself if it waited for `owner`. [`CHAINS`] is held
/// until it does.
pub fn closes_circle(owner: &Arc<Thread>) -> bool {
    last_of(owner).is_none_or(|last| core::ptr::eq(&*last, &*current()))
}

/// The thread for which `owner` waits in the end: itself, where it waits for no lock; none where
/// they go round in a circle. [`CHAINS`] is held as long as that counts.
pub fn last_of(owner: &Arc<Thread>) -> Option<Arc<Thread>> {
    let mut owner = owner.clone();
    for _ in 0..LONGEST {
        match pi::others_wait().then(|| lock_owner(&owner)).flatten() {
            Some(next) => owner = next,
            None => return Some(owner),
        }
    }
    None
}

fn classify(thread: &Thread) {
    let (policy, priority) = thread.policy();
    let class = Class::new(policy, priority, thread.nice());
    sched::classify(thread, class.at_least(thread.sched.real_time.inherited()));
}

/// Lets `owner`, and the owners that it waits for in turn, inherit from the waiters.
fn inherit(donors: &mut Donors, mut owner: Arc<Thread>) {
    loop {
        let highest = highest_waiting(donors, &owner);
        let state = &owner.sched.real_time;
        if state.inherited() == highest {
            return;
        }
        state.set_inherited(highest);
        classify(&owner);
        // A waiter is in its bucket before it looks at its own priority.
        fence(SeqCst);
        place(donors, &owner);
        match lock_owner(&owner) {
            Some(next) => owner = next,
            None => return,
        }
    }
}

/// The policy, the priority or the nice value of a thread is another.
pub fn reclassify(thread: &Thread) {
    let mut donors = CHAINS.lock();
    classify(thread);
    // See `passes_on`.
    fence(SeqCst);
    if pi::others_wait()
        && let Some(owner) = lock_owner(thread)
    {
        place(&mut donors, thread);
        inherit(&mut donors, owner);
    }
}

/// `thread` waits for a lock now.
pub fn waits(thread: &Thread) {
    if thread.sched.is_real_time() {
        let mut donors = CHAINS.lock();
        if let Some(owner) = lock_owner(thread) {
            place(&mut donors, thread);
            inherit(&mut donors, owner);
        }
    }
}

/// `thread` waits no longer for a lock of `owner`.
pub fn left(thread: &Thread, owner: Owner) {
    let mut donors = CHAINS.lock();
    place(&mut donors, thread);
    if let Some(owner) = owner.thread()
        && owner.sched.real_time.inherited() != 0
    {
        inherit(&mut donors, owner);
    }
}

/// The current thread gave the lock `key` to `next`: its waiters wait for that now.
pub fn handed_over(key: Key, next: &Arc<Thread>) {
    if !passes_on(key, next) {
        return;
    }
    let mut donors = CHAINS.lock();
    place(&mut donors, next);
    {
        let waiters = TABLE[key.bucket()].waiters.lock();
        pi::wait_for(&waiters, key, next);
        let waiting = waiters.at(key);
        waiting.for_each(|waiter| place(&mut donors, &waiter.thread));
    }
    if current().sched.real_time.inherited() != 0 {
        inherit(&mut donors, next.clone());
        inherit(&mut donors, current_arc());
    }
}

/// Lets the waiters for the lock `key` wait for `next`; whether any priority may have to pass from
/// one to another. [`CHAINS`] is all threads', and thousands may wait for the one lock: where none
/// is of a real-time policy they do not hold up others'.
fn passes_on(key: Key, next: &Thread) -> bool {
    let gives =
        |thread: &Thread| thread.sched.is_real_time() || thread.sched.real_time.given() != (0, 0);
    let waiters = TABLE[key.bucket()].waiters.lock();
    pi::wait_for(&waiters, key, next);
    // A thread whose policy changes is either seen here to give, or finds the new owner.
    fence(SeqCst);
    let inherits = current().sched.real_time.inherited() != 0;
    inherits || gives(next) || waiters.at(key).any(|waiter| gives(&waiter.thread))
}
