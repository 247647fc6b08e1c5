//! Tracing: a process is notified of a thread's actions, and inspects the thread while it is
//! stopped (ptrace(2)).
//!
//! A lock protects the state of a traced thread. A waker takes it before it wakes the thread from a
//! stop, so the registers can be read and changed while the lock is held and the thread is stopped.

mod link;
mod stop;

pub use link::{
    attach, check_options, end_of_thread, end_of_tracer, inherit, leader_replaced, look, trace_me,
    unlink,
};
pub use stop::{
    Call, detach, enter_call, event, executed, filtered, group_stop, interrupt, leave_call, listen,
    resume, signal_stop, take_interrupt, with_stopped,
};

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Thread;
use super::credentials::Credentials;
use super::signal::{self, Info};
use crate::arch::{self, work};
use crate::sync::Mutex;
use linux_raw_sys::general::CAP_SYS_PTRACE;

/// Whether a thread is traced, and how it continues, as bits.
pub mod flag {
    /// The thread is traced.
    pub const TRACED: u32 = 1;
    /// The thread stops before and after each system call.
    pub const CALLS: u32 = 2;
    /// The thread stops after each instruction.
    pub const STEP: u32 = 4;
    /// The thread stops at hardware breakpoints and watchpoints.
    pub const POINTS: u32 = 8;
    /// Its CPU is set up for one of these now.
    pub const DEBUGS: u32 = 16;
}

/// The tracing state of a thread.
#[derive(Default)]
pub struct State {
    flags: AtomicU32,
    /// The signal with which it continues.
    signal: AtomicU32,
    tracee: Mutex<Option<Box<Tracee>>>,
    /// The number of threads that it traces; with LETS_GO it does not grow.
    tracing: AtomicU32,
}

/// The bit of [`State::tracing`] that says that the thread is ending.
const LETS_GO: u32 = 1 << 31;

/// The state of a traced thread.
pub struct Tracee {
    /// Its tracer.
    pub tracer: Arc<Thread>,
    /// The credentials under which tracing was permitted (ptracer_cred).
    pub credentials: Arc<Credentials>,
    /// Whether it was attached by PTRACE_SEIZE.
    pub seized: bool,
    /// PTRACE_O_*.
    pub options: u32,
    /// The stop that it is in.
    pub stop: Option<Stop>,
    /// PTRACE_GETEVENTMSG.
    pub message: usize,
    /// The signal of the stop; `None` for a stop of the whole process.
    pub info: Option<Info>,
    /// Whether the thread must stop as soon as it can.
    interrupt: bool,
    /// Whether the thread stays stopped with its process, though its tracer continued it
    /// (PTRACE_LISTEN).
    listening: bool,
    /// The last stop of the process that the thread reported.
    reported_stop: u32,
    /// Its status as wait(2) reports it, when it has ended.
    ended: Option<u32>,
}

/// A stop.
#[derive(Clone, Copy)]
pub struct Stop {
    /// The signal, and the event above its 8 bits: the status of wait(2) above 0x7f.
    pub code: u32,
    /// Whether wait(2) has reported it.
    reported: bool,
    /// The system call in which the thread stopped.
    pub call: Call,
}

impl State {
    /// Bits of [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Counts one more tracee; false if the thread is ending.
    fn begin_tracing(&self) -> bool {
        let more = |tracing| (tracing & LETS_GO == 0).then_some(tracing + 1);
        self.tracing.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Counts one tracee less.
    fn end_tracing(&self) {
        self.tracing.fetch_sub(1, Relaxed);
    }

    fn is_tracing(&self) -> bool {
        self.tracing.load(Relaxed) & !LETS_GO != 0
    }

    /// From now on the thread gets no new tracees; returns whether it has none left.
    #[inline(always)]
    fn let_go(&self) -> bool {
        self.tracing.fetch_or(LETS_GO, Relaxed) == 0
    }

    /// Sets all flags except those that outlive a tracer, and the note about the thread's CPU.
    fn set(&self, flags: u32) {
        let change = |old| Some(old & (flag::POINTS | flag::DEBUGS) | flags);
        _ = self.flags.fetch_update(Relaxed, Relaxed, change);
    }
}

impl Thread {
    /// Whether it is traced.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        self.ptrace.flags() & flag::TRACED != 0
    }

    /// Whether its system calls are watched.
    pub fn is_watched(&self) -> bool {
        self.is_traced() || self.seccomp.mode() != 0
    }

    /// Its tracer.
    pub fn tracer(&self) -> Option<Arc<Thread>> {
        let tracee = self.ptrace.tracee.lock();
        tracee.as_ref().map(|tracee| tracee.tracer.clone())
    }

    fn is_traced_by_thread(&self, tracer: &Thread) -> bool {
        let tracee = self.ptrace.tracee.lock();
        let tracee = tracee.as_ref();
        tracee.is_some_and(|tracee| core::ptr::eq(&*tracee.tracer, tracer))
    }

    /// Whether its tracer lacks the right to trace any process (ptracer_capable).
    pub(super) fn is_traced_by_unprivileged(&self) -> bool {
        let tracee = self.ptrace.tracee.lock();
        tracee
            .as_ref()
            .is_some_and(|tracee| !tracee.credentials.can(CAP_SYS_PTRACE))
    }

    /// Whether its tracer wants events of `option` (PTRACE_O_*).
    pub(super) fn reports(&self, option: u32) -> bool {
        let tracee = self.ptrace.tracee.lock();
        tracee
            .as_ref()
            .is_some_and(|tracee| tracee.options & option != 0)
    }

    /// Calls `f`, which wakes the thread from a stop, while it is not being inspected.
    pub(super) fn when_not_looked_at(&self, f: impl FnOnce()) {
        let _lock = self.ptrace.tracee.lock();
        f();
    }
}

impl Thread {
    /// Reverts the CPU's debug settings for the thread.
    #[cold]
    pub(super) fn leave_debug(&self) {
        arch::leave_debug();
        self.ptrace.flags.fetch_and(!flag::DEBUGS, Relaxed);
        self.arch.work.fetch_or(work::TRACE, Relaxed);
    }

    /// Runs `work`, which enters a guest, with the tracer's debug state off, since breakpoints of
    /// the program must not stop the guest.
    #[cfg(guests)]
    pub fn without_debug<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.ptrace.flags() & flag::DEBUGS != 0 {
            self.leave_debug();
        }
        let traced = self.arch.work.load(Relaxed) & work::TRACE != 0;
        if traced {
            self.arch.work.fetch_and(!work::TRACE, Relaxed);
        }
        let result = work();
        if traced {
            self.arch.work.fetch_or(work::TRACE, Relaxed);
        }
        result
    }

    /// The current thread's program continues: sets it up to stop after one instruction, or at its
    /// breakpoints and watchpoints, as requested.
    #[cold]
    pub(super) fn enter_debug(&self) {
        self.arch.work.fetch_and(!work::TRACE, Relaxed);
        if arch::has_tags() {
            signal::report_tag_fault();
        }
        let flags = self.ptrace.flags();
        if flags & (flag::STEP | flag::POINTS) != 0 {
            self.ptrace.flags.fetch_or(flag::DEBUGS, Relaxed);
            self.arch.enter_debug(flags & flag::STEP != 0);
        }
    }

    /// A tracer has changed registers of the stopped thread, which may need other exception vectors
    /// or breakpoints now.
    pub fn registers_changed(&self) {
        self.watch_calls();
        if self.arch.has_points() {
            self.ptrace.flags.fetch_or(flag::POINTS, Relaxed);
            self.arch.work.fetch_or(work::TRACE, Relaxed);
        } else {
            self.ptrace.flags.fetch_and(!flag::POINTS, Relaxed);
        }
    }

    /// Sets whether it stops after each instruction, from its next return to its program on.
    fn set_stepping(&self, on: bool) {
        if on {
            self.arch.work.fetch_or(work::TRACE, Relaxed);
        }
    }
}
