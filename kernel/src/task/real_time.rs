//! The real-time policies: SCHED_FIFO and SCHED_RR.
//!
//! Their threads are in the queues of [`queue`](super::queue) with a virtual runtime below [`END`]:
//! the higher the priority, the lower the runtime. Time limits are checked at the ticks that sample
//! running threads anyway.
//!
//! Other threads never starve: if they have waited for a second, real-time threads are held back
//! for a twentieth of a second.

use crate::task::CpuParts;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use linux_raw_sys::general::{RLIMIT_RTTIME, SCHED_RR, SIGKILL, SIGXCPU};

use super::limits::INFINITY;
use super::signal::{self, Info};
use super::tick::PERIOD_NS;
use super::{Thread, clock, sched};
use crate::arch::cpu::{self, Cpu};
use crate::arch::{current_arc, time, work::NEED_RESCHED};

/// Real-time threads have virtual runtimes below it; those of all others start at it.
pub const END: u64 = 128 << 32;

/// The virtual runtime of a priority (1 to 99). Two of them differ by more than any span over which
/// virtual runtimes are compared.
pub fn place(priority: u32) -> u64 {
    u64::from(99 - priority.min(99)) << 32
}

/// The priority of a virtual runtime, 0 for that of an ordinary thread.
pub fn priority(place: u64) -> u32 {
    99_u32.saturating_sub((place >> 32) as u32)
}

/// How long SCHED_RR lets a thread run while others of its priority wait, in ns.
static TURN: AtomicU32 = AtomicU32::new(USUAL_TURN);
/// The same in ms, as it was set (`sched_rr_timeslice_ms`).
static TURN_MS: AtomicU32 = AtomicU32::new(USUAL_TURN_MS);
const USUAL_TURN_MS: u32 = 100;
const USUAL_TURN: u32 = ticks_of(USUAL_TURN_MS);
/// How long others wait at most, and how long they then run (Linux's fair server).
const MOST_STARVED: u32 = (950_000_000 / PERIOD_NS) as u32;
const LENT_NS: u64 = 50_000_000;

const fn ticks_of(ms: u32) -> u32 {
    (ms as u64 * 1_000_000).div_ceil(PERIOD_NS) as u32
}

/// How long SCHED_RR lets a thread run, in whole ticks, in ns.
pub fn turn_ns() -> u64 {
    u64::from(TURN.load(Relaxed)) * PERIOD_NS
}

/// How long SCHED_RR lets a thread run, in ms, as it was set (`sched_rr_timeslice_ms`).
pub fn turn_ms() -> u32 {
    TURN_MS.load(Relaxed)
}

/// Sets the time; 0 or less sets the default.
pub fn set_turn_ms(ms: i32) {
    let ms = if ms > 0 { ms as u32 } else { USUAL_TURN_MS };
    TURN_MS.store(ms, Relaxed);
    TURN.store(ticks_of(ms), Relaxed);
}

/// A thread's data of the real-time policies.
pub struct State {
    /// Elapsed ticks of its turn.
    turn: AtomicU32,
    /// Whether its turn is over.
    over: AtomicBool,
    /// The priority that it inherits from the waiters for its locks, 0 for none.
    inherited: AtomicU8,
    /// Whether a thread ever waited for a lock of this thread.
    lender: AtomicBool,
    /// Ticks since the thread last slept, and its number of sleeps at that time.
    awake: AtomicU32,
    sleeps: AtomicU64,
}

impl State {
    /// The state of a thread that has not run yet.
    pub const fn new() -> Self {
        State {
            turn: AtomicU32::new(0),
            over: AtomicBool::new(false),
            inherited: AtomicU8::new(0),
            lender: AtomicBool::new(false),
            awake: AtomicU32::new(0),
            sleeps: AtomicU64::new(0),
        }
    }

    /// The priority that the thread inherits from the waiters for its locks, 0 for none.
    pub fn inherited(&self) -> u32 {
        self.inherited.load(Relaxed).into()
    }

    /// Sets the inherited priority.
    pub fn set_inherited(&self, priority: u32) {
        self.inherited.store(priority as u8, Relaxed);
    }

    /// Whether a thread ever waited for a lock of this thread.
    pub fn is_lender(&self) -> bool {
        self.lender.load(Relaxed)
    }

    /// Notes that a thread begins to wait for a lock of this one. The caller executes a fence
    /// before it checks whether this thread still lives, so that a thread that ends sees the mark.
    pub fn set_lender(&self) {
        self.lender.store(true, Relaxed);
    }

    /// Ends the thread's turn, so that the next of its priority runs.
    pub(super) fn end_turn(&self) {
        self.over.store(true, Relaxed);
    }

    /// Takes the mark that its turn is over; returns whether it was set.
    pub(super) fn turn_is_over(&self) -> bool {
        self.over.swap(false, Relaxed)
    }
}

/// Handles a tick of `cpu`, which runs `thread`.
#[inline]
pub(super) fn tick(cpu: &'static Cpu, thread: &Thread, now: u64) {
    if thread.sched.is_real_time() {
        tick_of(cpu, thread, now);
    } else if cpu.sched().holds_back() {
        if now >= cpu.sched().held_until() && cpu.sched().take_back() {
            resched(thread);
        }
    } else if cpu.sched().starved.load(Relaxed) != 0 {
        cpu.sched().starved.store(0, Relaxed);
    }
}

#[cold]
fn tick_of(cpu: &'static Cpu, thread: &Thread, now: u64) {
    let state = &thread.sched.real_time;
    let (equal, others) = cpu.sched().waits_beside(thread);
    let turn = state.turn.load(Relaxed) + 1;
    let most = TURN.load(Relaxed);
    state.turn.store(turn % most, Relaxed);
    if turn >= most && equal && thread.policy().0 == SCHED_RR {
        state.end_turn();
        resched(thread);
    }
    let starved = match others {
        true => cpu.sched().starved.load(Relaxed) + 1,
        false => 0,
    };
    cpu.sched().starved.store(starved % MOST_STARVED, Relaxed);
    if starved >= MOST_STARVED {
        cpu.sched().hold_back(now + time::ns_to_ticks(LENT_NS));
        resched(thread);
    } else {
        pass_on(cpu);
    }
    limit(thread);
}

fn resched(thread: &Thread) {
    thread.arch.work.fetch_or(NEED_RESCHED, Relaxed);
}

/// Moves a waiting real-time thread to a CPU that runs a thread of lower priority.
fn pass_on(cpu: &'static Cpu) {
    if cpu.sched().waiting() == 0 {
        return;
    }
    for other in cpu::online() {
        if !core::ptr::eq(cpu, other)
            && let Some(thread) = cpu.sched().take_for(other)
        {
            return sched::enqueue(other, thread);
        }
    }
}

/// RLIMIT_RTTIME: a thread that does not sleep for that time gets a warning, another one each
/// second, and is killed at the hard limit.
fn limit(thread: &Thread) {
    let state = &thread.sched.real_time;
    let limits = &thread.process().limits;
    let Ok(limit) = limits.get(RLIMIT_RTTIME) else {
        return;
    };
    let sleeps = thread.sched.switches().0;
    if state.sleeps.swap(sleeps, Relaxed) != sleeps {
        state.awake.store(0, Relaxed);
    }
    if limit.soft == INFINITY {
        return;
    }
    let awake = state.awake.load(Relaxed) + 1;
    state.awake.store(awake, Relaxed);
    let us = awake as usize * (PERIOD_NS / 1000) as usize;
    let number = match us {
        us if limit.hard != INFINITY && us >= limit.hard => SIGKILL,
        us if us >= limit.soft => {
            // Raises the limit itself, as Linux does.
            limits.raise(RLIMIT_RTTIME, (clock::SECOND / 1000) as usize);
            SIGXCPU
        }
        _ => return,
    };
    // An ordinary signal needs no room.
    _ = signal::send_thread(&current_arc(), &Info::kernel(number));
}
