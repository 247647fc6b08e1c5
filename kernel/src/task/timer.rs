//! Timers: each CPU has a queue of deadlines, and its clock interrupts at the first.

extern crate alloc;

use crate::task::CpuParts;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use deadlines::{Deadlines, Ticket};

use super::{Thread, sched};
use crate::arch::cpu::{self, Cpu};
use crate::arch::irq::Interrupted;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;

/// An action at a certain time.
pub trait Expire: Send + Sync {
    /// Called in an interrupt at that time, with no spin lock held; but the interrupted thread may
    /// hold an address space and sleeping locks. Must not sleep.
    fn expire(self: Arc<Self>);

    /// The name of its type, for /proc/timer_list.
    fn what(&self) -> &'static str {
        core::any::type_name::<Self>()
    }
}

enum Action {
    /// Wakes a thread: with slack, it may be woken from `earliest` on, if the timer fires for
    /// another deadline.
    Wake {
        thread: Arc<Thread>,
        earliest: u64,
    },
    Call(Arc<dyn Expire>),
}

impl Action {
    /// The earliest time at which it may expire, if it must expire at `deadline`.
    fn earliest(&self, deadline: u64) -> u64 {
        match self {
            Action::Wake { earliest, .. } => *earliest,
            Action::Call(_) => deadline,
        }
    }
}

/// The limit of one timer interrupt, in ns: no further timer is run after it. A user may have
/// thousands of timers that are due again at once.
const LONGEST: u64 = 500_000;
/// The longest pause, in ns, after a timer interrupt that left timers due.
const LONGEST_REST: u64 = 100_000_000;

/// One CPU's deadlines.
pub struct Queue {
    due: Mutex<Deadlines<Action>>,
    /// The time for which the clock is programmed, in ticks; only this CPU uses it.
    armed: AtomicU64,
}

impl Queue {
    /// A queue without deadlines.
    pub const fn new() -> Self {
        Queue {
            due: Mutex::new(Deadlines::new()),
            armed: AtomicU64::new(u64::MAX),
        }
    }

    /// Removes a timer that is due at `now`, or may expire already.
    fn pop(&self, now: u64) -> Option<Action> {
        let mut due = self.due.lock();
        let (deadline, action) = due.get(0)?;
        let may_come = action.earliest(deadline) <= now;
        may_come.then(|| due.take_due(deadline)).flatten()
    }

    fn first(&self) -> u64 {
        self.due.lock().first().unwrap_or(u64::MAX)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

/// A deadline, which is cancelled when this is dropped.
pub struct Timer {
    cpu: &'static Cpu,
    ticket: Ticket,
}

impl Timer {
    /// Wakes `thread` at `deadline` (absolute, in ticks), or up to `slack` ticks later.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn wake(deadline: u64, slack: u64, thread: Arc<Thread>) -> Result<Timer> {
        let action = Action::Wake {
            thread,
            earliest: deadline,
        };
        Self::add(deadline.saturating_add(slack), action)
    }

    /// Calls `target` at `deadline` (absolute, in ticks).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn call(deadline: u64, target: Arc<dyn Expire>) -> Result<Timer> {
        Self::add(deadline, Action::Call(target))
    }

    fn add(deadline: u64, action: Action) -> Result<Timer> {
        let cpu = cpu::this();
        let ticket = add(cpu, deadline, action)?;
        Ok(Timer { cpu, ticket })
    }
}

/// Like [`Timer::call`], on this CPU, but it cannot be cancelled.
///
/// # Errors
/// ENOMEM.
pub(super) fn call(deadline: u64, target: Arc<dyn Expire>) -> Result<()> {
    add(cpu::this(), deadline, Action::Call(target)).map(drop)
}

/// Adds a deadline to those of `cpu`, which is this CPU.
#[inline(always)]
fn add(cpu: &Cpu, deadline: u64, action: Action) -> Result<Ticket> {
    let added = cpu.timers().due.lock().add(deadline, action);
    let ticket = added.map_err(|_| Errno::ENOMEM)?;
    arm(cpu, deadline);
    Ok(ticket)
}

impl Drop for Timer {
    fn drop(&mut self) {
        let gone = self.cpu.timers().due.lock().remove(self.ticket);
        drop(gone);
    }
}

/// The effect of a deadline.
pub enum Expiry {
    /// A thread is woken.
    Wakes(Arc<Thread>),
    /// An object of this type is called.
    Calls(&'static str),
}

/// The deadline at an index in a CPU's queue at this moment, as its earliest and latest time in
/// ticks, and its effect. They are in no order, and move as others are added and removed.
pub fn describe(cpu: &Cpu, at: usize) -> Option<([u64; 2], Expiry)> {
    let due = cpu.timers().due.lock();
    let (deadline, action) = due.get(at)?;
    let expiry = match action {
        Action::Wake { thread, .. } => Expiry::Wakes(thread.clone()),
        Action::Call(target) => Expiry::Calls(target.what()),
    };
    Some(([action.earliest(deadline), deadline], expiry))
}

/// Makes this CPU's timer fire at `deadline` (in ticks) at the latest. It may fire earlier, which
/// is harmless.
#[inline]
pub(super) fn arm(cpu: &Cpu, deadline: u64) {
    if deadline < cpu.timers().armed.load(Relaxed) {
        cpu.timers().armed.store(deadline, Relaxed);
        time::set_deadline(Some(deadline));
    }
}

/// Handles the timer interrupt of this CPU.
pub fn interrupt(from: Interrupted) {
    let cpu = cpu::this();
    cpu.timers().armed.store(u64::MAX, Relaxed);
    time::set_deadline(None);
    let (now, left) = expire(cpu);
    sched::check_slice(cpu, now);
    cpu.tick().on_tick(cpu, from, now);
    // A slice that is over needs no timer: the switch that it requested begins the next one.
    let slice = Some(cpu.sched().slice_end()).filter(|&end| end > now);
    let next = cpu.timers().first().min(slice.unwrap_or(u64::MAX));
    let next = next.min(cpu.tick().due());
    match left {
        Some(rest) => {
            // The clock is not programmed for an earlier time.
            cpu.timers().armed.store(0, Relaxed);
            time::set_deadline(Some(rest));
        }
        None if next != u64::MAX => arm(cpu, next),
        None => {}
    }
}

/// Runs the timers that are due on this CPU. Returns the time, and the time at which to continue if
/// some are left: programs get the CPU for as long as this took, as in Linux's `hrtimer_interrupt`.
fn expire(cpu: &Cpu) -> (u64, Option<u64>) {
    let began = time::now_ticks();
    let (mut now, longest) = (began, time::ns_to_ticks(LONGEST));
    while now - began <= longest {
        match cpu.timers().pop(now) {
            None => return (now, None),
            Some(Action::Wake { thread, .. }) => _ = sched::wake(thread),
            Some(Action::Call(target)) => target.expire(),
        }
        now = time::now_ticks();
    }
    let rest = (now - began).min(time::ns_to_ticks(LONGEST_REST));
    (now, (cpu.timers().first() <= now).then_some(now + rest))
}
