//! Tracers and their tracees, and the reports that a tracer gets by wait(2).

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;
use linux_raw_sys::ptrace::{PTRACE_O_EXITKILL, PTRACE_O_MASK, PTRACE_O_SUSPEND_SECCOMP};

use super::{Tracee, flag};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_box;
use crate::task::count_groups::{self, Mode};
use crate::task::credentials::Credentials;
use crate::task::ptrace_access::{self, By};
use crate::task::rusage::Usage;
use crate::task::sched::{self, state};
use crate::task::signal::{self, Info};
use crate::task::wait_child::Found;
use crate::task::{Process, Thread, current, exit, pid_table, require};

/// A tracer, its credentials, and its options.
struct Tracer {
    thread: Arc<Thread>,
    credentials: Arc<Credentials>,
    seized: bool,
    options: u32,
}

/// Makes `tracer` the tracer of `thread`; false, without a tracer, if `tracer` is ending.
///
/// # Errors
/// EPERM: the thread has a tracer, or has ended; ENOMEM.
fn link(thread: &Arc<Thread>, tracer: Tracer) -> Result<bool> {
    let Tracer {
        thread: tracer,
        credentials,
        seized,
        options,
    } = tracer;
    let tracee = try_box(Tracee {
        tracer: tracer.clone(),
        credentials,
        seized,
        options,
        stop: None,
        message: 0,
        info: None,
        interrupt: false,
        listening: false,
        reported_stop: 0,
        ended: None,
    })?;
    let mut tracees = tracer.process().tracees();
    tracees.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    // A thread that ends first leaves this list, and then notifies its tracer.
    let living = thread.process().threads();
    if !living.iter().any(|other| Arc::ptr_eq(other, thread)) {
        return Err(Errno::EPERM);
    }
    let mut slot = thread.ptrace.tracee.lock();
    if slot.is_some() || thread.process().is_exiting() {
        return Err(Errno::EPERM);
    }
    if !tracer.ptrace.begin_tracing() {
        return Ok(false);
    }
    // Set before its first stop, for which the tracer then looks.
    tracer.process().set_traces(true);
    *slot = Some(tracee);
    thread.ptrace.set(flag::TRACED);
    drop(slot);
    drop(living);
    tracees.push(thread.clone());
    drop(tracees);
    thread.watch_calls();
    Ok(true)
}

/// PTRACE_TRACEME: the parent traces the current thread.
///
/// # Errors
/// EPERM, ENOMEM.
pub fn trace_me() -> Result<()> {
    let parent = pid_table::process(current().process().parent()).ok_or(Errno::EPERM)?;
    let maker = pid_table::thread(current().process().parent_tid.load(Relaxed))
        .filter(|thread| Arc::ptr_eq(thread.process(), &parent));
    // The children of an ended thread belong to the first thread.
    let Some(parent) = maker.or_else(|| parent.find_thread(|_| true)) else {
        return Ok(());
    };
    let credentials = current().credentials();
    let covers = |who: &Credentials| credentials.permitted & !who.permitted == 0;
    if !parent.with_credentials(|who| covers(who) || who.can(CAP_SYS_PTRACE)) {
        return Err(Errno::EPERM);
    }
    let tracer = Tracer {
        thread: parent,
        credentials,
        seized: false,
        options: 0,
    };
    link(&crate::arch::current_arc(), tracer)?;
    Ok(())
}

/// Checks the PTRACE_O_* bits of a tracer: PTRACE_O_SUSPEND_SECCOMP requires CAP_SYS_ADMIN, and a
/// tracer without filters of its own.
///
/// # Errors
/// EINVAL, EPERM.
pub fn check_options(options: usize) -> Result<()> {
    if options & !(PTRACE_O_MASK as usize) != 0 {
        return Err(Errno::EINVAL);
    }
    if options & PTRACE_O_SUSPEND_SECCOMP as usize != 0 {
        require(CAP_SYS_ADMIN)?;
        let thread = current();
        if thread.seccomp.mode() != 0 || thread.reports(PTRACE_O_SUSPEND_SECCOMP) {
            return Err(Errno::EPERM);
        }
    }
    Ok(())
}

/// PTRACE_ATTACH and PTRACE_SEIZE: the current thread starts to trace thread `tid`.
///
/// # Errors
/// ESRCH, EPERM, EIO (unknown options), ENOMEM, ERESTARTNOINTR.
pub fn attach(tid: i32, seized: bool, options: usize) -> Result<()> {
    // As on Linux, the error for an unknown option differs from that of a later request.
    if options & !(PTRACE_O_MASK as usize) != 0 {
        return Err(Errno::EIO);
    }
    check_options(options)?;
    let thread = pid_table::thread(tid).ok_or_else(|| match pid_table::process_of(tid) {
        Some(_zombie) => Errno::EPERM,
        None => Errno::ESRCH,
    })?;
    if Arc::ptr_eq(thread.process(), current().process()) || thread.space().is_none() {
        return Err(Errno::EPERM);
    }
    let guard = thread.process().guard_credentials()?;
    ptrace_access::check(thread.process(), Some(&thread), By::Real)?;
    let tracer = Tracer {
        thread: crate::arch::current_arc(),
        credentials: current().credentials(),
        seized,
        options: options as u32,
    };
    link(&thread, tracer)?;
    drop(guard);
    if !seized {
        // An ordinary signal needs no room.
        _ = signal::send_thread(&thread, &Info::kernel(SIGSTOP));
    }
    // A thread that is stopped with its process notifies its tracer now.
    thread.when_not_looked_at(|| signal::notify(&thread, state::STOPPED));
    Ok(())
}

/// The child of a traced thread gets the same tracer, and stops before its first instruction. The
/// child is not visible to others yet, so that it does not escape if the tracer ends.
pub fn inherit(parent: &Thread, child: &Arc<Thread>) -> Result<()> {
    let slot = parent.ptrace.tracee.lock();
    let Some(tracee) = slot.as_ref() else {
        return Ok(());
    };
    let tracer = Tracer {
        thread: tracee.tracer.clone(),
        credentials: tracee.credentials.clone(),
        seized: tracee.seized,
        options: tracee.options,
    };
    drop(slot);
    let (seized, options) = (tracer.seized, tracer.options);
    if !link(child, tracer)? {
        if options & PTRACE_O_EXITKILL != 0 {
            child.process().kill(SIGKILL);
        }
    } else if seized {
        super::stop::stop_at_start(child);
    } else {
        // An ordinary signal needs no room.
        _ = signal::send_thread(child, &Info::kernel(SIGSTOP));
    }
    Ok(())
}

/// Ends the tracing of the thread.
pub fn unlink(thread: &Arc<Thread>) {
    let mut slot = thread.ptrace.tracee.lock();
    let gone = slot.take();
    thread.ptrace.set(0);
    drop(slot);
    let Some(tracee) = gone else { return };
    let mut tracees = tracee.tracer.process().tracees();
    let at = tracees.iter().position(|other| Arc::ptr_eq(other, thread));
    let entry = at.map(|at| tracees.swap_remove(at));
    tracee.tracer.process().set_traces(!tracees.is_empty());
    tracee.tracer.ptrace.end_tracing();
    drop(tracees);
    drop(entry);
}

/// The current thread has ended: reports its `status` to its tracer, unless that is notified as the
/// parent anyway. The end of the first thread is reported as the process's, when all have ended.
#[inline]
pub fn end_of_thread(status: u32, last: bool) {
    let thread = current();
    let leads = thread.tid() == thread.process().pid();
    if thread.is_traced() && (last || !leads) {
        tell_tracer(&crate::arch::current_arc(), status);
    }
    if last && !leads {
        tell_leaders_tracer(status);
    }
}

#[cold]
fn tell_tracer(thread: &Arc<Thread>, status: u32) {
    let process = thread.process();
    let mut slot = thread.ptrace.tracee.lock();
    let Some(tracee) = slot.as_mut() else { return };
    let tracer = tracee.tracer.clone();
    // The tracer is notified of the end of the process instead.
    let reported = thread.tid() == process.pid() && tracer.process().pid() == process.parent();
    if !reported {
        tracee.ended = Some(status);
    }
    drop(slot);
    if reported {
        unlink(thread);
    } else {
        notify(&tracer, thread, status & 0x7f);
    }
}

/// The process has ended with `status`, after its first thread: notifies that thread's tracer.
fn tell_leaders_tracer(status: u32) {
    let leader = current().process().ended_leader.lock().take();
    if let Some(leader) = leader {
        tell_tracer(&leader, status);
    }
}

/// The current thread has taken the place of the first one, which ended: ends the tracing of that
/// one.
pub fn leader_replaced() {
    let Some(leader) = current().process().ended_leader.lock().take() else {
        return;
    };
    let tracer = leader.tracer();
    unlink(&leader);
    if let Some(tracer) = tracer {
        tracer.process().child_event.wake_all();
    }
}

/// The thread stops tracing: its tracees continue, or are killed if PTRACE_O_EXITKILL was set.
#[inline]
pub fn end_of_tracer(tracer: &Thread) {
    if !tracer.ptrace.let_go() {
        release_tracees(tracer);
    }
}

#[cold]
fn release_tracees(tracer: &Thread) {
    let mut from = 0;
    while tracer.ptrace.is_tracing() {
        let next = {
            let tracees = tracer.process().tracees();
            let mut rest = tracees.iter().enumerate().skip(from);
            let next = rest.find(|(_, thread)| thread.is_traced_by_thread(tracer));
            next.map(|(at, thread)| (at, thread.clone()))
        };
        // Another thread may have moved one to an earlier place.
        from = next.as_ref().map_or(0, |(at, _)| *at);
        if let Some((_, thread)) = next {
            release(&thread);
        }
        sched::cond_resched();
    }
}

fn release(thread: &Arc<Thread>) {
    // Done while it is traced, so that its children are killed too, or are not created any more.
    // Done once for all threads of a process.
    if thread.reports(PTRACE_O_EXITKILL) && !thread.process().is_exiting() {
        thread.process().kill(SIGKILL);
    }
    unlink(thread);
    thread.watch_calls();
    thread.when_not_looked_at(|| _ = sched::wake_from(thread.clone(), state::TRACED));
}

/// Notifies a tracer that one of its tracees has something to report.
pub(super) fn notify(tracer: &Thread, thread: &Thread, status: u32) {
    let uid = thread.with_credentials(|who| who.uid);
    let times = thread.process().times().in_user_hz();
    if exit::wants_stops(tracer.process()) {
        let info = Info::child(
            linux_raw_sys::general::SIGCHLD,
            CLD_TRAPPED,
            thread.tid(),
            uid,
            status as i32,
            times,
        );
        signal::send_to_parent(tracer.process(), tracer.tid(), &info);
    }
    tracer.process().child_event.wake_all();
}

/// The event, if any, that a tracee of `process` has to report, among those that `selects` matches
/// by the tracee and its tracer's thread ID; ECHILD if nothing matches.
pub fn look(
    process: &Process,
    selects: impl Fn(&Thread, i32) -> bool,
    options: u32,
) -> Result<Option<Found>> {
    let mut any = Err(Errno::ECHILD);
    let mut reported = None;
    let found = process.tracees().iter().find_map(|thread| {
        let slot = thread.ptrace.tracee.lock();
        let tracer = slot.as_ref().map_or(0, |tracee| tracee.tracer.tid());
        drop(slot);
        if !selects(thread, tracer) {
            return None;
        }
        any = Ok(None);
        let mut slot = thread.ptrace.tracee.lock();
        let tracee = slot.as_mut()?;
        let found = |status, event| Found {
            pid: thread.tid(),
            uid: thread.with_credentials(|who| who.uid),
            status,
            event,
            usage: Usage::default(),
        };
        if let Some(status) = tracee.ended {
            // Once the process's status is set, it is that of all its threads.
            let status = thread.process().exit_status().unwrap_or(status);
            if options & WEXITED == 0 {
                return None;
            }
            let last_time = options & WNOWAIT == 0;
            if last_time {
                // No other waiter finds it.
                tracee.ended = None;
            }
            reported = Some((thread.clone(), last_time));
            return Some(found(status, exit::describe(status)));
        }
        let stop = tracee.stop.as_mut().filter(|stop| !stop.reported)?;
        stop.reported = options & WNOWAIT == 0;
        if stop.reported {
            // If the tracer ends now, it has seen the signal, which is then not delivered.
            thread.ptrace.signal.store(0, Relaxed);
        }
        reported = Some((thread.clone(), false));
        Some(found(
            stop.code << 8 | 0x7f,
            (CLD_TRAPPED, stop.code as i32),
        ))
    });
    let (Some(mut found), Some((thread, ended))) = (found, reported) else {
        return any;
    };
    if ended {
        unlink(&thread);
        // A waiter that found the thread without a report has nothing to wait for.
        process.child_event.wake_all();
    }
    // Outside the tracee's lock, which a holder of the process's threads may take.
    found.usage = thread.process().usage();
    Ok(Some(found))
}

impl Process {
    /// Whether its first thread is traced by `other`, which is therefore notified of stops as a
    /// tracer.
    pub fn is_traced_by(&self, other: &Process) -> bool {
        // In place: the caller may hold locks, under which a thread must not be freed.
        let threads = self.threads();
        let mut traced = threads.iter().filter(|thread| thread.is_traced());
        let leader = traced.find(|thread| thread.tid() == self.pid());
        leader.is_some_and(|leader| {
            let tracee = leader.ptrace.tracee.lock();
            let tracer = tracee.as_ref().map(|tracee| tracee.tracer.process());
            tracer.is_some_and(|process| core::ptr::eq(&**process, other))
        })
    }
}

impl Thread {
    /// Switches the thread's system calls to the watched table or back, and updates whether they
    /// discard vector registers: at its next switch, or now.
    pub fn watch_calls(&self) {
        let mut mode = Mode::of_thread(self);
        loop {
            self.sched.set_mode(mode);
            // Another thread may have changed the inputs meanwhile, and have set the mode before.
            let now = Mode::of_thread(self);
            if core::mem::replace(&mut mode, now) == now {
                break;
            }
        }
        if core::ptr::eq(self, &*current()) {
            count_groups::apply_current();
        }
    }
}
