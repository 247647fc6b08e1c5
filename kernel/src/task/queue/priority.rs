//! The real-time threads in a CPU's queue.

use crate::task::CpuParts;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;

use super::super::{Thread, real_time};
use super::{Queue, ROOM, RunQueue, insert_first, insert_last};
use crate::arch::{cpu, current_arc};

impl RunQueue {
    /// Like [`add`](Self::add), for real-time threads.
    #[cold]
    #[inline(never)]
    pub(super) fn add_real_time(&self, queue: &mut Queue, thread: Arc<Thread>) -> bool {
        let holds = self.holds_back() && queue.running != u64::MAX;
        if holds && queue.held.len() < queue.held.capacity() {
            insert_last(&mut queue.held, thread);
            return false;
        }
        let first = queue.ready.is_empty();
        let ahead = thread.sched.vruntime() < queue.running;
        insert_last(&mut queue.ready, thread);
        self.waiting.store(queue.ready.len(), Release);
        first || ahead
    }

    /// Whether `running`, which has the highest priority here, yields to the first waiting thread:
    /// to the next of its priority after its turn, or to ordinary threads while real-time threads
    /// are held back. Then it waits.
    #[cold]
    #[inline(never)]
    pub(super) fn should_yield(&self, queue: &mut Queue, running: &Thread) -> bool {
        let Some(first) = queue.ready.front().map(|first| first.sched.vruntime()) else {
            return false;
        };
        if self.holds_back() && queue.held.len() < queue.held.capacity() {
            insert_first(&mut queue.held, current_arc());
            return true;
        }
        let turns = first == running.sched.vruntime() && running.sched.real_time.turn_is_over();
        if turns {
            insert_last(&mut queue.ready, current_arc());
        }
        turns
    }

    /// Whether real-time threads are held back.
    pub(in crate::task) fn holds_back(&self) -> bool {
        self.held_until() != 0
    }

    /// The time until which real-time threads are held back, in ticks; 0 if they are not.
    pub(in crate::task) fn held_until(&self) -> u64 {
        self.held_until.load(Relaxed)
    }

    /// Whether the first waiting thread has the priority of `running`, and whether the last has an
    /// ordinary policy.
    pub(in crate::task) fn waits_beside(&self, running: &Thread) -> (bool, bool) {
        let queue = self.lock();
        let place = |thread: Option<&Arc<Thread>>| thread.map(|thread| thread.sched.vruntime());
        let equal = place(queue.ready.front()) == Some(running.sched.vruntime());
        (equal, place(queue.ready.back()) >= Some(real_time::END))
    }

    /// Holds real-time threads back until `end`, in ticks; without memory it does nothing.
    pub(in crate::task) fn hold_back(&self, end: u64) {
        let mut queue = self.lock();
        let room = ROOM.load(Relaxed);
        if queue.held.try_reserve(room).is_err() {
            return;
        }
        while let Some(first) = queue.ready.front()
            && first.sched.is_real_time()
            && let Some(first) = queue.ready.pop_front()
        {
            queue.held.push_back(first);
        }
        self.waiting.store(queue.ready.len(), Release);
        self.held_until.store(end, Relaxed);
    }

    /// Releases the real-time threads that are held back; false if there was none.
    #[inline]
    pub(in crate::task) fn take_back(&self) -> bool {
        self.holds_back() && self.take_each_back()
    }

    #[cold]
    #[inline(never)]
    fn take_each_back(&self) -> bool {
        let mut queue = self.lock();
        self.held_until.store(0, Relaxed);
        let any = !queue.held.is_empty();
        while let Some(last) = queue.held.pop_back() {
            insert_first(&mut queue.ready, last);
        }
        self.waiting.store(queue.ready.len(), Release);
        any
    }

    /// Whether the first waiting thread has precedence over the running one.
    pub(in crate::task) fn is_behind(&self, queue: &Queue) -> bool {
        let first = queue.ready.front();
        first.is_some_and(|first| first.sched.vruntime() < queue.running)
    }

    /// Finds a thread that waits here, applies `change`, and moves the thread to its new position;
    /// false if it does not wait here. As on Linux, a thread whose priority is lowered comes first
    /// among its equals.
    pub(in crate::task) fn replace(
        &self,
        queue: &mut Queue,
        thread: &Thread,
        change: impl Fn(),
    ) -> bool {
        let Some(thread) = self.remove(queue, thread) else {
            return false;
        };
        let before = thread.sched.vruntime();
        change();
        if thread.sched.vruntime() > before {
            insert_first(&mut queue.ready, thread);
        } else {
            insert_last(&mut queue.ready, thread);
        }
        self.waiting.store(queue.ready.len(), Release);
        true
    }

    /// Removes a thread that waits here.
    pub(in crate::task) fn remove(
        &self,
        queue: &mut Queue,
        thread: &Thread,
    ) -> Option<Arc<Thread>> {
        let Queue { ready, held, .. } = queue;
        let taken = [ready, held].into_iter().find_map(|list| {
            let at = list
                .iter()
                .position(|other| core::ptr::eq(&**other, thread));
            at.and_then(|at| list.remove(at))
        });
        self.waiting.store(queue.ready.len(), Release);
        taken
    }

    /// Takes the first waiting thread if it is real-time, may run on the CPU `other`, and has
    /// precedence over the thread that runs there, for that CPU.
    pub(in crate::task) fn take_for(&self, other: &cpu::Cpu) -> Option<Arc<Thread>> {
        let runs = other.sched().lock().running;
        let mut queue = self.lock();
        let first = queue.ready.front()?;
        let fits = first.sched.is_real_time()
            && first.sched.vruntime() < runs
            && first.sched.allowed() & 1 << other.index() != 0
            && !first.arch.is_running();
        let taken = if fits { queue.ready.pop_front() } else { None };
        if let Some(thread) = &taken {
            thread.sched.sleeper.set_cpu(other.index());
        }
        self.waiting.store(queue.ready.len(), Release);
        taken
    }
}
