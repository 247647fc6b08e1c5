//! Work that cannot be done in an interrupt or under a spin lock, and is left to a kernel thread
//! that may sleep (Linux's workqueues).

extern crate alloc;

use alloc::sync::Arc;

use super::wait_queue::WaitQueue;
use super::{clock, sched, spawn_kernel};
use crate::errno::Result;
use crate::sync::Mutex;

/// A work item. Queueing it needs no memory.
pub trait Work: Send + Sync {
    /// The link in the queue's list while the work is queued.
    fn link(&self) -> &Link;

    /// Does the work. May sleep.
    fn run(self: Arc<Self>);
}

/// The work queued before this one, or after it once the thread has taken both.
#[derive(Default)]
pub struct Link(Mutex<Option<Arc<dyn Work>>>);

/// Work that one kernel thread does, in the order in which it was queued.
pub struct WorkQueue {
    /// The work that was queued last.
    last: Mutex<Option<Arc<dyn Work>>>,
    queued: WaitQueue,
}

impl WorkQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        WorkQueue {
            last: Mutex::new(None),
            queued: WaitQueue::new(),
        }
    }

    /// Queues `work`, which is not queued yet. Can be called anywhere.
    pub fn queue(&self, work: Arc<dyn Work>) {
        let mut last = self.last.lock();
        *work.link().0.lock() = last.take();
        *last = Some(work);
        drop(last);
        self.queued.wake_all();
    }

    /// Takes all queued work, in the order in which it was queued.
    fn take_all(&self) -> Option<Arc<dyn Work>> {
        let mut left = self.last.lock().take();
        let mut first = None;
        while let Some(work) = left {
            left = core::mem::replace(&mut *work.link().0.lock(), first);
            first = Some(work);
        }
        first
    }

    /// Does the queue's work, for ever.
    pub fn run(&self) -> ! {
        self.run_after(0)
    }

    /// Like [`run`](Self::run), but queued work first waits for `pause` ns, if there is memory for
    /// a timer.
    pub fn run_after(&self, pause: u64) -> ! {
        loop {
            // It gets no signals.
            _ = self
                .queued
                .wait_interruptible(|| self.last.lock().is_some(), None);
            if pause > 0 {
                let until = clock::deadline_in(pause);
                _ = self.queued.wait_interruptible(|| false, Some(until));
            }
            let mut next = self.take_all();
            while let Some(work) = next {
                next = work.link().0.lock().take();
                work.run();
                sched::cond_resched();
            }
        }
    }
}

/// The work of the kernel's worker, which never waits for a sleeping lock except to close a file.
static WORKER: WorkQueue = WorkQueue::new();

/// Queues `work`, which is not queued yet, for the kernel's worker. Can be called anywhere.
pub fn queue(work: Arc<dyn Work>) {
    WORKER.queue(work);
}

/// Creates the thread.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub(super) fn init() -> Result<()> {
    spawn_kernel("worker", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    WORKER.run()
}
