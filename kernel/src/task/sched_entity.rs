//! The scheduler's data of a thread, and the weights of nice values.

use super::count_groups::Mode;
use super::real_time;
use super::sched::state;
use crate::arch::irq::Interrupted;
use crate::mm::AddressSpace;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{SCHED_FIFO, SCHED_IDLE, SCHED_RR};
use wakeup::Sleeper;

/// The weight of nice 0.
const NORMAL: u32 = 1024;

/// Weights of nice -20 to 19: each step is a quarter more or less (Linux's `sched_prio_to_weight`).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

fn weight_of(nice: i32) -> u32 {
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// The weight of SCHED_IDLE.
const LIGHTEST: u32 = 3;

/// A scheduling class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Before all others, with a priority (1 to 99).
    RealTime(u32),
    /// By its share of the time, with a weight.
    Fair(u32),
}

impl Class {
    /// The class of a policy (SCHED_*), its priority, and a nice value.
    pub fn new(policy: u32, priority: u32, nice: i32) -> Self {
        match policy {
            SCHED_FIFO | SCHED_RR => Class::RealTime(priority),
            SCHED_IDLE => Class::Fair(LIGHTEST),
            _ => Class::Fair(weight_of(nice)),
        }
    }

    /// This class, or that of the given real-time priority (0 for none) if it is higher.
    pub fn at_least(self, priority: u32) -> Self {
        match self {
            Class::Fair(_) if priority == 0 => self,
            Class::Fair(_) => Class::RealTime(priority),
            Class::RealTime(own) => Class::RealTime(own.max(priority)),
        }
    }
}

/// The scheduler's data of a thread.
pub struct Entity {
    /// Its state (bits of [`state`]), its CPU, and whether it is in that CPU's queue.
    pub(super) sleeper: Sleeper,
    /// 0 in the real-time policies.
    pub(super) weight: AtomicU32,
    /// Ticks run, weighted; in the real-time policies the value of [`real_time::place`].
    vruntime: AtomicU64,
    /// Ticks run.
    runtime: AtomicU64,
    /// The time since which it waits for a CPU, and how long it waited before, in ticks (Linux's
    /// `struct sched_info`).
    queued_at: AtomicU64,
    run_delay: AtomicU64,
    /// The number of samples that found it in its program, and in the kernel.
    samples: [AtomicU64; 2],
    /// CPUs that it may run on.
    allowed: AtomicU64,
    /// Address of its address space, 0 for none.
    pub(super) space: AtomicUsize,
    /// A `count_groups::Mode`.
    mode: AtomicU32,
    /// Whether the thread left its CPU because the CPU is no longer allowed.
    pub(super) expelled: AtomicBool,
    /// The number of voluntary switches, and of preemptions.
    switches: [AtomicU64; 2],
    /// Its data of the real-time policies.
    pub(super) real_time: real_time::State,
}

impl Entity {
    /// The entity of a thread that does not run yet, in the address space at `space`, or none.
    #[inline(always)]
    pub(super) fn new(allowed: u64, nice: i32, space: usize, mode: Mode) -> Self {
        let weight = weight_of(nice);
        Entity {
            sleeper: Sleeper::new(state::UNINTERRUPTIBLE.into()),
            weight: AtomicU32::new(weight),
            vruntime: AtomicU64::new(real_time::END),
            runtime: AtomicU64::new(0),
            queued_at: AtomicU64::new(0),
            run_delay: AtomicU64::new(0),
            samples: [AtomicU64::new(0), AtomicU64::new(0)],
            allowed: AtomicU64::new(allowed),
            space: AtomicUsize::new(space),
            mode: AtomicU32::new(mode.0),
            expelled: AtomicBool::new(false),
            switches: [AtomicU64::new(0), AtomicU64::new(0)],
            real_time: real_time::State::new(),
        }
    }

    /// The thread's state: bits of [`state`].
    #[inline]
    pub fn state(&self) -> u8 {
        self.sleeper.state() as u8
    }

    /// Ticks of CPU time used, up to its last switch.
    pub fn runtime(&self) -> u64 {
        self.runtime.load(Relaxed)
    }

    /// The number of samples that found it in its program, and in the kernel
    /// ([`tick`](super::tick)).
    pub fn samples(&self) -> [u64; 2] {
        self.samples.each_ref().map(|count| count.load(Relaxed))
    }

    /// Counts samples that found the thread in its program or in the kernel.
    pub(super) fn add_samples(&self, from: Interrupted, times: u64) {
        let count = &self.samples[from as usize];
        count.store(count.load(Relaxed) + times, Relaxed);
    }

    /// Weight among its CPU's threads.
    pub fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Whether the thread has a real-time policy.
    #[inline]
    pub fn is_real_time(&self) -> bool {
        self.weight() == 0
    }

    /// The real-time priority at which it runs, inherited or its own; 0 in the other policies.
    #[inline]
    pub fn priority(&self) -> u32 {
        real_time::priority(self.vruntime())
    }

    /// Changes the class of a thread that is in no queue; `least` is that of its CPU's queue.
    pub(super) fn set_class(&self, class: Class, least: u64) {
        match class {
            Class::RealTime(priority) => {
                self.weight.store(0, Relaxed);
                self.set_vruntime(real_time::place(priority));
            }
            Class::Fair(weight) => {
                if self.is_real_time() {
                    self.set_vruntime(least);
                }
                self.weight.store(weight, Relaxed);
            }
        }
    }

    /// CPUs that the thread may run on, as bits.
    pub fn allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }

    /// The CPU on which the thread runs, last ran, or will run next.
    pub fn cpu(&self) -> usize {
        self.sleeper.cpu()
    }

    /// The number of sleeps and of preemptions.
    pub fn switches(&self) -> (u64, u64) {
        (
            self.switches[0].load(Relaxed),
            self.switches[1].load(Relaxed),
        )
    }

    pub(super) fn mode(&self) -> Mode {
        Mode(self.mode.load(Relaxed))
    }

    /// Sets the mode. A thread that reads this mode sees the stores before it.
    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.swap(mode.0, AcqRel);
    }

    /// Like [`prepare`](super::sched::prepare) for this thread. A fence orders all earlier accesses
    /// before its check of the condition.
    #[inline]
    pub(super) fn announce(&self, state: u8) {
        self.sleeper.announce(state.into());
    }

    /// Whether this is the thread's address space.
    pub(super) fn has_space(&self, space: &AddressSpace) -> bool {
        self.space.load(Relaxed) == core::ptr::from_ref(space).addr()
    }

    pub(super) fn set_space(&self, address: usize) {
        self.space.store(address, Relaxed);
    }

    /// Sets the CPUs that the thread may run on, as bits. Takes effect when it is next chosen or
    /// woken.
    pub fn allow(&self, cpus: u64) {
        self.allowed.store(cpus, Relaxed);
    }

    pub(super) fn vruntime(&self) -> u64 {
        self.vruntime.load(Relaxed)
    }

    pub(super) fn set_vruntime(&self, ticks: u64) {
        self.vruntime.store(ticks, Relaxed);
    }

    pub(super) fn charge(&self, ticks: u64) {
        self.runtime.store(self.runtime() + ticks, Relaxed);
        self.set_vruntime(self.vruntime() + self.weighted(ticks));
    }

    /// The virtual runtime for `ticks`.
    #[inline(always)]
    pub(super) fn weighted(&self, ticks: u64) -> u64 {
        match self.weight() {
            NORMAL => ticks,
            0 => 0,
            weight => ticks * NORMAL as u64 / weight as u64,
        }
    }

    /// The ticks that it was runnable and waited for a CPU, until it last got one.
    pub fn run_delay(&self) -> u64 {
        self.run_delay.load(Relaxed)
    }

    /// The thread begins to wait for a CPU.
    pub(super) fn wait_from(&self, now: u64) {
        self.queued_at.store(now, Relaxed);
    }

    /// Adds the wait that ends now to the thread's run delay: it gets a CPU, or leaves a queue.
    #[inline(always)]
    pub(super) fn arrive(&self, now: u64) {
        let before = self.run_delay().wrapping_sub(self.queued_at.load(Relaxed));
        self.run_delay.store(before.wrapping_add(now), Relaxed);
    }

    pub(super) fn remove_throttled(&self) {
        self.sleeper.dequeue();
        self.expelled.store(true, Relaxed);
    }

    pub(super) fn count_switch(&self, preempted: bool) {
        let count = &self.switches[preempted as usize];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}
