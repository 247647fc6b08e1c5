//! Work that cannot be done in an interrupt or under a spin lock, and is left to a kernel thread
//! that may sleep (Linux's workqueues).

extern crate alloc;

use alloc::sync::Arc;

use super::wait_queue::WaitQueue;
use super::{clock, sched, spawn_kernel};
use crate::errno::Result;
use crate::sync::Mutex;

/// Something to do. It waits in the queue without memory of the queue's own.
pub trait Work: Send + Sync {
    /// The link in the queue's list while the work waits.
    fn link(&self) -> &Link;

    /// Does it. May sleep.
    fn run(self: Arc<Self>);
}

/// The work that came before this one in its queue, or after it once the thread has taken both.
#[derive(Default)]
pub struct Link(Mutex<Option<Arc<dyn Work>>>);

/// Work that one thread of the kernel does, in the order in which it was queued.
pub struct WorkQueue {
    /// The work that came last.
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

    /// Lets its thread do `work`, which does not wait yet. From anywhere.
    pub fn queue(&self, work: Arc<dyn Work>) {
        let mut last = self.last.lock();
        *work.link().0.lock() = last.take();
        *last = Some(work);
        drop(last);
        self.queued.wake_all();
    }

    /// All that waits, in the order in which it came.
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

    /// The same, but what is queued waits for so many ns first, if there is memory for a timer.
    pub fn run_after(&self, pause: u64) -> ! {
        loop {
            // Nobody sends it a signal.
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

/// The work of the kernel's worker, which waits for no sleeping lock but to end a file.
static WORKER: WorkQueue = WorkQueue::new();

/// Lets the kernel's worker do `work`, which does not wait yet. From anywhere.
pub fn queue(work: Arc<dyn Work>) {
    WORKER.queue(work);
}

/// Makes the thread.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub(super) fn init() -> Result<()> {
    spawn_kernel("worker", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    WORKER.run()
}
