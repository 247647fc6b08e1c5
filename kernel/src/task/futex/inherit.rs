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

/// A lock that a real-time thread waits for.
pub struct Donor {
    /// The owner of the lock, by address.
    heir: usize,
    /// The highest priority of its waiters.
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

/// The locks. This lock protects inherited priorities and the scheduling that follows from them,
/// and prevents cycles of waits.
pub static CHAINS: Mutex<Donors> = Mutex::new(Tree::new());

/// By owner, the highest priority first.
pub type Donors = Tree<Donor>;

/// A longer chain of waits is taken for a cycle, as on Linux.
const LONGEST: usize = 1024;

/// The owner of the lock that `thread` waits for.
fn lock_owner(thread: &Thread) -> Option<Arc<Thread>> {
    thread.awaited()?.lock.owner().thread()
}

fn address(thread: &Thread) -> usize {
    core::ptr::from_ref(thread).addr()
}

/// The highest priority of the waiters for locks of `thread`, 0 if none has a real-time policy.
fn highest_waiting(donors: &Donors, thread: &Thread) -> u32 {
    let own = address(thread);
    let first = donors.from(&(own, Reverse(u32::MAX), 0));
    first
        .filter(|donor| donor.heir == own)
        .map_or(0, |donor| donor.priority)
}

/// Moves a lock to its position for its present owner and first waiter; returns the owner that
/// inherited from it before, and the one that does now. Without memory no owner inherits.
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

/// Updates who inherits from a lock, and what, after its owner or its first waiter has changed.
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
/// until it waits.
pub fn closes_circle(owner: &Arc<Thread>) -> bool {
    last_of(owner).is_none_or(|last| core::ptr::eq(&*last, &*current()))
}

/// The last thread in the chain of waits that begins at `owner`: `owner` itself if it waits for no
/// lock; `None` if the chain is a cycle. The answer holds as long as [`CHAINS`] is held.
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

/// Updates the inherited priority of `owner`, and of the owners that it waits for in turn.
fn inherit(donors: &mut Donors, mut owner: Arc<Thread>) {
    loop {
        let highest = highest_waiting(donors, &owner);
        let state = &owner.sched.real_time;
        if state.inherited() == highest {
            return;
        }
        state.set_inherited(highest);
        classify(&owner);
        // A waiter is in its bucket before it reads its own priority.
        fence(SeqCst);
        let Some(awaited) = owner.awaited() else {
            return;
        };
        awaited.reposition();
        let [before, now] = place(donors, &awaited.lock);
        // A thread that releases the lock just now updates its own priority.
        match now.or(before).and_then(Owner::thread) {
            Some(next) => owner = next,
            None => return,
        }
    }
}

/// Applies a change of a thread's policy, priority or nice value.
pub fn reclassify(thread: &Thread) {
    let mut donors = CHAINS.lock();
    classify(thread);
    // A waiter is in its bucket before it reads its own priority.
    fence(SeqCst);
    if pi::others_wait()
        && let Some(awaited) = thread.awaited()
    {
        awaited.reposition();
        update(&mut donors, &awaited.lock);
    }
}

/// `thread` begins to wait for a lock.
pub fn waits(thread: &Thread) {
    if thread.sched.is_real_time() {
        let mut donors = CHAINS.lock();
        if let Some(awaited) = thread.awaited() {
            awaited.reposition();
            update(&mut donors, &awaited.lock);
        }
    }
}

/// A thread no longer waits for `lock`.
pub fn left(lock: &Arc<PiState>) {
    // With the bucket locked: either the thread was not the first waiter, or this code runs.
    if lock.given().is_some() {
        update(&mut CHAINS.lock(), lock);
    }
}

/// The current thread handed `lock` to `next`, for which its waiters now wait. [`CHAINS`] is shared
/// by all threads, and is not taken if no priority is inherited.
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
