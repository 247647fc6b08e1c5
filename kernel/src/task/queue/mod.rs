//! A CPU's runnable threads, by ascending virtual runtime. Threads of the real-time policies have
//! the lowest values, which do not grow.

extern crate alloc;

mod priority;

use crate::task::CpuParts;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::sched::state;
use super::{Thread, clock, real_time};
use crate::arch::cpu::{self, Cpu};
use crate::arch::{KERNEL_STACK_SIZE, current_arc, time};
use crate::errno::{Errno, Result};
use crate::mm::{PAGE_SIZE, frame};
use crate::sync::{Mutex, MutexGuard, Once};

/// How long a thread runs while others are runnable, in ns.
pub const SLICE_NS: u64 = 3_000_000;
/// How far a woken thread must be behind to interrupt the running one, in ns.
const GRANULARITY_NS: u64 = 1_000_000;

/// How many of another CPU's threads an idle CPU examines (Linux's `sched_nr_migrate`).
const TRIED: usize = 32;

/// One CPU's runnable threads.
#[repr(align(128))]
pub struct RunQueue {
    queue: Mutex<Queue>,
    /// The address of the active address space, 0 for none; only this CPU writes it.
    pub(super) space: AtomicUsize,
    /// The mode in which it counts and dispatches; only this CPU uses it.
    pub(super) mode: AtomicU32,
    /// The number of waiting threads.
    waiting: AtomicUsize,
    /// The end of the running thread's slice, in ticks; MAX if no other thread is runnable.
    slice_end: AtomicU64,
    /// The least virtual runtime of the threads that ran; it never decreases.
    least: AtomicU64,
    /// When the running thread was last charged, in ticks.
    charged: AtomicU64,
    /// The ticks that this CPU was idle, until it was last charged.
    idled: AtomicU64,
    /// The number of ticks of the clock at which others waited for real-time threads.
    pub(super) starved: AtomicU32,
    /// The time until which real-time threads are held back for the others, in ticks; 0 while they
    /// are not.
    held_until: AtomicU64,
    /// The number of the last barrier that this CPU executed.
    barrier: AtomicU64,
    /// The number of context switches.
    switches: AtomicU64,
    idle: Once<Arc<Thread>>,
}

/// The data protected by the lock of a [`RunQueue`].
pub struct Queue {
    /// The waiting threads, without the running one.
    ready: VecDeque<Arc<Thread>>,
    /// The running thread's virtual runtime when it was last charged; MAX for the idle thread.
    pub(super) running: u64,
    /// Real-time threads that are held back, in their order.
    held: VecDeque<Arc<Thread>>,
}

/// The number of threads that every queue has room for, and the number of threads.
static ROOM: AtomicUsize = AtomicUsize::new(0);
static THREADS: AtomicUsize = AtomicUsize::new(0);

impl RunQueue {
    /// A queue without threads.
    pub const fn new() -> Self {
        RunQueue {
            queue: Mutex::new(Queue {
                ready: VecDeque::new(),
                running: u64::MAX,
                held: VecDeque::new(),
            }),
            space: AtomicUsize::new(0),
            mode: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            slice_end: AtomicU64::new(u64::MAX),
            least: AtomicU64::new(real_time::END),
            charged: AtomicU64::new(0),
            idled: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            held_until: AtomicU64::new(0),
            barrier: AtomicU64::new(0),
            switches: AtomicU64::new(0),
            idle: Once::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Address of the active address space, 0 for none.
    pub fn active_space(&self) -> usize {
        self.space.load(Relaxed)
    }

    /// The number of the last barrier that this CPU executed.
    pub(super) fn barrier_seen(&self) -> u64 {
        self.barrier.load(Acquire)
    }

    pub(super) fn set_barrier_seen(&self, number: u64) {
        self.barrier.store(number, Release);
    }

    /// The number of threads that wait for this CPU.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Acquire)
    }

    #[inline]
    pub(super) fn slice_end(&self) -> u64 {
        self.slice_end.load(Relaxed)
    }

    pub(super) fn least(&self) -> u64 {
        self.least.load(Relaxed)
    }

    /// Whether the CPU runs its idle thread.
    pub fn idles(&self) -> bool {
        self.lock().running == u64::MAX
    }

    /// The ticks from the machine's start to `now` in which the CPU was idle, or was not running
    /// yet.
    pub(super) fn idle_ticks(&self, now: u64) -> u64 {
        if self.idle.get().is_none() {
            return now - clock::boot_ticks();
        }
        let queue = self.lock();
        let since = match queue.running {
            u64::MAX => self.uncharged(now),
            _ => 0,
        };
        self.idled.load(Relaxed) + since
    }

    /// Sets the CPU's idle thread, which runs already.
    pub(super) fn begin(&self, idle: Arc<Thread>) {
        self.idle.call_once(|| idle);
        SLICE.store(time::ns_to_ticks(SLICE_NS), Relaxed);
        GRANULARITY.store(time::ns_to_ticks(GRANULARITY_NS), Relaxed);
        let mut queue = self.lock();
        let now = time::now_ticks();
        self.charged.store(now, Relaxed);
        self.idled.store(now - clock::boot_ticks(), Relaxed);
        // A queue without room allocates when it needs to.
        _ = queue.ready.try_reserve(ROOM.load(Relaxed).max(64));
    }

    pub(super) fn is_idle(&self, thread: &Thread) -> bool {
        self.idle
            .get()
            .is_some_and(|idle| core::ptr::eq(&**idle, thread))
    }

    /// Charges the running thread, and chooses the next; `None` if it continues.
    pub(super) fn next(cpu: &Cpu, previous: &Thread) -> Option<Arc<Thread>> {
        let this = cpu.sched();
        let mut queue = this.lock();
        // Read under the lock, so that it is later than the arrival of any waiting thread.
        let now = time::now_ticks();
        let idle = queue.running == u64::MAX;
        let ticks = this.used(now);
        this.charged.store(now, Relaxed);
        if !idle {
            previous.sched.charge(ticks);
        }
        let goes_on = previous.sched.state() == state::RUNNABLE && !idle;
        let next = if !goes_on {
            if !idle {
                previous.sched.sleeper.dequeue();
            } else {
                this.idled.store(this.idled.load(Relaxed) + ticks, Relaxed);
            }
            queue.ready.pop_front()
        } else if previous.sched.allowed() & 1 << cpu.index() == 0 {
            previous.sched.remove_throttled();
            queue.ready.pop_front()
        } else {
            let own = previous.sched.vruntime();
            let first = queue.ready.front().map(|first| first.sched.vruntime());
            match first.filter(|first| *first < own) {
                Some(first) => {
                    if own > first + slice() {
                        previous.sched.set_vruntime(limited(previous, own, first));
                    }
                    previous.sched.wait_from(now);
                    queue.exchange(current_arc())
                }
                None if own < real_time::END && this.should_yield(&mut queue, previous) => {
                    previous.sched.wait_from(now);
                    queue.ready.pop_front()
                }
                None => {
                    queue.running = own;
                    this.set_slice(&queue, now);
                    return None;
                }
            }
        };
        this.waiting.store(queue.ready.len(), Release);
        this.set_slice(&queue, now);
        let Some(next) = next else {
            queue.running = u64::MAX;
            return (!idle).then(|| {
                this.count_switch(previous, goes_on);
                cpu.tick().leave(previous, now);
                this.idle
                    .get()
                    .expect("every CPU has an idle thread")
                    .clone()
            });
        };
        next.sched.arrive(now);
        queue.running = next.sched.vruntime();
        if queue.running > this.least() {
            this.least.store(queue.running, Relaxed);
        }
        this.count_switch(previous, goes_on);
        Some(next)
    }

    fn count_switch(&self, previous: &Thread, goes_on: bool) {
        previous.sched.count_switch(goes_on);
        let count = self.switches.load(Relaxed);
        self.switches.store(count + 1, Relaxed);
    }

    fn set_slice(&self, queue: &Queue, now: u64) {
        let end = if queue.ready.is_empty() {
            u64::MAX
        } else {
            now + slice()
        };
        self.slice_end.store(end, Relaxed);
    }

    /// Adds a runnable thread; returns whether the CPU should check its queue soon.
    pub(super) fn add(&self, queue: &mut Queue, thread: Arc<Thread>) -> bool {
        // A thread that slept long gets no more than half a slice of credit.
        let (slice, least) = (slice(), self.least());
        let floor = least.saturating_sub(slice / 2);
        let mut vruntime = thread.sched.vruntime();
        if vruntime < floor {
            if vruntime < real_time::END {
                return self.add_real_time(queue, thread);
            }
            vruntime = floor;
        }
        if vruntime > least.saturating_add(slice) {
            return self.add_far_behind(queue, thread, least);
        }
        self.add_at(queue, thread, vruntime)
    }

    /// Adds a thread whose virtual runtime is more than a slice beyond the `least`.
    #[cold]
    #[inline(never)]
    fn add_far_behind(&self, queue: &mut Queue, thread: Arc<Thread>, least: u64) -> bool {
        let vruntime = queue.limited(&thread, thread.sched.vruntime(), least);
        self.add_at(queue, thread, vruntime)
    }

    #[inline(always)]
    fn add_at(&self, queue: &mut Queue, thread: Arc<Thread>, vruntime: u64) -> bool {
        thread.sched.set_vruntime(vruntime);
        let first = queue.ready.is_empty();
        let ahead = vruntime.saturating_add(granularity()) < queue.running;
        let ready = &mut queue.ready;
        let is_last = |last: &Arc<Thread>| last.sched.vruntime() <= vruntime;
        if ready.len() == ready.capacity() || !ready.back().is_none_or(is_last) {
            return self.add_among(queue, thread, first || ahead);
        }
        ready.push_back(thread);
        self.waiting.store(ready.len(), Release);
        first || ahead
    }

    /// Adds a thread before waiting ones, or to a queue that has no room yet; returns `alert`.
    #[inline(never)]
    fn add_among(&self, queue: &mut Queue, thread: Arc<Thread>, alert: bool) -> bool {
        queue.insert(thread);
        self.waiting.store(queue.ready.len(), Release);
        alert
    }

    /// Whether the first waiting thread should take the CPU from `running` now.
    pub(super) fn should_preempt(&self, queue: &Queue, running: &Thread, now: u64) -> bool {
        let Some(first) = queue.ready.front() else {
            return false;
        };
        if queue.running == u64::MAX {
            return true;
        }
        let used = self.used(now);
        first.sched.vruntime() + granularity() < running.sched.vruntime() + used
    }

    /// [`uncharged`](Self::uncharged) for this CPU, whose counter was not behind `now` when it
    /// charged.
    fn used(&self, now: u64) -> u64 {
        now.wrapping_sub(self.charged.load(Relaxed))
    }

    /// The ticks up to `now` for which the running thread was not charged yet.
    pub(super) fn uncharged(&self, now: u64) -> u64 {
        now.saturating_sub(self.charged.load(Relaxed))
    }

    /// When the running thread was last charged, in ticks: not before its switch to this CPU.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// Begins a slice if none runs; returns its end.
    pub(super) fn begin_slice(&self, now: u64) -> u64 {
        if self.slice_end() == u64::MAX {
            self.slice_end.store(now + slice(), Relaxed);
        }
        self.slice_end()
    }

    /// Moves the running thread behind all waiting ones; a real-time thread behind those of its
    /// priority.
    pub(super) fn yield_turn(&self, running: &Thread) {
        let queue = self.lock();
        if running.sched.is_real_time() {
            return running.sched.real_time.end_turn();
        }
        if let Some(last) = queue.ready.back() {
            running
                .sched
                .set_vruntime(running.sched.vruntime().max(last.sched.vruntime() + 1));
        }
    }

    /// Takes a waiting thread that may run on CPU `other`, where it will run; one of the first,
    /// since this queue's CPU waits for the lock.
    pub(super) fn take(&self, other: usize) -> Option<Arc<Thread>> {
        let mut queue = self.lock();
        let movable = |thread: &Arc<Thread>| {
            thread.sched.allowed() & 1 << other != 0 && !thread.arch.is_running()
        };
        let at = queue.ready.iter().take(TRIED).position(movable)?;
        let thread = queue.ready.remove(at)?;
        thread.sched.sleeper.set_cpu(other);
        self.waiting.store(queue.ready.len(), Release);
        Some(thread)
    }
}

impl Default for RunQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// Takes the first waiting thread, and adds `thread`, which it preempts, before its equals.
    fn exchange(&mut self, thread: Arc<Thread>) -> Option<Arc<Thread>> {
        match self.ready.len() {
            1 => Some(core::mem::replace(&mut self.ready[0], thread)),
            _ => {
                insert_first(&mut self.ready, thread);
                self.ready.pop_front()
            }
        }
    }

    /// [`limited`] by the running thread, or by the last ordinary one if the running thread is idle
    /// or real-time: otherwise lag would accumulate as threads migrate.
    #[cold]
    fn limited(&self, thread: &Thread, own: u64, least: u64) -> u64 {
        let is_ordinary = (real_time::END..u64::MAX).contains(&self.running);
        limited(thread, own, if is_ordinary { self.running } else { least })
    }

    fn insert(&mut self, thread: Arc<Thread>) {
        insert_last(&mut self.ready, thread);
    }
}

/// Adds a thread, after its equals.
#[inline(always)]
fn insert_last(to: &mut VecDeque<Arc<Thread>>, thread: Arc<Thread>) {
    let vruntime = thread.sched.vruntime();
    match to.back() {
        Some(last) if last.sched.vruntime() > vruntime => {
            let at = to.partition_point(|other| other.sched.vruntime() <= vruntime);
            to.insert(at, thread);
        }
        _ => to.push_back(thread),
    }
}

/// Adds a thread, before its equals.
fn insert_first(to: &mut VecDeque<Arc<Thread>>, thread: Arc<Thread>) {
    let vruntime = thread.sched.vruntime();
    match to.back() {
        Some(last) if last.sched.vruntime() >= vruntime => {
            let at = to.partition_point(|other| other.sched.vruntime() < vruntime);
            to.insert(at, thread);
        }
        _ => to.push_back(thread),
    }
}

/// [`SLICE_NS`] and [`GRANULARITY_NS`] in ticks; each CPU sets them, to the same values, before it
/// runs its first thread.
static SLICE: AtomicU64 = AtomicU64::new(0);
static GRANULARITY: AtomicU64 = AtomicU64::new(0);

/// A thread's virtual runtime, at most a slice behind another's: it owes nothing for the time that
/// it ran alone, here or on another CPU, before the other arrived or while it was not charged. This
/// does not concern real-time threads.
#[cold]
fn limited(thread: &Thread, own: u64, other: u64) -> u64 {
    if other < real_time::END {
        return own;
    }
    own.min(other.saturating_add(thread.sched.weighted(slice())))
}

/// A slice in ticks.
pub(super) fn slice() -> u64 {
    SLICE.load(Relaxed)
}

fn granularity() -> u64 {
    GRANULARITY.load(Relaxed)
}

/// Makes room in every queue for one more thread.
///
/// # Errors
/// EAGAIN (there are too many), ENOMEM.
pub fn admit() -> Result<()> {
    let threads = THREADS.fetch_add(1, Relaxed) + 1;
    if threads <= ROOM.load(Relaxed) {
        return Ok(());
    }
    let most = most_threads();
    if threads > most {
        uncount();
        return Err(Errno::EAGAIN);
    }
    let room = threads.next_power_of_two().max(64).min(most);
    for cpu in cpu::online() {
        let mut queue = cpu.sched().lock();
        let more = room.saturating_sub(queue.ready.len());
        if queue.ready.try_reserve(more).is_err() {
            uncount();
            return Err(Errno::ENOMEM);
        }
    }
    ROOM.fetch_max(room, Relaxed);
    Ok(())
}

/// The maximum number of threads (`/proc/sys/kernel/threads-max`); 0 until it is set: then it is
/// the number whose stacks fit in an eighth of memory.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// The bounds of the default, as on Linux (MIN_THREADS, MAX_THREADS).
const LEAST: usize = 20;
const LARGEST: usize = 0x3fff_ffff;

/// The maximum number of threads.
pub fn most_threads() -> usize {
    match MOST.load(Relaxed) {
        0 => {
            let stacks = frame::total() * PAGE_SIZE / (8 * KERNEL_STACK_SIZE);
            stacks.clamp(LEAST, LARGEST)
        }
        most => most,
    }
}

/// Changes the maximum.
pub fn set_most_threads(most: usize) {
    MOST.store(most, Relaxed);
    // Makes the next new thread check it.
    ROOM.store(0, Relaxed);
}

/// Uncounts an admitted thread, which has ended.
pub fn uncount() {
    THREADS.fetch_sub(1, Relaxed);
}

/// The number of threads, without the idle ones.
pub fn threads() -> usize {
    THREADS.load(Relaxed)
}

/// The number of context switches of all CPUs.
pub fn switches() -> u64 {
    let count = |cpu: &'static cpu::Cpu| cpu.sched().switches.load(Relaxed);
    cpu::online().map(count).sum()
}

/// The number of running and runnable threads.
pub fn runnable() -> usize {
    let count = |cpu: &'static cpu::Cpu| cpu.sched().waiting() + !cpu.sched().idles() as usize;
    cpu::online().map(count).sum()
}
