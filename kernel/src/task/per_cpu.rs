//! The kernel's per-CPU data.

use super::{sched::RunQueue, tick::Tick, timer};
use crate::arch::cpu::Cpu;

/// The kernel's data for one CPU, in addition to the machine's.
pub struct PerCpu {
    sched: RunQueue,
    timers: timer::Queue,
    tick: Tick,
}

impl PerCpu {
    /// The data of a CPU that is not running yet.
    pub const fn new() -> Self {
        PerCpu {
            sched: RunQueue::new(),
            timers: timer::Queue::new(),
            tick: Tick::new(),
        }
    }
}

/// Access to the parts of a CPU's [`PerCpu`].
pub trait CpuParts {
    /// Its run queue.
    fn sched(&self) -> &RunQueue;
    /// Its deadlines.
    fn timers(&self) -> &timer::Queue;
    /// Its samples of the running thread.
    fn tick(&self) -> &Tick;
}

impl CpuParts for Cpu {
    #[inline(always)]
    fn sched(&self) -> &RunQueue {
        &self.above::<PerCpu>().sched
    }

    #[inline(always)]
    fn timers(&self) -> &timer::Queue {
        &self.above::<PerCpu>().timers
    }

    #[inline(always)]
    fn tick(&self) -> &Tick {
        &self.above::<PerCpu>().tick
    }
}
