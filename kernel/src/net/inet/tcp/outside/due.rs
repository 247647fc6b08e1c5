//! The deadlines of a connection or a listening socket, and the work that runs at them; each is on
//! the work queue at most once.

use super::{AGAIN, WORK};
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::timer::{Expire, Timer};
use crate::task::work_queue::{Link, Work, WorkQueue};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::*};

/// The timer and the queue link of an `owner`, which is passed to each call.
#[derive(Default)]
pub struct Due {
    /// The deadline, in ns.
    timer: Mutex<Option<(u64, Timer)>>,
    queued: AtomicBool,
    work: Link,
}

impl Due {
    /// The link for [`Work::link`].
    pub fn link(&self) -> &Link {
        &self.work
    }

    fn queue_on<T: Work + 'static>(&self, queue: &WorkQueue, owner: &Arc<T>) {
        if !self.queued.swap(true, AcqRel) {
            queue.queue(owner.clone());
        }
    }

    /// Queues the work. May be called in an interrupt.
    pub fn queue<T: Work + 'static>(&self, owner: &Arc<T>) {
        self.queue_on(&WORK, owner);
    }

    /// Queues the work for later, when there may be memory.
    pub fn queue_again<T: Work + 'static>(&self, owner: &Arc<T>) {
        self.queue_on(&AGAIN, owner);
    }

    /// Sets the timer so that the work is done at `next`, or earlier; then it must be armed again.
    pub fn arm<T: Work + Expire + 'static>(&self, owner: &Arc<T>, next: Option<u64>) {
        let Some(next) = next else { return };
        let mut timer = self.timer.lock();
        if timer.as_ref().is_some_and(|timer| timer.0 <= next) {
            return;
        }
        let armed = Timer::call(clock::monotonic_deadline(next), owner.clone());
        let old = armed.map(|armed| timer.replace((next, armed)));
        drop(timer);
        if old.is_err() {
            self.queue_again(owner);
        }
    }

    /// The work begins: from now on it may be queued again.
    pub fn begin(&self, now: u64) {
        self.queued.store(false, Release);
        let due = self.timer.lock().take_if(|timer| timer.0 <= now);
        drop(due);
    }

    /// Cancels the timer.
    pub fn stop(&self) {
        let old = self.timer.lock().take();
        drop(old);
    }
}
