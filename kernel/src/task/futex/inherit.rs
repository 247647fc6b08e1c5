//! Priority inheritance: the owner of a lock that real-time threads wait for runs at the highest of
//! their priorities, and so does the owner of a lock that it waits for in turn.
//!
//! The first waiter of each lock, if it has a real-time policy, is in a tree ordered by the lock's
//! owner and by priority (Linux's `pi_waiters`).

use alloc::sync::Arc;
use core::cmp::Reverse;
use core::sync::atomic::{Ordering::*, fence};

use tree::{Member, Tree};

use super::pi;
use super::pi_state::{Owner, PiState};
use crate::arch::current_arc;
use crate::sync::Mutex;
use crate::task::sched::{self, Class};
use crate::task::{Thread, current};

/// A lock that a thread of a real-time policy waits for.
pub struct Donor {
    /// The thread that has the lock, by address.
    heir: usize,
    /// The highest priority of those who wait for it.
    priority: u32,
    /// The lock, by address.
    lock: usize,
}

impl Member for Donor {
    type Key = (usize, Reverse<u32>, usize);
    type Sum = ();

    fn key(&self) -> Self::Key {
        (self.heir, Reverse(self.priority), self.lock)
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

/// The locks. Guards inherited priorities and the scheduling that follows from them, and keeps
/// circles of waits from forming.
pub static CHAINS: Mutex<Donors> = Mutex::new(Tree::new());

/// By heir, the highest priority first.
pub type Donors = Tree<Donor>;

/// A chain of waits that is longer is taken for a circle, as on Linux.
const LONGEST: usize = 1024;

/// The owner of the lock that `thread` waits for.
fn lock_owner(thread: &Thread) -> Option<Arc<Thread>> {
    thread.awaited()?.lock.owner().thread()
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

/// Puts a lock in its place by its owner and its first waiter now; returns the owner that inherited
/// from it, and the one that does now. Without memory nobody inherits.
fn place(donors: &mut Donors, lock: &Arc<PiState>) -> [Option<Owner>; 2] {
    let donor = |(heir, priority): (Owner, u32)| Donor {
        heir: heir.address,
        priority,
        lock: Arc::as_ptr(lock).addr(),
    };
    lock.give(|given, now| {
        let before = *given;
        if before != now {
            if let Some(before) = before {
                donors.remove(&donor(before).key());
            }
            *given = now.filter(|now| donors.insert(donor(*now)).is_ok());
        }
        [before, *given].map(|given| given.map(|(owner, _)| owner))
    })
}

/// The owner or the first waiter of a lock is another: who inherits from it, and what.
fn update(donors: &mut Donors, lock: &Arc<PiState>) {
    let [before, now] = place(donors, lock);
    let before = before.filter(|before| Some(*before) != now);
    for owner in [before, now].into_iter().flatten() {
        if let Some(owner) = owner.thread() {
            inherit(donors, owner);
        }
    }
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
        let Some(awaited) = owner.awaited() else {
            return;
        };
        awaited.reposition();
        let [before, now] = place(donors, &awaited.lock);
        // Whoever gives the lock up just now looks for itself.
        match now.or(before).and_then(Owner::thread) {
            Some(next) => owner = next,
            None => return,
        }
    }
}

/// The policy, the priority or the nice value of a thread is another.
pub fn reclassify(thread: &Thread) {
    let mut donors = CHAINS.lock();
    classify(thread);
    // A waiter is in its bucket before it looks at its own priority.
    fence(SeqCst);
    if pi::others_wait()
        && let Some(awaited) = thread.awaited()
    {
        awaited.reposition();
        update(&mut donors, &awaited.lock);
    }
}

/// `thread` waits for a lock now.
pub fn waits(thread: &Thread) {
    if thread.sched.is_real_time() {
        let mut donors = CHAINS.lock();
        if let Some(awaited) = thread.awaited() {
            awaited.reposition();
            update(&mut donors, &awaited.lock);
        }
    }
}

/// A thread waits for `lock` no longer.
pub fn left(lock: &Arc<PiState>) {
    // With the bucket locked the thread was not its first waiter, or is here.
    if lock.given().is_some() {
        update(&mut CHAINS.lock(), lock);
    }
}

/// The current thread gave `lock` to `next`: its waiters wait for that now. [`CHAINS`] is all
/// threads', who are not held up where no priority passes from one to another.
pub fn handed_over(lock: &Arc<PiState>, next: &Arc<Thread>) {
    let inherits = current().sched.real_time.inherited() != 0;
    if !inherits && lock.give(|given, now| given.is_none() && now.is_none()) {
        return;
    }
    let mut donors = CHAINS.lock();
    update(&mut donors, lock);
    if inherits {
        inherit(&mut donors, next.clone());
        inherit(&mut donors, current_arc());
    }
}
