//! A lock that threads wait for (Linux's `struct futex_pi_state`). All waiters share one owner
//! field, so that handing the lock over costs the same however many wait.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use tree::{Member, Tree};

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

    /// Whether a word that holds this number says that it has the lock.
    pub(super) fn is(self, tid: u32) -> bool {
        self.tid as u32 == tid
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
    /// The owner before died, and this one has not written the word yet.
    pub(super) is_unsettled: AtomicBool,
    /// How many wait for it; changes with its bucket locked.
    pub(super) waiters: AtomicUsize,
    /// The owner that inherits from the first waiter, and the priority that it inherits.
    given: Mutex<Option<(Owner, u32)>>,
}

impl PiState {
    /// The lock `key`, which `owner` has.
    pub(super) fn new(key: Key, owner: Owner) -> Self {
        PiState {
            key,
            owner: Mutex::new(owner),
            is_unsettled: AtomicBool::new(false),
            waiters: AtomicUsize::new(0),
            given: Mutex::new(None),
        }
    }

    /// Who has it.
    pub fn owner(&self) -> Owner {
        *self.owner.lock()
    }

    /// It is another's; with `died`, whose word says otherwise until it has written it.
    pub(super) fn set_owner(&self, owner: Owner, died: bool) {
        *self.owner.lock() = owner;
        self.is_unsettled.store(died, Release);
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

/// A lock that threads wait for, by who has it: an owner that dies finds its locks.
pub(super) struct Owned {
    /// The owner's address, and the lock's.
    owner: usize,
    lock: usize,
    /// The lock's word.
    pub(super) key: Key,
}

impl Owned {
    pub(super) fn new(lock: &Arc<PiState>) -> Self {
        Owned {
            owner: lock.owner().address,
            lock: Arc::as_ptr(lock).addr(),
            key: lock.key,
        }
    }

    /// The first of an owner in a tree.
    pub(super) fn first_of(locks: &Tree<Owned>, owner: Owner) -> Option<&Owned> {
        let first = locks.from(&(owner.address, 0));
        first.filter(|first| first.owner == owner.address)
    }

    /// Whether it is that lock.
    pub(super) fn is(&self, lock: &Arc<PiState>) -> bool {
        self.lock == Arc::as_ptr(lock).addr()
    }
}

impl Member for Owned {
    type Key = (usize, usize);
    type Sum = ();

    fn key(&self) -> Self::Key {
        (self.owner, self.lock)
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
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
