//! The resources that a user holds, over all processes (Linux's `struct user_struct`).

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::current;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// A user, and the resources that are counted for it.
pub struct User {
    uid: u32,
    /// Pages in pipes.
    pub pipe_pages: AtomicUsize,
    /// Pending real-time signals of the user's processes.
    pub pending_signals: AtomicUsize,
    /// Bytes of POSIX message queues.
    pub queue_bytes: AtomicUsize,
    /// Members of epoll sets.
    pub epoll_watches: AtomicUsize,
    /// Bytes of System V semaphores and messages, and of big keys.
    pub system_v: AtomicUsize,
    /// Bytes of locked System V segments.
    pub locked: AtomicUsize,
    /// Processes and their further threads; not counted for root, who has no limit.
    tasks: AtomicUsize,
}

impl User {
    /// Counts a process or further thread.
    #[inline]
    pub fn add_task(&self) {
        if self.uid != 0 {
            self.tasks.fetch_add(1, Relaxed);
        }
    }

    /// Counts one more if there are fewer than `most`; returns whether there were.
    pub fn add_task_below(&self, most: usize) -> bool {
        let add = |tasks| (tasks < most).then_some(tasks + 1);
        self.tasks.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Counts one less.
    #[inline]
    pub fn remove_task(&self) {
        if self.uid != 0 {
            self.tasks.fetch_sub(1, Relaxed);
        }
    }

    /// The number of processes and further threads.
    pub fn tasks(&self) -> usize {
        self.tasks.load(Relaxed)
    }
}

/// Bytes that are charged to a user as long as this exists.
pub struct Charge {
    user: Arc<User>,
    count: fn(&User) -> &AtomicUsize,
    bytes: usize,
}

impl Charge {
    /// Charges `bytes` to the current user; `None` if the total would exceed `most`.
    pub fn new(count: fn(&User) -> &AtomicUsize, bytes: usize, most: usize) -> Option<Self> {
        let user = current().with_credentials(|who| who.user.clone());
        let before = count(&user).fetch_add(bytes, Relaxed);
        // If it is dropped on failure, it gives the bytes back.
        let charge = Charge { user, count, bytes };
        (before.saturating_add(bytes) <= most).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        (self.count)(&self.user).fetch_sub(self.bytes, Relaxed);
    }
}

static USERS: Mutex<HashMap<u32, Weak<User>>> = Mutex::new(hash::new());

/// The user `uid`, which is shared by all that hold the result.
///
/// # Errors
/// ENOMEM.
pub fn of(uid: u32) -> Result<Arc<User>> {
    let known = |users: &HashMap<u32, Weak<User>>| users.get(&uid)?.upgrade();
    let user = known(&USERS.lock());
    if let Some(user) = user {
        return Ok(user);
    }
    let new = try_arc(User {
        uid,
        pipe_pages: AtomicUsize::new(0),
        tasks: AtomicUsize::new(0),
        pending_signals: AtomicUsize::new(0),
        queue_bytes: AtomicUsize::new(0),
        epoll_watches: AtomicUsize::new(0),
        system_v: AtomicUsize::new(0),
        locked: AtomicUsize::new(0),
    })?;
    let mut users = USERS.lock();
    if let Some(user) = known(&users) {
        drop(users);
        return Ok(user);
    }
    if users.try_reserve(1).is_err() {
        drop(users);
        return Err(Errno::ENOMEM);
    }
    users.insert(uid, Arc::downgrade(&new));
    Ok(new)
}

impl Drop for User {
    fn drop(&mut self) {
        let mut users = USERS.lock();
        // Another object may have taken its place.
        if users
            .get(&self.uid)
            .is_some_and(|user| user.strong_count() == 0)
        {
            users.remove(&self.uid);
        }
    }
}
