//! What is due when: each CPU has a queue of deadlines, and its clock strikes at the first.

extern crate alloc;

use crate::task::CpuParts;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::{Thread, sched};
use crate::arch::cpu::{self, Cpu};
use crate::arch::irq::Interrupted;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::sync::{Mutex, Rank};

/// Something that happens at a time.
pub trait Expire: Send + Sync {
    /// The time has come. Called with no lock held, in no particular thread; must not sleep.
    fn expire(self: Arc<Self>);
}

enum Action {
    Wake(Arc<Thread>),
    Call(Arc<dyn Expire>),
}

struct Entry {
    deadline: u64,
    number: u64,
    action: Action,
}

struct Entries {
    /// By descending deadline, those of one deadline by descending number.
    list: Vec<Entry>,
    next_number: u64,
}

/// One CPU's deadlines.
pub struct Queue {
    entries: Mutex<Entries>,
    /// When the clock will strike, in ticks; this CPU's own.
    armed: AtomicU64,
}

impl Queue {
    /// A queue with nothing due.
    pub const fn new() -> Self {
        Queue {
            entries: Mutex::ranked(
                Rank::Deadlines,
                Entries {
                    list: Vec::new(),
                    next_number: 0,
                },
            ),
            armed: AtomicU64::new(u64::MAX),
        }
    }

    /// Takes what is due at `now`.
    fn pop(&self, now: u64) -> Option<Action> {
        let mut entries = self.entries.lock();
        let due = entries
            .list
            .last()
            .is_some_and(|entry| entry.deadline <= now);
        if due {
            entries.list.pop().map(|entry| entry.action)
        } else {
            None
        }
    }

    fn first(&self) -> u64 {
        self.entries
            .lock()
            .list
            .last()
            .map_or(u64::MAX, |entry| entry.deadline)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

/// A deadline that something waits for; forgotten when dropped.
pub struct Timer {
    cpu: &'static Cpu,
    deadline: u64,
    number: u64,
}

impl Timer {
    /// Wakes `thread` at `deadline` (absolute, in ticks).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn wake(deadline: u64, thread: Arc<Thread>) -> Result<Timer> {
        Self::add(deadline, Action::Wake(thread))
    }

    /// Lets `target` expire at `deadline` (absolute, in ticks).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn call(deadline: u64, target: Arc<dyn Expire>) -> Result<Timer> {
        Self::add(deadline, Action::Call(target))
    }

    fn add(deadline: u64, action: Action) -> Result<Timer> {
        let cpu = cpu::this();
        let mut entries = cpu.timers().entries.lock();
        entries.list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let number = entries.next_number;
        entries.next_number += 1;
        let at = entries
            .list
            .partition_point(|entry| entry.deadline >= deadline);
        // The new one has the greatest number, so it stands before its equals.
        let at = entries.list[..at].partition_point(|entry| entry.deadline > deadline);
        entries.list.insert(
            at,
            Entry {
                deadline,
                number,
                action,
            },
        );
        drop(entries);
        arm(cpu, deadline);
        Ok(Timer {
            cpu,
            deadline,
            number,
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut entries = self.cpu.timers().entries.lock();
        let key = (self.deadline, self.number);
        let found = entries
            .list
            .binary_search_by(|entry| key.cmp(&(entry.deadline, entry.number)));
        let gone = found.ok().map(|at| entries.list.remove(at));
        drop(entries);
        drop(gone);
    }
}

/// Makes this CPU's clock strike at `deadline` (in ticks) at the latest. It may strike earlier, which is harmless.
#[inline]
pub(super) fn arm(cpu: &Cpu, deadline: u64) {
    if deadline < cpu.timers().armed.load(Relaxed) {
        cpu.timers().armed.store(deadline, Relaxed);
        time::set_deadline(Some(deadline));
    }
}

/// The clock struck on this CPU.
pub fn interrupt(from: Interrupted) {
    let cpu = cpu::this();
    cpu.timers().armed.store(u64::MAX, Relaxed);
    time::set_deadline(None);
    let now = time::now_ticks();
    while let Some(action) = cpu.timers().pop(now) {
        match action {
            Action::Wake(thread) => _ = sched::wake(thread),
            Action::Call(target) => target.expire(),
        }
    }
    sched::check_slice(cpu, now);
    cpu.tick().strike(cpu, from, now);
    // A slice that is over needs no clock: the switch that it asked for begins the next one.
    let slice = Some(cpu.sched().slice_end()).filter(|&end| end > now);
    let next = cpu.timers().first().min(slice.unwrap_or(u64::MAX));
    let next = next.min(cpu.tick().due());
    if next != u64::MAX {
        arm(cpu, next);
    }
}
