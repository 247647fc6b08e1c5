//! Operations that one thread completes for another, as Linux's semop(2) and msgrcv(2) do: a thread
//! that changes an object also performs the waiting operations that have become possible, and wakes
//! only the threads whose operations are done. So with thousands of waiters a change costs as much
//! as with one.

use alloc::sync::Arc;

use crate::arch::current_arc;
use crate::sync::Mutex;
use crate::task::wait_queue::{WaitError, WaitQueue};
use crate::task::{Thread, current, sched};

/// A waiting thread, and the outcome of its operation.
pub struct Handover<T> {
    thread: Arc<Thread>,
    outcome: Mutex<Option<T>>,
}

impl<T> Handover<T> {
    /// For the current thread, which is about to wait.
    pub fn new() -> Self {
        Handover {
            thread: current_arc(),
            outcome: Mutex::new(None),
        }
    }

    /// The waiting thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Waits for the outcome, at most until `deadline` (in ticks). If the wait fails, an outcome
    /// may still arrive and must be taken.
    pub fn wait(&self, deadline: Option<u64>) -> Result<(), WaitError> {
        let slack = deadline.map_or(0, |_| current().slack_ticks());
        let is_settled = || self.outcome.lock().is_some();
        WaitQueue::new().wait_with_slack(is_settled, deadline, slack)
    }

    /// Sets the outcome of the operation; returns the thread to wake.
    pub fn settle(&self, outcome: T) -> Arc<Thread> {
        *self.outcome.lock() = Some(outcome);
        self.thread.clone()
    }

    /// The outcome of the operation, if it has ended.
    pub fn take(&self) -> Option<T> {
        self.outcome.lock().take()
    }
}

/// Threads to be woken once no lock is held.
#[derive(Default)]
pub struct Settled {
    threads: [Option<Arc<Thread>>; Settled::ROOM],
    count: usize,
}

impl Settled {
    /// The maximum number of threads settled before an object's lock is released and they are
    /// woken.
    pub const ROOM: usize = 16;

    /// Whether there is no room for two more.
    pub fn is_full(&self) -> bool {
        self.count + 2 > Self::ROOM
    }

    /// Adds a thread, for which there must be room.
    pub fn add(&mut self, thread: Arc<Thread>) {
        self.threads[self.count] = Some(thread);
        self.count += 1;
    }

    /// Wakes them.
    pub fn wake(&mut self) {
        let threads = &mut self.threads[..self.count];
        threads
            .iter_mut()
            .filter_map(Option::take)
            .for_each(|thread| {
                sched::wake(thread);
            });
        self.count = 0;
    }
}
