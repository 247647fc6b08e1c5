//! New threads and processes.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;
use linux_raw_sys::ptrace::*;

use super::credentials::Credentials;
use super::limits::INFINITY;
use super::pidfd::{self, Reserved};
use super::process::{self, Process};
use super::signal::{self, Altstack};
use super::thread::{self, Resources, Thread};
use super::user::User;
use super::{current, pid_table, ptrace, sched};
use crate::arch::{Frame, ThreadState};
use crate::errno::{Errno, Result};
use crate::mm::heap::Room;
use crate::mm::user;
use crate::mm::vmalloc::KernelStack;

/// The arguments of clone(2) and its kin.
#[derive(Clone, Copy, Default)]
pub struct CloneRequest {
    /// CLONE_* flags, without the signal.
    pub flags: u64,
    /// Signal for the parent when the child ends; 0 for none.
    pub exit_signal: u32,
    /// The child's stack pointer; 0 for a copy of the caller's.
    pub stack: usize,
    /// The child's thread pointer, with CLONE_SETTLS.
    pub tls: usize,
    /// Where CLONE_PARENT_SETTID writes.
    pub parent_tid: usize,
    /// Where CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID write.
    pub child_tid: usize,
    /// Where CLONE_PIDFD writes.
    pub pidfd: usize,
    /// The child's number; 0 for any.
    pub tid: i32,
}

impl CloneRequest {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// The report of the child to a tracer: an option (PTRACE_O_*) and an event.
    fn event(&self) -> Option<(u32, u32)> {
        Some(if self.has(CLONE_VFORK) {
            (PTRACE_O_TRACEVFORK, PTRACE_EVENT_VFORK)
        } else if self.exit_signal == SIGCHLD {
            (PTRACE_O_TRACEFORK, PTRACE_EVENT_FORK)
        } else {
            (PTRACE_O_TRACECLONE, PTRACE_EVENT_CLONE)
        })
    }

    fn check(&self) -> Result<()> {
        let implies = |a, b| !self.has(a) || self.has(b);
        check_namespaces(self.flags)?;
        let fits = implies(CLONE_SIGHAND, CLONE_VM)
            && implies(CLONE_THREAD, CLONE_SIGHAND)
            && !(self.has(CLONE_SIGHAND) && self.flags & CLONE_CLEAR_SIGHAND != 0)
            && !(self.has(CLONE_PARENT) && current().process_id() == 1)
            && self.exit_signal <= signal::LAST;
        if fits { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// Namespaces that only CAP_SYS_ADMIN may create.
const PRIVILEGED: u32 =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET;

// All bits except those of the signal, and refused ones.
const _: () = assert!(
    abi::options::CLONE.mask()
        == !(CSIGNAL | PRIVILEGED | CLONE_NEWUSER) as u64 | CLONE_CLEAR_SIGHAND,
    "abi and clone disagree"
);

/// Refuses new namespaces, of which there is only one of each kind; without privileges the error is
/// EPERM.
///
/// # Errors
/// EPERM, EINVAL.
pub fn check_namespaces(flags: u64) -> Result<()> {
    if flags & u64::from(PRIVILEGED) != 0 {
        super::require(CAP_SYS_ADMIN)?;
    }
    if flags & u64::from(PRIVILEGED | CLONE_NEWUSER) == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// A number that is freed unless it is taken over.
struct Number(i32);

impl Drop for Number {
    fn drop(&mut self) {
        if self.0 != 0 {
            pid_table::release(self.0);
        }
    }
}

/// Creates a thread or a process that continues like the current thread, with `frame`, but with
/// result 0. The caller then calls [`Cloned::finish`], while its frame is not borrowed.
///
/// # Errors
/// EINVAL, EAGAIN (too many), ENOMEM, EFAULT.
pub fn clone(request: &CloneRequest, frame: &Frame) -> Result<Cloned> {
    request.check()?;
    let parent: &Thread = &current();
    let process = parent.process();
    let fork = process.several.fork(parent.tid(), &process.changed)?;
    // As on Linux, a signal that arrived before is handled before.
    if parent.signal_due() || parent.must_die() {
        return Err(Errno::ERESTARTNOINTR);
    }
    let credentials = parent.credentials();
    let counted = Counted::new(parent, &credentials)?;
    sched::admit()?;
    let admitted = Admitted;
    let mut number = Number(match request.tid {
        0 => pid_table::allocate()?,
        tid => pid_table::allocate_as(tid)?,
    });
    let tid = number.0;
    let resources = copy_resources(request, parent)?;
    let (process, counted) = if request.has(CLONE_THREAD) {
        (parent.process().clone(), Some(counted))
    } else {
        let process = new_process(request, parent, credentials.clone(), tid)?;
        core::mem::forget(counted);
        (process, None)
    };
    let stack = KernelStack::new()?;
    // A thread in the same memory must not run handlers on its creator's alternate stack.
    let keeps_altstack = !request.has(CLONE_VM) || request.has(CLONE_VFORK);
    let altstack = if keeps_altstack {
        parent.signals.own.with(|own| own.altstack)
    } else {
        Altstack::NONE
    };
    let change = |frame: &mut Frame| {
        frame.set_result(0);
        frame.clear_syscall();
        if request.stack != 0 {
            frame.set_sp(request.stack);
        }
    };
    let room = Room::new()?;
    core::mem::forget((admitted, counted));
    let child = room.fill(Thread::new(thread::Parts {
        arch: || ThreadState::new_user(stack, frame, change),
        tid,
        process: process.clone(),
        resources,
        credentials,
        inherited: parent.inherited(),
        blocked: parent.blocked(),
        altstack,
        name: parent.name(),
        allowed: parent.sched.allowed(),
        nice: parent.nice(),
        counted: true,
        slack: parent.timer_slack(),
        personality: parent.personality(),
        clear_tid: if request.has(CLONE_CHILD_CLEARTID) {
            request.child_tid
        } else {
            0
        },
    }));
    set_up(&child, parent, request)?;
    let pidfd = open_pidfd(request, &process, &child)?;
    process.add_thread(child.clone())?;
    let event = trace(&child, parent, request);
    if !request.has(CLONE_THREAD) {
        let siblings = request.has(CLONE_PARENT);
        if !pid_table::add_process(process.clone(), parent, siblings, &fork) {
            ptrace::unlink(&child);
            // The thread and its process refer to each other.
            process.drop_first_thread();
            return Err(Errno::ERESTARTNOINTR);
        }
        // Without memory the child continues without its CPU limit.
        _ = process.timers.limit_cpu(&process);
    }
    pid_table::add_thread(child.clone());
    number.0 = 0;
    if let Some(pidfd) = pidfd {
        pidfd.install();
    }
    sched::start(child);
    Ok(Cloned {
        tid,
        event,
        borrower: request.has(CLONE_VFORK).then_some(process),
    })
}

/// Gives a child that is not visible yet its thread pointer, its inherited state, and its number.
///
/// # Errors
/// ENOMEM.
#[inline(always)]
fn set_up(child: &Arc<Thread>, parent: &Thread, request: &CloneRequest) -> Result<()> {
    if request.has(CLONE_SETTLS) {
        child.arch.set_tls(request.tls);
    }
    if !request.has(CLONE_VM) {
        child.copy_rseq(parent);
    }
    let (policy, priority) = parent.policy();
    let resets = parent.reset_on_fork() != 0;
    if resets && priority != 0 {
        child.set_nice(0);
    } else if policy != 0 {
        child.set_policy(policy, priority);
    }
    if resets {
        child.set_nice(child.nice().max(0));
    }
    child.copy_io(parent, request.has(CLONE_IO))?;
    let tid = child.tid();
    if request.has(CLONE_CHILD_SETTID) {
        // As on Linux, an invalid address is ignored.
        let space = child.space();
        space.map_or(Ok(0), |space| {
            space.write(request.child_tid, &tid.to_ne_bytes())
        })?;
    }
    if request.has(CLONE_PARENT_SETTID) {
        // This too: the parent gets the number anyway.
        _ = user::store_u32(request.parent_tid, tid as u32);
    }
    Ok(())
}

/// Copies system-call filters, and attaches the tracer if it follows the child; returns the report
/// to the tracer: an option (PTRACE_O_*) and an event.
#[inline(always)]
fn trace(child: &Arc<Thread>, parent: &Thread, request: &CloneRequest) -> Option<(u32, u32)> {
    let event = if parent.is_traced() && !request.has(CLONE_UNTRACED) {
        request.event()
    } else {
        None
    };
    if parent.seccomp.mode() != 0 {
        child.copy_filters(parent);
    }
    let traced =
        event.is_some_and(|(option, _)| parent.reports(option)) || request.has(CLONE_PTRACE);
    if traced {
        // Without memory the child continues untraced.
        _ = ptrace::inherit(parent, child);
    }
    event
}

/// A thread or a process that was just created.
pub struct Cloned {
    tid: i32,
    /// The report to a tracer: an option (PTRACE_O_*) and an event.
    event: Option<(u32, u32)>,
    /// The process that borrows its creator's memory, and that the creator waits for (vfork).
    borrower: Option<Arc<Process>>,
}

impl Cloned {
    /// Notifies a tracer, and waits for a child that borrows memory; returns the child's number.
    pub fn finish(self) -> usize {
        let message = self.tid as usize;
        if let Some((option, event)) = self.event {
            ptrace::event(option, event, message);
        }
        if let Some(process) = self.borrower {
            // If the parent is killed while it waits, it ends without getting its memory back.
            _ = process.changed.wait_killable(|| !process.borrows_memory());
            if self.event.is_some() {
                ptrace::event(PTRACE_O_TRACEVFORKDONE, PTRACE_EVENT_VFORK_DONE, message);
            }
        }
        message
    }
}

fn open_pidfd(
    request: &CloneRequest,
    process: &Arc<Process>,
    child: &Arc<Thread>,
) -> Result<Option<Reserved>> {
    if !request.has(CLONE_PIDFD) {
        return Ok(None);
    }
    let file = if request.has(CLONE_THREAD) {
        pidfd::file(process.clone(), Some(child), pidfd::THREAD)?
    } else {
        pidfd::file(process.clone(), None, 0)?
    };
    Reserved::new(file, request.pidfd).map(Some)
}

/// A count of `sched::admit`, which is dropped unless a thread takes it over.
struct Admitted;

impl Drop for Admitted {
    fn drop(&mut self) {
        sched::uncount();
    }
}

fn copy_resources(request: &CloneRequest, parent: &Thread) -> Result<Resources> {
    let files = if request.has(CLONE_FILES) {
        parent.share_files()
    } else {
        Some(parent.files().fork()?)
    };
    let fs = if request.has(CLONE_FS) {
        parent.share_fs()?
    } else {
        Some(parent.fs().fork()?)
    };
    let space = if request.has(CLONE_VM) {
        parent.share_space()
    } else {
        parent.space().map(|space| space.fork()).transpose()?
    };
    let undo_list = if request.has(CLONE_SYSVSEM) {
        Some(parent.undo_list()?)
    } else {
        None
    };
    Ok(Resources {
        space,
        files,
        fs,
        undo_list,
    })
}

/// A count of the user's tasks, which is dropped unless a process or another thread takes it over.
struct Counted<'a>(&'a User);

impl<'a> Counted<'a> {
    /// Counts one more.
    ///
    /// # Errors
    /// EAGAIN: the user has as many as RLIMIT_NPROC allows.
    #[inline]
    fn new(parent: &Thread, credentials: &'a Credentials) -> Result<Self> {
        let user = &*credentials.user;
        // Root's tasks are not limited.
        if credentials.uid == 0 || user.add_task_below(most_tasks(parent, credentials)) {
            Ok(Counted(user))
        } else {
            Err(Errno::EAGAIN)
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.remove_task();
    }
}

/// The maximum number of processes and further threads of the user.
#[cold]
fn most_tasks(parent: &Thread, credentials: &Credentials) -> usize {
    if credentials.can(CAP_SYS_RESOURCE) || credentials.can(CAP_SYS_ADMIN) {
        return INFINITY;
    }
    parent.process().limits.soft(RLIMIT_NPROC)
}

fn new_process(
    request: &CloneRequest,
    parent: &Thread,
    credentials: Arc<Credentials>,
    pid: i32,
) -> Result<Arc<Process>> {
    let old = parent.process();
    let actions = old.signals.actions();
    let actions = if request.has(CLONE_SIGHAND) {
        actions
    } else if request.flags & CLONE_CLEAR_SIGHAND != 0 {
        signal::Actions::exec(&actions)?
    } else {
        actions.fork()?
    };
    let room = Room::new()?;
    Ok(room.fill(Process::new(process::Parts {
        pid,
        parent: if request.has(CLONE_PARENT) {
            old.parent()
        } else {
            old.pid()
        },
        parent_tid: if request.has(CLONE_PARENT) {
            old.parent_tid.load(Relaxed)
        } else {
            parent.tid()
        },
        group: old.group(),
        session: old.session(),
        actions,
        limits: &old.limits,
        credentials,
        program: old.program(),
        exit_signal: if request.has(CLONE_PARENT) {
            old.exit_signal.load(Relaxed)
        } else {
            request.exit_signal
        },
        parent_exec_id: if request.has(CLONE_PARENT) {
            old.parent_exec_id()
        } else {
            old.exec_id()
        },
        borrows_memory: request.has(CLONE_VFORK),
        modes: if request.has(CLONE_VM) {
            old.modes()
        } else {
            old.inherited_modes()
        },
        oom_adjust: old.oom_adjust.fork(),
        dump_filter: old.dump_filter(),
        counting: old.counting(),
        traced: old.is_traced(),
        barriers: old.barriers(),
    })))
}
