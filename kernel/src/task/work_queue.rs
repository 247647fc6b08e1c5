//! What is put off from where it cannot be done, in an interrupt or under a spin lock, to a thread
//! of the kernel that may sleep (Linux's workqueues).

extern crate alloc;

use alloc::sync::Arc;

use super::wait_queue::WaitQueue;
use super::{sched, spawn_kernel};
use crate::errno::Result;
use crate::sync::Mutex;

/// Something to do. It waits in the queue without memory of the queue's own.
pub trait Work: Send + Sync {
    /// What links it, while it waits.
    fn link(&self) -> &Link;

    /// Does it. May sleep.
    fn run(self: Arc<Self>);
}

/// The work that came before this one, or after it once the thread has taken both.
#[derive(Default)]
pub struct Link(Mutex<Option<Arc<dyn Work>>>);

/// The work that came last.
static LAST: Mutex<Option<Arc<dyn Work>>> = Mutex::new(None);
static QUEUED: WaitQueue = WaitQueue::new();

/// Lets the kernel's thread do `work`, which does not wait yet. From anywhere.
pub fn queue(work: Arc<dyn Work>) {
    let mut last = LAST.lock();
    *work.link().0.lock() = last.take();
    *last = Some(work);
    drop(last);
    QUEUED.wake_all();
}

/// All that waits, in the order in which it came.
fn take_all() -> Option<Arc<dyn Work>> {
    let mut left = LAST.lock().take();
    let mut first = None;
    while let Some(work) = left {
        left = core::mem::replace(&mut *work.link().0.lock(), first);
        first = Some(work);
    }
    first
}

/// Makes the thread.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub(super) fn init() -> Result<()> {
    spawn_kernel("worker", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    loop {
        // Nobody sends it a signal.
        _ = QUEUED.wait_interruptible(|| LAST.lock().is_some(), None);
        let mut next = take_all();
        while let Some(work) = next {
            next = work.link().0.lock().take();
            work.run();
            sched::cond_resched();
        }
    }
}
