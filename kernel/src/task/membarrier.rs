//! Memory barriers on other CPUs: when [`wait`] returns, every program that shares the caller's
//! memory has executed one.
//!
//! Each barrier has a number, and each CPU records the last one that it has executed. A CPU that
//! does not run such a program has nothing to order, and executes a barrier before it runs one.

use crate::task::CpuParts;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::{count_groups, current, sched, watchdog};
use crate::arch::{cpu, emulation, smp};

/// The threads that a barrier is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All programs.
    All,
    /// The threads that share the caller's memory.
    Space,
}

/// The number of the last barrier.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Waits until every CPU that runs a program of `scope` has executed a barrier.
pub fn wait(scope: Scope) {
    let own = cpu::this().sched().active_space();
    wait_for_others(|other| {
        let space = other.sched().active_space();
        match scope {
            Scope::All => space != 0,
            Scope::Space => space == own,
        }
    });
}

/// Waits until every CPU applies the present modes of emulated instructions.
pub fn sync_emulation_modes() {
    emulation::apply_modes();
    wait_for_others(|_| true);
    // This thread may have moved to another CPU meanwhile.
    emulation::apply_modes();
}

/// Waits until every `concerned` CPU has executed a barrier. The CPUs on which this thread runs
/// meanwhile execute one by running this code.
fn wait_for_others(concerned: impl Fn(&cpu::Cpu) -> bool) {
    fence(SeqCst);
    let number = LAST.fetch_add(1, SeqCst) + 1;
    let first = cpu::this().index();
    let is_due = |other: &cpu::Cpu| {
        other.index() != first && concerned(other) && other.sched().barrier_seen() < number
    };
    cpu::online()
        .filter(|other| is_due(other))
        .for_each(|other| smp::kick(other.index()));
    for other in cpu::online() {
        while other.index() != cpu::this().index() && is_due(other) {
            sched::cond_resched();
            core::hint::spin_loop();
        }
    }
    fence(SeqCst);
}

/// Handles rare requests of other CPUs, such as a barrier.
pub fn interrupt() {
    let seen = &cpu::this().sched();
    let last = LAST.load(SeqCst);
    if seen.barrier_seen() < last {
        fence(SeqCst);
        current().disturb_rseq();
        count_groups::apply_current();
        emulation::apply_modes();
        seen.set_barrier_seen(last);
        watchdog::interrupt();
    }
}

/// Makes a CPU execute a barrier soon, and so reach [`watchdog::interrupt`]: interrupts without a
/// rare request do not test for it.
pub fn kick(other: &cpu::Cpu) {
    LAST.fetch_add(1, SeqCst);
    smp::kick(other.index());
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn every_cpu_online_passes_a_barrier() {
        let own = cpu::this().index();
        sync_emulation_modes();
        let last = LAST.load(SeqCst);
        let all = (0..crate::arch::MAX_CPUS).filter_map(cpu::get);
        // A CPU to which this thread moved meanwhile has executed the barrier that way; its
        // interrupt may be pending.
        all.filter(|other| other.index() != own).for_each(|other| {
            while other.index() != cpu::this().index() && other.sched().barrier_seen() < last {
                sched::cond_resched();
            }
        });
        assert_eq!(cpu::online_mask().count_ones() as usize, cpu::count());
    }
}
