use atomics::{AtomicBool, AtomicU32, Ordering::*, fence};

/// The state of a thread that runs or could run.
pub const RUNNABLE: u32 = 0;

/// The part of a thread's state that run queues and wakers share.
#[derive(Debug)]
pub struct Sleeper {
    /// [`RUNNABLE`], or bits for the kind of sleep.
    state: AtomicU32,
    /// Whether the thread is in a run queue or runs; changed under its CPU's lock.
    queued: AtomicBool,
    /// The CPU whose queue's lock protects the thread: it runs there, last ran there, or moves
    /// there.
    cpu: AtomicU32,
}

/// The result of a wake-up.
#[derive(Debug)]
pub enum Wake<G> {
    /// The thread is in none of the given kinds of sleep.
    NotAsleep,
    /// The thread had only announced a sleep, and continues.
    Running,
    /// The thread is runnable now but in no queue; the queue of its CPU is locked.
    Asleep(G),
}

impl Sleeper {
    /// The state of a thread that is in no queue.
    pub fn new(state: u32) -> Self {
        Sleeper {
            state: AtomicU32::new(state),
            queued: AtomicBool::new(false),
            cpu: AtomicU32::new(0),
        }
    }

    /// The state: [`RUNNABLE`], or the kind of sleep.
    #[inline]
    pub fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    /// Announces a sleep of the thread. A full fence must follow before it checks the condition.
    #[inline]
    pub fn announce(&self, state: u32) {
        self.state.store(state, Relaxed);
    }

    /// Announces a sleep of the thread, which checks the condition next.
    #[inline]
    pub fn prepare(&self, state: u32) {
        self.announce(state);
        fence(SeqCst);
    }

    /// Cancels the thread's sleep.
    #[inline]
    pub fn set_runnable(&self) {
        self.state.store(RUNNABLE, Relaxed);
    }

    /// The CPU on which the thread runs, last ran, or to which it moves.
    #[inline]
    pub fn cpu(&self) -> usize {
        self.cpu.load(Relaxed) as usize
    }

    /// Moves the thread to CPU `cpu`: it is runnable and in no queue, and the lock of its old CPU's
    /// queue is still held. So a CPU that has a queue's lock and finds that queue's CPU here has
    /// the lock that protects the thread.
    #[inline]
    pub fn set_cpu(&self, cpu: usize) {
        self.cpu.store(cpu as u32, Relaxed);
    }

    /// Records that the thread enters the queue of CPU `cpu`, whose lock is held.
    #[inline]
    pub fn enqueue(&self, cpu: usize) {
        self.set_cpu(cpu);
        self.queued.store(true, Relaxed);
    }

    /// Records that the thread leaves its CPU, whose queue's lock is held.
    #[inline]
    pub fn dequeue(&self) {
        self.queued.store(false, Relaxed);
    }

    /// Whether the thread is in a queue or runs. The lock of its CPU's queue must be held.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.queued.load(Relaxed)
    }

    /// Ends the sleeps in `states`, after the condition was changed. `lock` locks the run queue of
    /// a CPU.
    #[inline(always)]
    pub fn wake<G>(&self, states: u32, lock: impl Fn(usize) -> G) -> Wake<G> {
        fence(SeqCst);
        self.wake_listed(states, lock)
    }

    /// As [`wake`](Self::wake), for a thread that was found in a list. It enters the list under the
    /// list's lock after it has announced its sleep, and before it checks the condition.
    #[inline(always)]
    pub fn wake_listed<G>(&self, states: u32, lock: impl Fn(usize) -> G) -> Wake<G> {
        loop {
            let found = self.state.load(Relaxed);
            if found & states == 0 {
                return Wake::NotAsleep;
            }
            let cpu = self.cpu();
            let queue = lock(cpu);
            if self.cpu() != cpu
                || self
                    .state
                    .compare_exchange(found, RUNNABLE, AcqRel, Relaxed)
                    .is_err()
            {
                continue;
            }
            return if self.is_queued() {
                Wake::Running
            } else {
                Wake::Asleep(queue)
            };
        }
    }
}
