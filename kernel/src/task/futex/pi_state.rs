//! A lock that threads wait for (Linux's `struct futex_pi_state`): its owner, who is one for all of
//! them, so that handing the lock on costs the same however many wait.

use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;

use super::{Key, TABLE, Waiter};
use crate::sync::Mutex;
use crate::task::{self, Thread};

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    tid: i32,
    /// Its address: another thread may have the number later.
    pub address: usize,
}

impl Owner {
    /// `thread`, as an owner.
    pub fn new(thread: &Thread) -> Self {
        Owner {
            tid: thread.tid(),
            address: core::ptr::from_ref(thread).addr(),
        }
    }

    /// The thread, if it still lives.
    pub fn thread(self) -> Option<Arc<Thread>> {
        task::pid_table::thread(self.tid).filter(|thread| Owner::new(thread) == self)
    }
}

/// A lock that threads wait for. It changes with its bucket locked.
pub struct PiState {
    /// Its word.
    pub(super) key: Key,
    owner: Mutex<Owner>,
    /// The owner that inherits from the first waiter, and the priority that it inherits.
    given: Mutex<Option<(Owner, u32)>>,
}

impl PiState {
    /// The lock `key`, which `owner` has.
    pub(super) fn new(key: Key, owner: Owner) -> Self {
        PiState {
            key,
            owner: Mutex::new(owner),
            given: Mutex::new(None),
        }
    }

    /// Who has it.
    pub fn owner(&self) -> Owner {
        *self.owner.lock()
    }

    /// It is another's.
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.lock() = owner;
    }

    /// The owner that inherits from the first waiter, and the priority that it inherits.
    pub fn given(&self) -> Option<(Owner, u32)> {
        *self.given.lock()
    }

    /// Lets `change` set what is inherited, of what is and what is to be: the owner, and the
    /// priority of the first waiter, if that is of a real-time policy.
    pub fn give<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Option<(Owner, u32)>, Option<(Owner, u32)>) -> T,
    ) -> T {
        let waiters = TABLE[self.key.bucket()].waiters.lock();
        let first = waiters.top(self.key).filter(|first| first.awaits(self));
        let priority = first.map_or(0, Waiter::priority);
        let now = (priority != 0).then(|| (self.owner(), priority));
        change(&mut self.given.lock(), now)
    }
}

/// The lock that a thread waits for, and its place there.
#[derive(Clone)]
pub struct Awaited {
    /// The lock.
    pub lock: Arc<PiState>,
    /// The slot of the waiter.
    pub slot: Arc<AtomicU32>,
}

impl Awaited {
    /// Puts the waiter in its place by its priority, which has changed.
    pub fn reposition(&self) {
        let bucket = &TABLE[self.lock.key.bucket()];
        bucket.waiters.lock().reposition(&self.slot);
    }
}
