//! Waiting for a condition.

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::sched::{self, state};
use super::timer::Timer;
use super::{Thread, current};
use crate::arch::{current_arc, time};
use crate::sync::{Mutex, might_sleep};
use wakeup::Waiters;

/// Why a wait ended before its condition held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// A signal arrived.
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

/// Threads that wait for a condition. Code that changes the condition wakes them, and they check it
/// again.
pub struct WaitQueue {
    count: Waiters,
    waiters: Mutex<VecDeque<Arc<Thread>>>,
}

impl WaitQueue {
    /// A queue without waiters.
    pub const fn new() -> Self {
        WaitQueue {
            count: Waiters::new(),
            waiters: Mutex::new(VecDeque::new()),
        }
    }

    /// Waits until `ready` holds, uninterruptibly.
    pub fn wait(&self, ready: impl FnMut() -> bool) {
        // Neither a signal nor a deadline can end this.
        _ = self.wait_in(state::UNINTERRUPTIBLE, ready, None, 0);
    }

    /// Waits until `ready` holds, or a signal kills the process.
    pub fn wait_killable(&self, ready: impl FnMut() -> bool) -> Result<(), WaitError> {
        self.wait_in(state::KILLABLE, ready, None, 0)
    }

    /// Waits until `ready` holds, a signal arrives, or `deadline` (absolute, in ticks) passes.
    #[inline]
    pub fn wait_interruptible(
        &self,
        ready: impl FnMut() -> bool,
        deadline: Option<u64>,
    ) -> Result<(), WaitError> {
        self.wait_in(state::INTERRUPTIBLE, ready, deadline, 0)
    }

    /// Like [`wait_interruptible`](Self::wait_interruptible), but a wait that ends at the deadline
    /// may end up to `slack` ticks later, when the timer fires for another deadline.
    pub fn wait_with_slack(
        &self,
        ready: impl FnMut() -> bool,
        deadline: Option<u64>,
        slack: u64,
    ) -> Result<(), WaitError> {
        self.wait_in(state::INTERRUPTIBLE, ready, deadline, slack)
    }

    fn wait_in(
        &self,
        kind: u8,
        mut ready: impl FnMut() -> bool,
        deadline: Option<u64>,
        slack: u64,
    ) -> Result<(), WaitError> {
        might_sleep();
        if ready() {
            return Ok(());
        }
        // Without memory for a timer or a place in the queue, this thread polls.
        let timer = deadline.map(|deadline| Timer::wake(deadline, slack, current_arc()));
        let sleeps = !matches!(timer, Some(Err(_)));
        let current = current();
        loop {
            current.sched.announce(kind);
            let entered = self.enter();
            let end = if ready() {
                Some(Ok(()))
            } else if current.is_interrupted(kind) {
                Some(Err(WaitError::Interrupted))
            } else if deadline.is_some_and(|deadline| time::now_ticks() >= deadline) {
                Some(Err(WaitError::TimedOut))
            } else {
                None
            };
            if let Some(end) = end {
                sched::cancel();
                if !self.leave() && end.is_err() {
                    // This thread consumed a wake-up that it does not need.
                    self.wake_one();
                }
                return end;
            }
            if entered && sleeps {
                sched::schedule();
                self.leave();
            } else {
                sched::cancel();
                self.leave();
                sched::yield_now();
                sched::cond_resched();
            }
            // Most wake-ups are justified, which is checked without announcing another sleep.
            if ready() {
                return Ok(());
            }
        }
    }

    /// Puts the current thread into the queue, ordered before its later loads; false if there is no
    /// room.
    fn enter(&self) -> bool {
        let mut waiters = self.waiters.lock();
        if waiters.len() == waiters.capacity() && !grow(&mut waiters) {
            return false;
        }
        waiters.push_back(current_arc());
        self.count.set(waiters.len());
        drop(waiters);
        self.count.entered();
        true
    }

    /// Removes the current thread from the queue; false if a waker has already done so.
    #[inline]
    fn leave(&self) -> bool {
        self.count.get() != 0 && self.remove_current()
    }

    #[inline(never)]
    fn remove_current(&self) -> bool {
        let mut waiters = self.waiters.lock();
        let Some(at) = waiters
            .iter()
            .position(|waiter| core::ptr::eq(&**waiter, &*current()))
        else {
            return false;
        };
        let thread = waiters.remove(at);
        self.count.set(waiters.len());
        drop(waiters);
        drop(thread);
        true
    }

    /// Wakes the longest waiter; true if there was one. The caller has changed the condition
    /// before.
    #[inline]
    pub fn wake_one(&self) -> bool {
        self.wake_one_if(|| true)
    }

    /// Like [`wake_one`](Self::wake_one), but only if `something` is available for the waiter.
    #[inline]
    pub fn wake_one_if(&self, something: impl FnOnce() -> bool) -> bool {
        self.count.after_change() != 0 && something() && self.wake_first()
    }

    #[inline(never)]
    fn wake_first(&self) -> bool {
        match self.pop() {
            Some(thread) => sched::wake_listed(thread) || self.wake_next(),
            None => false,
        }
    }

    /// The rest of a wake-up, after waiters that were no longer asleep.
    #[cold]
    #[inline(never)]
    fn wake_next(&self) -> bool {
        while let Some(thread) = self.pop() {
            if sched::wake_listed(thread) {
                return true;
            }
        }
        false
    }

    /// Wakes all waiters. The caller has changed the condition before.
    #[inline]
    pub fn wake_all(&self) {
        let count = self.count.after_change();
        if count != 0 {
            self.wake_first_of(count);
        }
    }

    #[inline(never)]
    fn wake_first_of(&self, count: usize) {
        if count > 1 {
            return self.wake_several(count);
        }
        if let Some(thread) = self.pop() {
            sched::wake_listed(thread);
        }
    }

    #[inline(never)]
    fn wake_several(&self, count: usize) {
        // Counted, so that a thread that returns to wait again is not woken twice.
        for _ in 0..count {
            let Some(thread) = self.pop() else { return };
            sched::wake_listed(thread);
        }
    }

    fn pop(&self) -> Option<Arc<Thread>> {
        let mut waiters = self.waiters.lock();
        let thread = waiters.pop_front();
        self.count.set(waiters.len());
        thread
    }
}

/// Makes room for one more; false if there is no memory for it.
#[cold]
#[inline(never)]
fn grow(waiters: &mut VecDeque<Arc<Thread>>) -> bool {
    waiters.try_reserve(1).is_ok()
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// Sleeps until `deadline` (absolute, in ticks), unless the thread must die before.
pub fn sleep_killable(deadline: u64) {
    _ = WaitQueue::new().wait_in(state::KILLABLE, || false, Some(deadline), 0);
}

/// Sleeps until `deadline` (absolute, in ticks), even if the thread must die before.
pub fn sleep_uninterruptible(deadline: u64) {
    _ = WaitQueue::new().wait_in(state::UNINTERRUPTIBLE, || false, Some(deadline), 0);
}

/// Sleeps until `deadline` (absolute, in ticks) or a signal.
pub fn sleep_until(deadline: u64) -> Result<(), WaitError> {
    sleep_with_slack(deadline, 0)
}

/// Sleeps until the deadline, or up to `slack` ticks longer.
pub fn sleep_with_slack(deadline: u64, slack: u64) -> Result<(), WaitError> {
    match WaitQueue::new().wait_with_slack(|| false, Some(deadline), slack) {
        Err(WaitError::TimedOut) => Ok(()),
        other => other,
    }
}
