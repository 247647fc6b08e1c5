//! Stopping and continuing a process.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use linux_raw_sys::general::{CLD_CONTINUED, CLD_STOPPED, SIGCHLD, SIGCONT};

use super::{Info, LAST, notify, send_to_parent};
use crate::task::sched::{self, state};
use crate::task::{Process, current, exit, pid_table};

/// Whether a process is stopped, and the report that its parent has not received yet.
pub struct Stop {
    /// The signal that stopped the process, 0 if none.
    signal: AtomicU32,
    /// The number of stops.
    count: AtomicU32,
    /// Whether the process has continued, and none of its threads has notified the parent yet.
    resumed: AtomicBool,
    /// A state that wait(2) has not reported: the stopping signal, with UNNOTIFIED until the
    /// parent's signal is pending, or CONTINUED.
    unreported: AtomicU32,
}

const CONTINUED: u32 = LAST + 1;
const UNNOTIFIED: u32 = 1 << 31;

/// A report of wait(2) about a living child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Stopped by a signal.
    Stopped(u32),
    /// Continued.
    Continued,
}

impl Stop {
    /// Not stopped.
    pub const fn new() -> Self {
        Stop {
            signal: AtomicU32::new(0),
            count: AtomicU32::new(0),
            resumed: AtomicBool::new(false),
            unreported: AtomicU32::new(0),
        }
    }

    /// Whether the process has to stop, or has stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.signal.load(Acquire) != 0
    }

    /// The signal that stopped the process, 0 if none, and the number of stops.
    pub fn signal(&self) -> (u32, u32) {
        (self.signal.load(Acquire), self.count.load(Relaxed))
    }

    /// Whether the process has stopped, and its parent's signal has not been sent yet.
    pub fn is_unnotified(&self) -> bool {
        self.unreported.load(Acquire) & UNNOTIFIED != 0
    }

    /// The pending report, if its kind was requested; `take` marks it as reported.
    pub fn report(&self, stopped: bool, continued: bool, take: bool) -> Option<Report> {
        let value = self.unreported.load(Acquire);
        let report = match value {
            0 | UNNOTIFIED.. => None,
            CONTINUED => continued.then_some(Report::Continued),
            signal => stopped.then_some(Report::Stopped(signal)),
        };
        if report.is_some() && take {
            _ = self.unreported.compare_exchange(value, 0, AcqRel, Relaxed);
        }
        report
    }
}

impl Process {
    /// Stops the process by `signal`; the current thread belongs to it.
    pub(super) fn stop(&self, signal: u32) {
        if self
            .signals
            .stop
            .signal
            .compare_exchange(0, signal, AcqRel, Relaxed)
            .is_ok()
        {
            self.signals.stop.count.fetch_add(1, Relaxed);
            for thread in self.threads().iter() {
                notify(thread, state::INTERRUPTIBLE);
            }
            self.signals
                .stop
                .unreported
                .store(signal | UNNOTIFIED, Release);
            self.notify_parent(CLD_STOPPED, signal as i32);
        }
    }

    /// Continues the process if it is stopped.
    pub(super) fn resume(&self) {
        if self.signals.stop.signal.swap(0, AcqRel) != 0 {
            self.signals.stop.unreported.store(CONTINUED, Release);
            self.signals.stop.resumed.store(true, Release);
            self.wake_stopped();
        }
    }

    fn wake_stopped(&self) {
        for thread in self.threads().iter() {
            sched::wake_from(thread.clone(), state::STOPPED);
        }
    }

    fn notify_parent(&self, code: u32, status: i32) {
        let parent = pid_table::process(self.parent()).filter(|parent| !self.is_traced_by(parent));
        if let Some(parent) = &parent
            && exit::wants_stops(parent)
        {
            let uid = self.with_credentials(|who| who.uid);
            send_to_parent(
                parent,
                self.parent_tid.load(Relaxed),
                &Info::child(
                    SIGCHLD,
                    code,
                    self.pid(),
                    uid,
                    status,
                    self.times().in_user_hz(),
                ),
            );
        }
        self.signals.stop.unreported.fetch_and(!UNNOTIFIED, AcqRel);
        if let Some(parent) = parent {
            parent.child_event.wake_all();
        }
    }
}

/// Notifies the parent that the current process continued: the process does this itself, as on
/// Linux, so that the sender of SIGCONT sees it take effect first.
pub(super) fn notify_resumed() {
    let thread = current();
    let process = thread.process();
    if process.signals.stop.resumed.swap(false, AcqRel) {
        process.notify_parent(CLD_CONTINUED, SIGCONT as i32);
    }
}

/// Waits while the current process is stopped.
pub(super) fn park() {
    let thread = current();
    let process = thread.process();
    while process.signals.stop.is_stopped() && !current().must_die() {
        sched::prepare(state::STOPPED);
        if process.signals.stop.is_stopped() && !current().must_die() {
            sched::schedule();
        }
        sched::cancel();
    }
    notify_resumed();
}

impl Process {
    /// Ends all threads of the process as by `signal`.
    pub fn kill(&self, signal: u32) {
        self.begin_exit(signal);
    }
}
