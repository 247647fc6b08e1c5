//! Stops of a traced thread: how they are reported, and how the thread continues.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::{SIGKILL, SIGTRAP};
use linux_raw_sys::ptrace::*;

use super::link::{notify, unlink};
use super::{Stop, Tracee, flag};
use crate::errno::{Errno, Result};
use crate::task::sched::{self, state};
use crate::task::signal::{self, Info, LAST, Set};
use crate::task::{Thread, current, pid_table};

/// The system call during which the thread stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Not in a system call.
    None,
    /// On entry to the call.
    Enters,
    /// On return from the call.
    Leaves,
    /// A seccomp filter asks the tracer about the call, with this value.
    Filtered(u32),
}

/// The report of a stop.
struct Report {
    code: u32,
    info: Option<Info>,
    message: Option<usize>,
    call: Call,
    /// Whether to stop even if the process is ending.
    dying: bool,
}

/// Stops the current thread until its tracer continues it; returns the signal with which it
/// continues. Without a tracer, it returns the signal of the stop at once.
fn report(report: Report) -> u32 {
    let thread = current();
    let mut slot = thread.ptrace.tracee.lock();
    let (Some(tracee), false) = (slot.as_mut(), thread.must_die() && !report.dying) else {
        return report.code & 0x7f;
    };
    tracee.stop = Some(Stop {
        code: report.code,
        reported: false,
        call: report.call,
    });
    tracee.info = report.info;
    tracee.message = report.message.unwrap_or(tracee.message);
    // The tracer may end before it continues the thread: then nothing is changed.
    let unchanged = if report.call == Call::None {
        report.code & 0x7f
    } else {
        0
    };
    thread.ptrace.signal.store(unchanged, Relaxed);
    let tracer = tracee.tracer.clone();
    drop(slot);
    // From here on the tracer finds the thread stopped.
    let is_stopped = || {
        let slot = thread.ptrace.tracee.lock();
        slot.as_ref().is_some_and(|tracee| tracee.stop.is_some())
    };
    sched::prepare(state::TRACED);
    notify(&tracer, &thread, report.code & 0x7f);
    drop(tracer);
    while is_stopped() && (!thread.must_die() || report.dying) {
        sched::schedule();
        if report.dying {
            // The tracer continued it, or it was killed once more.
            break;
        }
        sched::prepare(state::TRACED);
    }
    sched::cancel();
    if let Some(tracee) = thread.ptrace.tracee.lock().as_mut() {
        tracee.stop = None;
    }
    thread.ptrace.signal.load(Relaxed)
}

fn trap(code: u32, message: Option<usize>) -> Report {
    Report {
        code,
        info: Some(Info::trap(code)),
        message,
        call: Call::None,
        dying: false,
    }
}

/// Reports an event to the tracer, if it asked by `option` (PTRACE_O_*) for `number`
/// (PTRACE_EVENT_*).
pub fn event(option: u32, number: u32, message: usize) {
    if current().is_traced() && current().reports(option) {
        report(Report {
            dying: number == PTRACE_EVENT_EXIT,
            ..trap(number << 8 | SIGTRAP, Some(message))
        });
    }
}

/// Reports that the current thread, whose number was `before`, has executed another program.
pub fn executed(before: i32) {
    let thread = current();
    if !thread.is_traced() {
        return;
    }
    if thread.reports(PTRACE_O_TRACEEXEC) {
        event(PTRACE_O_TRACEEXEC, PTRACE_EVENT_EXEC, before as usize);
    } else {
        let tracee = thread.ptrace.tracee.lock();
        let plain = tracee.as_ref().is_some_and(|tracee| !tracee.seized);
        drop(tracee);
        if plain {
            signal::raise(SIGTRAP);
        }
    }
}

/// A seccomp filter asks the tracer; false if the tracer did not ask for that.
pub fn filtered(data: u32) -> bool {
    let listens = current().is_traced() && current().reports(PTRACE_O_TRACESECCOMP);
    if listens {
        report(Report {
            call: Call::Filtered(data),
            ..trap(PTRACE_EVENT_SECCOMP << 8 | SIGTRAP, Some(data as usize))
        });
    }
    listens
}

/// The current thread enters a system call.
pub fn enter_call() {
    call_stop(Call::Enters, PTRACE_EVENTMSG_SYSCALL_ENTRY);
}

/// The current thread returns from a system call.
pub fn leave_call() {
    call_stop(Call::Leaves, PTRACE_EVENTMSG_SYSCALL_EXIT);
}

fn call_stop(call: Call, message: u32) {
    let thread = current();
    if thread.ptrace.flags() & flag::CALLS == 0 {
        return;
    }
    let good = thread.reports(PTRACE_O_TRACESYSGOOD);
    let code = SIGTRAP | if good { 0x80 } else { 0 };
    let signal = report(Report {
        call,
        ..trap(code, Some(message as usize))
    });
    if signal != 0 && signal <= LAST {
        // An ordinary signal needs no room.
        _ = signal::send_thread(&crate::arch::current_arc(), &Info::kernel(signal));
    }
}

/// A signal is about to be delivered to the current thread, which is traced: the tracer may change
/// `info`. Returns whether a signal is left.
pub fn signal_stop(info: &mut Info) -> bool {
    let thread = current();
    if info.number() == SIGKILL {
        return true;
    }
    // The tracer sees registers with which the thread can continue.
    let before = thread.arch.with_frame(signal::begin_again);
    let signal = report(Report {
        code: info.number(),
        info: Some(*info),
        message: None,
        call: Call::None,
        dying: false,
    });
    thread
        .arch
        .with_frame(|frame| signal::take_back(frame, before));
    if signal == 0 || signal > LAST {
        return false;
    }
    let slot = thread.ptrace.tracee.lock();
    let own = slot.as_ref().and_then(|tracee| tracee.info);
    drop(slot);
    *info = own.unwrap_or(*info);
    if info.number() != signal {
        *info = Info::user(signal);
    }
    let held_back = thread.blocked() & Set::bit(signal) != 0;
    if held_back {
        _ = signal::send_thread(&crate::arch::current_arc(), info);
    }
    !held_back
}

/// The process was stopped by `signal`, for the `count`th time: the current thread, which is
/// traced, reports that once. Returns whether it stays stopped with the others.
pub fn group_stop(signal: u32, count: u32) -> bool {
    let thread = current();
    let mut slot = thread.ptrace.tracee.lock();
    let Some(tracee) = slot.as_mut() else {
        return true;
    };
    if tracee.reported_stop == count {
        return core::mem::take(&mut tracee.listening);
    }
    tracee.reported_stop = count;
    let seized = tracee.seized;
    drop(slot);
    let code = if seized {
        PTRACE_EVENT_STOP << 8 | signal
    } else {
        signal
    };
    report(Report {
        code,
        info: seized.then(|| Info::trap(code)),
        message: Some(0),
        call: Call::None,
        dying: false,
    });
    let mut slot = thread.ptrace.tracee.lock();
    match slot.as_mut() {
        // When the process continues, the tracer is notified of that too.
        Some(tracee) if tracee.listening => {
            tracee.listening = false;
            tracee.interrupt = true;
            true
        }
        Some(_) => false,
        None => true,
    }
}

/// Stops the current thread if its tracer asked for that.
pub fn take_interrupt() -> bool {
    let thread = current();
    let mut slot = thread.ptrace.tracee.lock();
    let due = slot
        .as_mut()
        .is_some_and(|tracee| core::mem::take(&mut tracee.interrupt));
    drop(slot);
    if due {
        report(trap(PTRACE_EVENT_STOP << 8 | SIGTRAP, Some(0)));
    }
    due
}

/// Makes a new thread stop before its first instruction.
pub(super) fn stop_at_start(thread: &Arc<Thread>) {
    if let Some(tracee) = thread.ptrace.tracee.lock().as_mut() {
        tracee.interrupt = true;
    }
    signal::notify(thread, state::INTERRUPTIBLE);
}

/// PTRACE_INTERRUPT
///
/// # Errors
/// ESRCH (not traced by the caller), EIO (not by PTRACE_SEIZE).
pub fn interrupt(tid: i32) -> Result<()> {
    let thread = pid_table::thread(tid).ok_or(Errno::ESRCH)?;
    let mut slot = thread.ptrace.tracee.lock();
    let tracee = slot
        .as_mut()
        .filter(|tracee| is_own(tracee))
        .ok_or(Errno::ESRCH)?;
    if !tracee.seized {
        return Err(Errno::EIO);
    }
    tracee.interrupt |= tracee.stop.is_none();
    drop(slot);
    thread.when_not_looked_at(|| signal::notify(&thread, state::INTERRUPTIBLE | state::STOPPED));
    Ok(())
}

fn is_own(tracee: &Tracee) -> bool {
    core::ptr::eq(&*tracee.tracer, &*current())
}

/// Calls `f` with a tracee of the current thread, while it is stopped. `f` must not sleep.
///
/// # Errors
/// ESRCH: it is not a tracee, or not stopped.
pub fn with_stopped<T>(
    tid: i32,
    f: impl FnOnce(&Arc<Thread>, &mut Tracee) -> Result<T>,
) -> Result<T> {
    let thread = pid_table::thread(tid).ok_or(Errno::ESRCH)?;
    loop {
        let mut slot = thread.ptrace.tracee.lock();
        let tracee = slot
            .as_mut()
            .filter(|tracee| is_own(tracee))
            .ok_or(Errno::ESRCH)?;
        if tracee.stop.is_none() {
            return Err(Errno::ESRCH);
        }
        // Its CPU may still be switching away from it.
        if !thread.arch.is_running() {
            return f(&thread, tracee);
        }
        drop(slot);
        sched::yield_now();
        sched::cond_resched();
    }
}

/// Continues a stopped thread with `signal` (0 for none) and the [`flag`]s `how`.
///
/// # Errors
/// ESRCH, EIO (no such signal, or the hardware cannot step).
pub fn resume(tid: i32, signal: usize, how: u32) -> Result<()> {
    if signal > LAST as usize {
        return Err(Errno::EIO);
    }
    with_stopped(tid, |thread, tracee| {
        let steps = how & flag::STEP != 0;
        thread
            .arch
            .with_stopped_frame(|frame| frame.set_single_step(steps))?;
        thread.ptrace.set(flag::TRACED | how);
        thread.set_stepping(steps);
        thread.ptrace.signal.store(signal as u32, Relaxed);
        tracee.stop = None;
        sched::wake_from(thread.clone(), state::TRACED);
        Ok(())
    })
}

/// PTRACE_LISTEN: a thread that stopped with its process stays stopped, but the tracer can no
/// longer inspect it.
///
/// # Errors
/// ESRCH, EIO (not in such a stop).
pub fn listen(tid: i32) -> Result<()> {
    with_stopped(tid, |thread, tracee| {
        let group = tracee
            .stop
            .is_some_and(|stop| stop.code >> 8 == PTRACE_EVENT_STOP);
        if !tracee.seized || !group {
            return Err(Errno::EIO);
        }
        tracee.listening = true;
        tracee.stop = None;
        sched::wake_from(thread.clone(), state::TRACED);
        Ok(())
    })
}

/// PTRACE_DETACH: continues the thread with `signal`, without a tracer.
///
/// # Errors
/// ESRCH, EIO.
pub fn detach(tid: i32, signal: usize) -> Result<()> {
    if signal > LAST as usize {
        return Err(Errno::EIO);
    }
    let thread = with_stopped(tid, |thread, tracee| {
        if let Some(stop) = &mut tracee.stop {
            // Prevents another thread of the tracer from waiting for it and taking the signal.
            stop.reported = true;
        }
        // Even if the hardware cannot step, the thread does not step from now on.
        _ = thread
            .arch
            .with_stopped_frame(|frame| frame.set_single_step(false));
        thread.ptrace.signal.store(signal as u32, Relaxed);
        Ok(thread.clone())
    })?;
    unlink(&thread);
    thread.watch_calls();
    thread.when_not_looked_at(|| _ = sched::wake_from(thread.clone(), state::TRACED));
    Ok(())
}
