//! The kernel's share of a thread's CPU time, by sampling, so that no entry or exit reads a clock.
//!
//! The scheduler knows how long a thread ran. A CPU that runs one also samples, 250 times a second
//! like Linux here, whether it is in the program or in the kernel. The times that programs ask for
//! divide the run time in this ratio ([`rusage`](super::rusage)). An idle CPU, or one inside a
//! guest, takes no samples.
//!
//! Interrupts are masked in the kernel, so the tick always seems to hit a program. But an interrupt
//! that became pending in the kernel is taken before the program's first instruction, and so at the
//! pc that the kernel returned to, by which the entries recognise it.

use crate::task::CpuParts;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Thread, current, real_time, timer, watchdog};
use crate::arch::cpu::Cpu;
use crate::arch::irq::Interrupted;
use crate::arch::time;
use crate::sync::Once;

/// The time between two samples, in ns.
pub(super) const PERIOD_NS: u64 = 4_000_000;

/// When a CPU takes its next sample.
pub struct Tick {
    /// In ticks of the counter; MAX for never.
    due: AtomicU64,
    /// The time since which it takes no samples because it is inside a guest; 0 if it is not.
    inside: AtomicU64,
    /// The number of samples in programs, and in the kernel.
    samples: [AtomicU64; 2],
    /// Ticks inside guests, which count as programs.
    guest: AtomicU64,
}

fn period() -> u64 {
    static TICKS: Once<u64> = Once::new();
    *TICKS.call_once(|| time::ns_to_ticks(PERIOD_NS))
}

impl Tick {
    /// The tick of an idle CPU.
    pub const fn new() -> Self {
        Tick {
            due: AtomicU64::new(u64::MAX),
            inside: AtomicU64::new(0),
            samples: [const { AtomicU64::new(0) }; 2],
            guest: AtomicU64::new(0),
        }
    }

    /// The time of the next sample, in ticks; MAX for never.
    pub(super) fn due(&self) -> u64 {
        self.due.load(Relaxed)
    }

    /// Whether the CPU runs a thread or a guest.
    pub(super) fn is_busy(&self) -> bool {
        self.due() != u64::MAX || self.inside.load(Relaxed) != 0
    }

    /// The number of samples in programs, and in the kernel.
    pub(super) fn samples(&self) -> [u64; 2] {
        [0, 1].map(|kind| self.samples[kind].load(Relaxed))
    }

    /// Ticks inside guests.
    pub(super) fn guest(&self) -> u64 {
        self.guest.load(Relaxed)
    }

    /// Counts `times` samples that found `thread` in its program or in the kernel.
    fn add_samples(&self, thread: &Thread, from: Interrupted, times: u64) {
        thread.sched.add_samples(from, times);
        let count = &self.samples[from as usize];
        count.store(count.load(Relaxed) + times, Relaxed);
    }

    /// Takes a sample if it is due when the timer of `cpu` fires.
    pub(super) fn on_tick(&self, cpu: &'static Cpu, from: Interrupted, now: u64) {
        if now < self.due() {
            return;
        }
        let thread: &Thread = &current();
        if cpu.sched().is_idle(thread) {
            return self.due.store(u64::MAX, Relaxed);
        }
        // The whole time since the sample was due counts as the same kind, as far as it belongs to
        // this thread.
        let since = self.due().max(cpu.sched().charged());
        let times = 1 + now.saturating_sub(since) / period();
        self.add_samples(thread, from, times);
        self.due.store(now + period(), Relaxed);
        real_time::tick(cpu, thread, now);
    }

    /// The CPU becomes idle after `last`, which slept in the kernel; takes a sample if one is due.
    pub(super) fn leave(&self, last: &Thread, now: u64) {
        if now >= self.due() {
            self.add_samples(last, Interrupted::Kernel, 1);
            self.due.store(u64::MAX, Relaxed);
        }
    }

    /// Stops sampling, as the current thread enters a guest.
    #[cfg(guests)]
    pub fn pause(&self) {
        if self.due() != u64::MAX {
            self.due.store(u64::MAX, Relaxed);
            self.inside.store(time::now_ticks(), Relaxed);
        }
    }
}

impl Default for Tick {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts sampling: this CPU runs a thread, or its thread has left a guest.
#[inline]
pub fn restart(cpu: &Cpu) {
    if cpu.tick().due() == u64::MAX {
        begin(cpu);
    }
}

#[cold]
fn begin(cpu: &Cpu) {
    let now = time::now_ticks();
    let inside = cpu.tick().inside.load(Relaxed);
    if inside != 0 {
        let (tick, passed) = (cpu.tick(), now - inside);
        tick.add_samples(&current(), Interrupted::Program, passed / period());
        tick.guest.store(tick.guest() + passed, Relaxed);
        cpu.tick().inside.store(0, Relaxed);
    }
    cpu.tick().due.store(now + period(), Relaxed);
    timer::arm(cpu, now + period());
    watchdog::start(cpu);
}
