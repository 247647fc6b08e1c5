//! Waiting for children.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;

use super::pidfd::PidFd;
use super::rusage::Usage;
use super::signal::Report;
use super::{Process, Thread, clock, current, exit, pid_table, ptrace, sched, wait_queue};
use crate::errno::{Errno, Result};

/// The children to wait for.
#[derive(Clone)]
pub enum Which {
    /// All children.
    Any,
    /// One process.
    Process(i32),
    /// A process group.
    Group(i32),
    /// The process of a pidfd.
    Descriptor(Arc<PidFd>),
}

/// A child that changed its state.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its number.
    pub pid: i32,
    /// Its real user.
    pub uid: u32,
    /// The status as wait(2) reports it.
    pub status: u32,
    /// `si_code` and `si_status`.
    pub event: (u32, i32),
    /// The resource usage of the child and its children.
    pub usage: Usage,
}

/// Waits until one of the children in `which` changes its state as `options` (WEXITED, WSTOPPED …)
/// ask; `None` if WNOHANG is among them and none has.
///
/// # Errors
/// ECHILD, ERESTARTSYS.
pub fn wait(which: &Which, options: u32) -> Result<Option<Found>> {
    let thread = current();
    let process = thread.process();
    if options & WNOHANG != 0 {
        return look_again(process, which, options);
    }
    let mut found = Ok(None);
    let ready = || match look(process, which, options, &mut false) {
        Ok(None) => false,
        end => {
            found = end;
            true
        }
    };
    if process.child_event.wait_interruptible(ready, None).is_ok() {
        return found;
    }
    // The signal may be SIGCHLD for a child's end, which takes precedence.
    match look_again(process, which, options) {
        Ok(None) => Err(Errno::ERESTARTSYS),
        found => found,
    }
}

/// How long to sleep before checking again for a child that is about to notify its parent.
const LOOK_AGAIN_NS: u64 = 50_000;

/// Checks until no child is about to notify.
///
/// # Errors
/// Those of [`look`]; EINTR: the thread must die.
fn look_again(process: &Process, which: &Which, options: u32) -> Result<Option<Found>> {
    loop {
        let mut unnotified = false;
        let found = look(process, which, options, &mut unnotified);
        if !unnotified || !matches!(found, Ok(None)) {
            return found;
        }
        // The signal must be pending first, but the thread that is about to send it may have a
        // lower priority.
        wait_queue::sleep_killable(clock::deadline_in(LOOK_AGAIN_NS));
        sched::cond_resched_killable()?;
    }
}

/// Checks each child once; sets `unnotified` if one ended or stopped and this process was not
/// notified of it yet.
fn look(
    process: &Process,
    which: &Which,
    options: u32,
    unnotified: &mut bool,
) -> Result<Option<Found>> {
    let traces = process.traces();
    // The first thread inherits the children of ended threads.
    let own_alone = options & __WNOTHREAD != 0;
    let first = own_alone && process.is_first(&current());
    let own = |tid, is_thread: &dyn Fn(i32) -> bool| {
        !own_alone || tid == current().tid() || first && !is_thread(tid)
    };
    let mut any = false;
    let only = match which {
        Which::Process(pid) => Some(*pid),
        _ => None,
    };
    let found = pid_table::find_child(process, only, |child, is_thread| {
        if !selects(child, which, options) || !own(child.parent_tid.load(Relaxed), is_thread) {
            return None;
        }
        any = true;
        // Read once: if the child ends on another CPU meanwhile, it is found the next time.
        let ended = child.is_zombie();
        let unnotified_end = ended && !child.is_end_notified();
        if unnotified_end || options & WSTOPPED != 0 && child.signals.stop.is_unnotified() {
            *unnotified = true;
            return None;
        }
        // A tracer is notified of each thread's stop instead.
        if traces && !ended && child.is_traced_by(process) {
            return None;
        }
        inspect(child, options, ended).map(|found| (child.clone(), found, ended))
    });
    let Some((child, found, ended)) = found else {
        if !traces {
            return if any { Ok(None) } else { Err(Errno::ECHILD) };
        }
        let own = |tracer| !own_alone || tracer == current().tid();
        let traced = ptrace::look(
            process,
            |thread, tracer| selects_tracee(thread, which) && own(tracer),
            options,
        );
        return match traced {
            Err(_) if any => Ok(None),
            other => other,
        };
    };
    if ended && options & WNOWAIT == 0 {
        release(process, &child);
    }
    Ok(Some(found))
}

fn selects(child: &Process, which: &Which, options: u32) -> bool {
    // A child whose end sends another signal than SIGCHLD is a "clone" one.
    let is_clone = child.exit_signal.load(Relaxed) != SIGCHLD;
    let kind = options & __WALL != 0 || is_clone == (options & __WCLONE != 0);
    let chosen = match which {
        Which::Any => true,
        Which::Process(pid) => child.pid() == *pid,
        Which::Group(group) => child.group() == *group,
        Which::Descriptor(of) => of
            .process()
            .is_ok_and(|process| core::ptr::eq(&**process, child)),
    };
    kind && chosen && !child.is_reaped()
}

fn selects_tracee(thread: &Thread, which: &Which) -> bool {
    match which {
        Which::Any => true,
        Which::Process(tid) => thread.tid() == *tid,
        Which::Group(group) => thread.group() == *group,
        Which::Descriptor(of) => of
            .process()
            .is_ok_and(|process| Arc::ptr_eq(process, thread.process())),
    }
}

fn inspect(child: &Arc<Process>, options: u32, ended: bool) -> Option<Found> {
    let found = |status, event| {
        let usage = child.usage().plus(child.children_usage());
        Found {
            pid: child.pid(),
            uid: child.with_credentials(|who| who.uid),
            status,
            event,
            usage,
        }
    };
    if ended {
        if options & WEXITED == 0 || options & WNOWAIT == 0 && !child.claim_reaping() {
            return None;
        }
        let status = child.exit_status().unwrap_or(0);
        return Some(found(status, exit::describe(status)));
    }
    let (stopped, continued) = (options & WSTOPPED != 0, options & WCONTINUED != 0);
    match child
        .signals
        .stop
        .report(stopped, continued, options & WNOWAIT == 0)?
    {
        Report::Stopped(signal) => Some(found(signal << 8 | 0x7f, (CLD_STOPPED, signal as i32))),
        Report::Continued => Some(found(0xffff, (CLD_CONTINUED, SIGCONT as i32))),
    }
}

fn release(parent: &Process, child: &Process) {
    // Others may still hold the child, but its user gets the count back now.
    child.discard(u64::MAX);
    parent.inherit_usage(child);
    pid_table::remove_process(child);
    child.notify_ended();
}
