//! Connections that wait for accept(2).

use super::wait::Wait;
use crate::errno::{Errno, Result};
use crate::fs::poll::{Events, WaitSource};
use crate::fs::sequence::Sequence;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use crate::task::work_queue::{self, Work};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// The maximum length of a backlog (`net.core.somaxconn`).
pub static MOST: AtomicUsize = AtomicUsize::new(4096);

struct Queue<T> {
    waiting: VecDeque<Arc<T>>,
    open: bool,
    /// Work to be done, one at a time, once there is room.
    callers: Sequence<Arc<dyn Work>>,
}

/// The queue of a listening socket.
pub struct Backlog<T> {
    queue: Mutex<Queue<T>>,
    max: AtomicUsize,
    /// Notified when a connection arrives.
    arrived: Arc<WaitSource>,
    /// Notified when there is room for another connection.
    room: Arc<WaitSource>,
}

impl<T> Backlog<T> {
    /// An empty queue for `max` connections plus one.
    pub fn new(max: usize, arrived: &Arc<WaitSource>) -> Result<Self> {
        Ok(Backlog {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                open: true,
                callers: Sequence::new(),
            }),
            max: AtomicUsize::new(max.min(MOST.load(Relaxed))),
            arrived: arrived.clone(),
            room: WaitSource::new()?,
        })
    }

    /// Changes the maximum length.
    pub fn set_max(&self, max: usize) {
        self.max.store(max.min(MOST.load(Relaxed)), Release);
        self.room.notify();
        self.admit();
    }

    /// Accepts connections again, after [`Self::close`].
    pub fn reopen(&self, max: usize) {
        self.queue.lock().open = true;
        self.set_max(max);
    }

    fn is_full(&self, queue: &Queue<T>) -> bool {
        queue.open && queue.waiting.len() > self.max.load(Acquire)
    }

    /// Whether a connection can be added without waiting: there is room, or the queue is closed.
    pub fn may_push(&self) -> bool {
        !self.is_full(&self.queue.lock())
    }

    /// Queues `work` for the time when there may be room. The kernel's worker does it, and then
    /// calls [`Self::admit`]. Returns the number by which it can be cancelled, or `None` if there
    /// is room now.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn call_later(&self, work: Arc<dyn Work>) -> Result<Option<u64>> {
        let mut queue = self.queue.lock();
        if !self.is_full(&queue) {
            return Ok(None);
        }
        queue.callers.push(work).map(Some)
    }

    /// Cancels such work.
    pub fn forget(&self, number: u64) {
        let gone = self.queue.lock().callers.remove(number);
        drop(gone);
    }

    /// Passes the first such work to the worker, if there is room.
    pub fn admit(&self) {
        let mut queue = self.queue.lock();
        if self.is_full(&queue) {
            return;
        }
        let first = queue.callers.first_from(0).map(|(number, _)| number);
        let work = first.and_then(|number| queue.callers.remove(number));
        drop(queue);
        if let Some(work) = work {
            work_queue::queue(work);
        }
    }

    /// Waits until there is room, or the queue is closed.
    pub fn wait_for_room(&self, wait: &Wait) -> Result<()> {
        wait.until(&self.room, || !self.is_full(&self.queue.lock()))
    }

    /// Adds a connection; `join` establishes it as soon as it is certain that it can be added.
    /// ECONNREFUSED if the queue is closed, EAGAIN if it is full, or with `over`, if it is full
    /// beyond any limit.
    pub fn push(&self, connection: Arc<T>, over: bool, join: impl FnOnce()) -> Result<()> {
        let mut queue = self.queue.lock();
        if !queue.open {
            return Err(Errno::ECONNREFUSED);
        }
        if self.is_full(&queue) && (!over || queue.waiting.len() > 2 * MOST.load(Relaxed)) {
            return Err(Errno::EAGAIN);
        }
        queue.waiting.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        join();
        queue.waiting.push_back(connection);
        drop(queue);
        self.arrived.notify_one(Events::READABLE);
        Ok(())
    }

    /// Waits for a connection and takes it. EINVAL once the queue is closed.
    pub fn accept(&self, wait: &Wait) -> Result<Arc<T>> {
        loop {
            {
                let mut queue = self.queue.lock();
                if let Some(connection) = queue.waiting.pop_front() {
                    let wanted = !queue.callers.is_empty();
                    drop(queue);
                    self.room.notify();
                    if wanted {
                        self.admit();
                    }
                    return Ok(connection);
                }
                if !queue.open {
                    return Err(Errno::EINVAL);
                }
            }
            wait.until(&self.arrived, || {
                let queue = self.queue.lock();
                !queue.waiting.is_empty() || !queue.open
            })?;
        }
    }

    /// Passes each waiting connection to `act`, in order. May sleep.
    pub fn each(&self, act: impl Fn(&T)) {
        let mut at = 0;
        loop {
            let Some(connection) = self.queue.lock().waiting.get(at).cloned() else {
                return;
            };
            act(&connection);
            at += 1;
            cond_resched();
        }
    }

    /// The sum of a number over the waiting connections.
    pub fn sum(&self, number: impl Fn(&T) -> usize) -> usize {
        let queue = self.queue.lock();
        queue.waiting.iter().map(|one| number(one)).sum()
    }

    /// The number of waiting connections, and the maximum.
    pub fn counts(&self) -> (usize, usize) {
        let waiting = self.queue.lock().waiting.len();
        (waiting, self.max.load(Acquire))
    }

    /// Whether accept would not wait.
    pub fn is_ready(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Whether the socket accepts connections.
    pub fn is_open(&self) -> bool {
        self.queue.lock().open
    }

    /// Accepts no more connections; returns the waiting ones.
    pub fn close(&self) -> VecDeque<Arc<T>> {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.open = false;
            core::mem::take(&mut queue.waiting)
        };
        self.room.notify();
        self.arrived.notify();
        self.admit();
        waiting
    }
}
