//! The times of each CPU since boot, as `/proc/stat` shows them. Idle time is measured; the rest is
//! divided in proportion to the samples of the CPU's tick.

use super::CpuParts;
use super::clock;
use super::rusage::{PrevCputime, Times, Usage};
use crate::arch::cpu::{self, Cpu};
use crate::arch::{MAX_CPUS, time};

/// A CPU's time, in ticks.
#[derive(Clone, Copy, Default)]
pub struct CpuTimes {
    /// The time in programs and in the kernel.
    pub busy: Times,
    /// The part of `busy` inside guests.
    pub guest: u64,
    /// The idle time.
    pub idle: u64,
}

/// The times that were last reported.
static REPORTED: [PrevCputime; MAX_CPUS] = [const { PrevCputime::new() }; MAX_CPUS];

impl CpuTimes {
    /// The times of a CPU until now.
    pub fn of(cpu: &Cpu) -> CpuTimes {
        let now = time::now_ticks();
        let idle = cpu.sched().idle_ticks(now);
        let usage = Usage {
            ticks: (now - clock::boot_ticks()).saturating_sub(idle),
            samples: cpu.tick().samples(),
            ..Usage::default()
        };
        let busy = REPORTED[cpu.index()].adjust(&usage);
        CpuTimes {
            busy,
            guest: cpu.tick().guest().min(busy.user),
            idle,
        }
    }

    /// The sum over all CPUs.
    pub fn of_all() -> CpuTimes {
        let all = cpu::online().map(CpuTimes::of);
        all.fold(CpuTimes::default(), |sum, one| CpuTimes {
            busy: sum.busy.plus(one.busy),
            guest: sum.guest + one.guest,
            idle: sum.idle + one.idle,
        })
    }
}
