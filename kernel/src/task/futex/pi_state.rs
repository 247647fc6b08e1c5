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
    /// Its address: later, another thread may have the same number.
    pub address: usize,
}

impl Owner {
    /// `thread` as an owner.
    pub fn new(thread: &Thread) -> Self {
        Owner {
            tid: thread.tid(),
            address: core::ptr::from_ref(thread).addr(),
        }
    }

    /// Whether a word with this number says that this thread owns the lock.
    pub(super) fn is(self, tid: u32) -> bool {
        self.tid as u32 == tid
    }

    /// The thread, if it is alive.
    pub fn thread(self) -> Option<Arc<Thread>> {
        task::pid_table::thread(self.tid).filter(|thread| Owner::new(thread) == self)
    }
}

/// A lock that threads wait for. It changes only under the lock of its bucket.
pub struct PiState {
    /// Its word.
    pub(super) key: Key,
    owner: Mutex<Owner>,
    /// The previous owner died, and the present one has not written the word yet.
    pub(super) is_unsettled: AtomicBool,
    /// The number of waiters; it changes only under the lock of the bucket.
    pub(super) waiters: AtomicUsize,
    /// The owner that inherits from the first waiter, and the priority that it inherits.
    given: Mutex<Option<(Owner, u32)>>,
}

impl PiState {
    /// The lock `key`, owned by `owner`.
    pub(super) fn new(key: Key, owner: Owner) -> Self {
        PiState {
            key,
            owner: Mutex::new(owner),
            is_unsettled: AtomicBool::new(false),
            waiters: AtomicUsize::new(0),
            given: Mutex::new(None),
        }
    }

    /// The owner.
    pub fn owner(&self) -> Owner {
        *self.owner.lock()
    }

    /// Changes the owner. With `died`, the previous owner died, and the word is stale until the new
    /// one has written it.
    pub(super) fn set_owner(&self, owner: Owner, died: bool) {
        *self.owner.lock() = owner;
        self.is_unsettled.store(died, Release);
    }

    /// The owner that inherits from the first waiter, and the priority that it inherits.
    pub fn given(&self) -> Option<(Owner, u32)> {
        *self.given.lock()
    }

    /// Lets `change` update the inheritance: it gets the present and the new state, that is, the
    /// owner and the priority of the first waiter, if that has a real-time policy.
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

/// A lock that threads wait for, by owner, so that an owner that dies finds its locks.
pub(super) struct Owned {
    /// The addresses of the owner and of the lock.
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

    /// The first lock of an owner in a tree.
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

/// The lock that a thread waits for, and the thread's place there.
#[derive(Clone)]
pub struct Awaited {
    /// The lock.
    pub lock: Arc<PiState>,
    /// The slot of the waiter.
    pub slot: Arc<AtomicU32>,
}

impl Awaited {
    /// Moves the waiter to its position after its priority has changed.
    pub fn reposition(&self) {
        let bucket = &TABLE[self.lock.key.bucket()];
        bucket.waiters.lock().reposition(&self.slot);
    }
}
