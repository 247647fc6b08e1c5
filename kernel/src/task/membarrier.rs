//! Barriers on other CPUs: when [`wait`] returns, every program that shares the caller's memory has
//! passed one.
//!
//! A barrier has a number. Each CPU says which it has seen; one that runs no program of the kind
//! has nothing to order, and passes a barrier when it begins to run one.

use crate::task::CpuParts;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::{count_groups, current, sched};
use crate::arch::{cpu, emulation, smp};

/// The threads that a barrier is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All programs.
    All,
    /// Those in the caller's memory.
    Space,
}

/// The number of the last barrier.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Waits until a barrier has come to pass on every CPU that runs a program of `scope`.
pub fn wait(scope: Scope) {
    fence(SeqCst);
    let number = LAST.fetch_add(1, SeqCst) + 1;
    let own = cpu::this().sched().active_space();
    let others = || (0..cpu::count()).filter_map(cpu::get);
    let is_due = |other: &cpu::Cpu| {
        let space = other.sched().active_space();
        let concerned = match scope {
            Scope::All => space != 0,
            Scope::Space => space == own,
        };
        concerned && other.sched().barrier_seen() < number
    };
    for other in others() {
        if other.index() != cpu::this().index() && is_due(other) {
            smp::kick(other.index());
        }
    }
    for other in others() {
        // This thread may come to another CPU meanwhile: there it orders for itself.
        while other.index() != cpu::this().index() && is_due(other) {
            sched::cond_resched();
            core::hint::spin_loop();
        }
    }
    fence(SeqCst);
}

/// Waits until every CPU has settled which instructions of programs it executes.
pub fn settle_instructions() {
    emulation::settle();
    fence(SeqCst);
    let number = LAST.fetch_add(1, SeqCst) + 1;
    let others = || (0..cpu::count()).filter_map(cpu::get);
    let is_due = |other: &cpu::Cpu| {
        other.index() != cpu::this().index() && other.sched().barrier_seen() < number
    };
    others()
        .filter(|other| is_due(other))
        .for_each(|other| smp::kick(other.index()));
    for other in others() {
        while is_due(other) {
            sched::cond_resched();
            core::hint::spin_loop();
        }
    }
    // This thread may have come to another CPU meanwhile.
    emulation::settle();
}

/// Another CPU wants something of this one, maybe a barrier.
pub fn interrupt() {
    let seen = &cpu::this().sched();
    let last = LAST.load(SeqCst);
    if seen.barrier_seen() < last {
        fence(SeqCst);
        current().disturb_rseq();
        count_groups::apply_current();
        emulation::settle();
        seen.set_barrier_seen(last);
    }
}
