//! Priority inheritance: who has a lock that real-time threads wait for runs at the highest of their priorities, and so does
//! who has a lock that it waits for in turn.
//!
//! What a thread inherits is always found anew from those who wait; whoever changes who waits for whom lets it be found after
//! the change.

use alloc::sync::Arc;
use core::sync::atomic::{Ordering::*, fence};

use super::{Key, Kind, TABLE, pi};
use crate::arch::current_arc;
use crate::sync::{Mutex, Rank};
use crate::task::sched::{self, Class};
use crate::task::{Thread, current, tree};

/// Guards what threads inherit and how they are scheduled for it, and that no circle of waits begins.
pub static CHAINS: Mutex<()> = Mutex::ranked(Rank::Chains, ());

/// A chain of waits that is longer is taken for a circle, as on Linux.
const LONGEST: usize = 1024;

/// Who has a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    tid: i32,
    /// Its address: another thread may have the number later.
    address: usize,
}

impl Owner {
    /// That `thread`.
    pub fn new(thread: &Thread) -> Self {
        Owner {
            tid: thread.tid(),
            address: core::ptr::from_ref(thread).addr(),
        }
    }

    fn thread(self) -> Option<Arc<Thread>> {
        tree::thread(self.tid).filter(|thread| Owner::new(thread) == self)
    }
}

/// Who has the lock that `thread` waits for.
fn awaited(thread: &Thread) -> Option<Arc<Thread>> {
    thread.awaited_owner()?.thread()
}

/// The highest priority of those who wait for locks of `thread`, 0 where none is of a real-time policy.
fn highest_waiting(thread: &Thread) -> u32 {
    let own = Kind::Lock(Owner::new(thread));
    let used = TABLE
        .iter()
        .filter(|bucket| bucket.count.load(Relaxed) != 0);
    let highest = used.map(|bucket| {
        let waiters = bucket.waiters.lock();
        let waiting = waiters.iter().filter(|waiter| waiter.kind == own);
        let priorities = waiting.map(|waiter| waiter.thread.sched.priority());
        priorities.max().unwrap_or(0)
    });
    highest.max().unwrap_or(0)
}

/// Whether the current thread would wait for itself if it waited for `owner`. [`CHAINS`] is held until it does.
pub fn closes_circle(owner: &Arc<Thread>) -> bool {
    let mut owner = owner.clone();
    for _ in 0..LONGEST {
        if core::ptr::eq(&*owner, current()) {
            return true;
        }
        match pi::others_wait().then(|| awaited(&owner)).flatten() {
            Some(next) => owner = next,
            None => return false,
        }
    }
    true
}

fn classify(thread: &Thread) {
    let (policy, priority) = thread.policy();
    let class = Class::new(policy, priority, thread.nice());
    sched::classify(thread, class.at_least(thread.sched.real_time.inherited()));
}

/// Lets `owner`, and who it waits for, inherit from those who wait. [`CHAINS`] is held.
fn inherit(mut owner: Arc<Thread>) {
    loop {
        let highest = highest_waiting(&owner);
        let state = &owner.sched.real_time;
        if state.inherited() == highest {
            return;
        }
        state.set_inherited(highest);
        classify(&owner);
        // Who begins to wait is in its bucket before it looks at its own priority.
        fence(SeqCst);
        match awaited(&owner) {
            Some(next) => owner = next,
            None => return,
        }
    }
}

/// The policy, the priority or the nice value of a thread is another.
pub fn reclassify(thread: &Thread) {
    let _held = CHAINS.lock();
    classify(thread);
    if pi::others_wait()
        && let Some(owner) = awaited(thread)
        // Else there is nothing to inherit, and nothing to look for among all who wait.
        && (thread.sched.is_real_time() || owner.sched.real_time.inherited() != 0)
    {
        inherit(owner);
    }
}

/// `thread` waits for a lock now.
pub fn waits(thread: &Thread) {
    if thread.sched.is_real_time() {
        let _held = CHAINS.lock();
        if let Some(owner) = awaited(thread) {
            inherit(owner);
        }
    }
}

/// Somebody waits no longer for a lock of `owner`.
pub fn left(owner: Owner) {
    if let Some(owner) = owner.thread() {
        let _held = CHAINS.lock();
        if owner.sched.real_time.inherited() != 0 {
            inherit(owner);
        }
    }
}

/// The current thread gave the lock `key` to `next`: who waits for it waits for that now.
pub fn handed_over(key: Key, next: &Arc<Thread>) {
    let _held = CHAINS.lock();
    pi::wait_for(&mut TABLE[key.bucket()].waiters.lock(), key, next);
    if current().sched.real_time.inherited() != 0 {
        inherit(next.clone());
        inherit(current_arc());
    }
}
