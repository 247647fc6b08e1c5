//! The watchdog: if a CPU is stuck, it ends the machine with the backtraces of all CPUs, instead of
//! silence for ever (Linux's lockup detectors, Documentation/admin-guide/lockup-watchdogs.rst).
//!
//! Each busy CPU has a timer, which expires five times within the time of a soft lockup. Each time,
//! the CPU checks itself and its neighbour:
//!
//! - Soft lockup: the CPU takes interrupts, but has not scheduled, though each expiry requested it.
//! - Hard lockup: the neighbour's timer has not expired. The kernel masks interrupts, and polls for
//!   them in long loops; only the neighbour notices a CPU that does not poll.
//!
//! Expirations on the checking CPU are counted, not time: if the host stopped the machine for a
//! minute, only one expiry is late. A CPU that is idle, and whose neighbour is idle, has no timer.
//! No hot path has extra work: the scheduler records anyway when it last charged a thread, and a
//! CPU that becomes busy passes the place where its tick restarts.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};

use super::timer::{self, Expire};
use super::{CpuParts, current, membarrier};
use crate::arch::cpu::{self, Cpu};
use crate::arch::work::NEED_RESCHED;
use crate::arch::{MAX_CPUS, time};
use crate::mm::heap::try_arc;
use crate::params;
use crate::sync::Once;
use machine::{backtrace, panic};

/// The time of a hard lockup, in seconds; a soft one takes twice as long. 0 switches both off
/// (`watchdog_thresh`).
pub static THRESHOLD: AtomicUsize = AtomicUsize::new(USUAL_THRESHOLD);
const USUAL_THRESHOLD: usize = 10;
/// The maximum, as on Linux.
pub const MOST_THRESHOLD: usize = 60;
/// Whether the watchdog is on (`watchdog`).
pub static ENABLED: AtomicUsize = AtomicUsize::new(1);
/// Whether a soft lockup ends the machine (`softlockup_panic`). Linux only logs it by default.
pub static SOFT_ENDS: AtomicUsize = AtomicUsize::new(1);

/// Expiries without a switch that are a soft lockup; the first one requests a switch.
const SOFT: u32 = 6;
/// Missing expiries of the neighbour that are a hard lockup.
const HARD: u32 = 3;

/// The watchdog's data for a CPU.
struct Watch {
    /// Whether the CPU has a timer.
    armed: AtomicBool,
    /// The number of expiries of the timer.
    strikes: AtomicU32,
    /// When the scheduler had last charged a thread at the previous expiry, and at how many
    /// expiries the value was the same.
    charged: AtomicU64,
    same: AtomicU32,
    /// The neighbour's expiries at the previous expiry, and at how many the value was the same.
    seen: AtomicU32,
    missing: AtomicU32,
}

static WATCHES: [Watch; MAX_CPUS] = [const { Watch::new() }; MAX_CPUS];

/// The timers' target, once it exists.
static STRIKE: Once<Arc<Strike>> = Once::new();

struct Strike;

impl Watch {
    const fn new() -> Self {
        Watch {
            armed: AtomicBool::new(false),
            strikes: AtomicU32::new(0),
            charged: AtomicU64::new(0),
            same: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            missing: AtomicU32::new(0),
        }
    }

    fn of(cpu: &Cpu) -> &'static Self {
        &WATCHES[cpu.index()]
    }

    /// Counts how often `value` was the same in succession.
    fn repeated(count: &AtomicU32, same: bool) -> u32 {
        let times = if same { count.load(Relaxed) + 1 } else { 0 };
        count.store(times, Relaxed);
        times
    }

    /// Checks whether this CPU, whose thread is not idle if it is `busy`, has scheduled; returns
    /// the number of expiries since then.
    fn strikes_without_switch(&self, cpu: &Cpu, busy: bool) -> u32 {
        let charged = cpu.sched().charged();
        let same = charged == self.charged.swap(charged, Relaxed);
        Self::repeated(&self.same, same && busy)
    }

    /// Checks whether the timer of `other` has expired; returns how many expiries are missing.
    fn strikes_missing(&self, other: &Watch) -> u32 {
        let strikes = other.strikes.load(Relaxed);
        let same = strikes == self.seen.swap(strikes, Relaxed);
        Self::repeated(&self.missing, same && other.armed.load(Relaxed))
    }
}

/// The time of a hard lockup, in seconds; `None` while the watchdog is off.
fn threshold() -> Option<u64> {
    let threshold = THRESHOLD.load(Relaxed) as u64;
    (threshold != 0 && ENABLED.load(Relaxed) != 0).then_some(threshold)
}

/// The time between two expiries, in ticks.
fn period(threshold: u64) -> u64 {
    time::ns_to_ticks(threshold * 2 * 1_000_000_000 / 5)
}

/// The online CPU that `cpu` watches; `None` if it is alone.
fn neighbour(cpu: &Cpu) -> Option<&'static Cpu> {
    let possible = cpu::possible();
    (1..possible).find_map(|step| cpu::get((cpu.index() + step) % possible))
}

/// The online CPU that watches `cpu`; `None` if it is alone.
fn watcher(cpu: &Cpu) -> Option<&'static Cpu> {
    let possible = cpu::possible();
    (1..possible).find_map(|step| cpu::get((cpu.index() + possible - step) % possible))
}

/// Reads the parameters `nowatchdog`, `watchdog_thresh` and `softlockup_panic`, and `selftest`,
/// whose tests run for long without a switch.
pub(super) fn init() {
    let number = |name| params::get(name).and_then(|value: &str| value.parse::<usize>().ok());
    let threshold = number("watchdog_thresh").filter(|&threshold| threshold <= MOST_THRESHOLD);
    let usual = match params::get("selftest") {
        Some(_) => 0,
        None => USUAL_THRESHOLD,
    };
    THRESHOLD.store(threshold.unwrap_or(usual), Relaxed);
    ENABLED.store(params::get("nowatchdog").is_none() as usize, Relaxed);
    SOFT_ENDS.store((number("softlockup_panic") != Some(0)) as usize, Relaxed);
    STRIKE.call_once(|| try_arc(Strike).expect("memory for the watchdog"));
}

/// Starts to watch `cpu`, which is this CPU, as it becomes busy.
#[cold]
pub(super) fn start(cpu: &Cpu) {
    if threshold().is_none() {
        return;
    }
    arm(cpu);
    // Pairs with the fence of `Strike::expire`.
    fence(SeqCst);
    if let Some(watcher) = watcher(cpu)
        && !Watch::of(watcher).armed.load(Relaxed)
    {
        membarrier::kick(watcher);
    }
}

/// Gives this CPU its timer, if it has none.
fn arm(cpu: &Cpu) {
    let watch = Watch::of(cpu);
    let (Some(threshold), Some(target)) = (threshold(), STRIKE.get()) else {
        return;
    };
    if !watch.armed.load(Relaxed)
        && timer::call(time::now_ticks() + period(threshold), target.clone()).is_ok()
    {
        watch.armed.store(true, Relaxed);
    }
}

/// Handles an interrupt of another CPU, which this one watches and which became busy, or which
/// wants a backtrace.
#[cold]
pub(super) fn interrupt() {
    backtrace::answer();
    let cpu = cpu::this();
    if neighbour(cpu).is_some_and(|other| other.tick().is_busy()) {
        arm(cpu);
    }
}

impl Expire for Strike {
    fn expire(self: Arc<Self>) {
        let cpu = cpu::this();
        let watch = Watch::of(cpu);
        watch
            .strikes
            .store(watch.strikes.load(Relaxed) + 1, Relaxed);
        watch.armed.store(false, Relaxed);
        let Some(threshold) = threshold() else {
            return;
        };
        let thread = current();
        let busy = !cpu.sched().is_idle(&thread);
        let neighbour = neighbour(cpu);
        let same = watch.strikes_without_switch(cpu, busy);
        if same >= SOFT {
            soft_lockup(cpu, u64::from(same) * threshold * 2 / 5);
        } else if same > 0 {
            thread.arch.work.fetch_or(NEED_RESCHED, Relaxed);
        }
        if let Some(other) = neighbour
            && watch.strikes_missing(Watch::of(other)) >= HARD
        {
            hard_lockup(other);
        }
        // Pairs with the fence of `start`: either that CPU sees that this one has no timer, or this
        // one sees that the other is busy.
        fence(SeqCst);
        if busy || neighbour.is_some_and(|other| other.tick().is_busy()) {
            arm(cpu);
        }
        if busy {
            start(cpu);
        }
    }
}

fn soft_lockup(cpu: &Cpu, seconds: u64) {
    let (name, tid) = (current().name(), current().tid());
    let name = core::str::from_utf8(&name)
        .unwrap_or("?")
        .trim_end_matches('\0');
    let what = format_args!(
        "watchdog: BUG: soft lockup - CPU#{} stuck for {seconds}s! [{name}:{tid}]",
        cpu.index()
    );
    if SOFT_ENDS.load(Relaxed) != 0 {
        panic::lockup(what, membarrier::kick);
    }
    crate::log!("{what}");
    Watch::of(cpu).same.store(0, Relaxed);
}

fn hard_lockup(other: &Cpu) -> ! {
    let what = format_args!(
        "watchdog: Watchdog detected hard LOCKUP on cpu {}",
        other.index()
    );
    panic::lockup(what, membarrier::kick)
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_switch_and_a_strike_begin_the_count_anew() {
        let (watch, other) = (Watch::new(), Watch::new());
        other.armed.store(true, Relaxed);
        other.strikes.store(7, Relaxed);
        let missing = [0, 1, 2].map(|_| watch.strikes_missing(&other));
        assert_eq!(missing, [0, 1, 2]);
        other.strikes.store(8, Relaxed);
        assert_eq!(watch.strikes_missing(&other), 0);
        other.armed.store(false, Relaxed);
        assert_eq!(watch.strikes_missing(&other), 0);
        let cpu = cpu::this();
        watch.charged.store(cpu.sched().charged(), Relaxed);
        assert_eq!([true, true, false].map(|busy| watch.strikes_without_switch(cpu, busy)), [1, 2, 0]);
    }

    fn a_cpu_watches_the_one_that_it_is_watched_by_in_a_ring() {
        for cpu in cpu::online() {
            match neighbour(cpu) {
                Some(other) => assert!(watcher(other).is_some_and(|it| core::ptr::eq(it, cpu))),
                None => assert_eq!(cpu::count(), 1),
            }
        }
    }
}
