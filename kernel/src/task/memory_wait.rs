//! Threads that wait for an address space whose memory is being copied or moved.

use super::current;
use super::wait_queue::WaitQueue;
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use core::ptr;

/// Queues that address spaces share, so that a space needs no room for a rare wait.
static QUEUES: [WaitQueue; 16] = [const { WaitQueue::new() }; 16];

fn queue(space: &AddressSpace) -> &'static WaitQueue {
    let lines = ptr::from_ref(space).addr() / 64;
    &QUEUES[(lines ^ lines >> 4 ^ lines >> 8) % QUEUES.len()]
}

/// Waits until `ready` holds for a space. A thread that had to die before the call has its last
/// accesses to do, for which others may wait: it waits as long as necessary.
///
/// # Errors
/// EINTR: the current thread has to die since the call.
pub fn wait(space: &AddressSpace, ready: &dyn Fn() -> bool) -> Result<()> {
    let queue = queue(space);
    if current().must_die() {
        queue.wait(ready);
        return Ok(());
    }
    queue.wait_killable(ready).map_err(|_| Errno::EINTR)
}

/// Wakes waiters, since `ready` may hold.
pub fn wake(space: &AddressSpace) {
    queue(space).wake_all();
}
