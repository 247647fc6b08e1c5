//! The end of threads and processes, and its report to their parents.

extern crate alloc;

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;
use linux_raw_sys::ptrace::{PTRACE_EVENT_EXIT, PTRACE_O_TRACEEXIT};

use super::pid_table::{self, Left};
use super::sched::{self, state};
use super::signal::{self, Info, Set};
use super::{Process, Thread, acct, current, futex, job, ptrace, sched::prepare};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::fs;
use crate::mm::user;

/// Ends the current process: `status` as wait(2) reports it.
pub fn exit_group(status: u32) -> ! {
    current().process().begin_exit(status);
    exit_thread()
}

/// Ends the current thread. The last one ends the process with the status `code` (0 to 255), unless
/// the process was already ending.
pub fn exit_alone(code: u32) -> ! {
    exit_with(code << 8)
}

/// The same with a status as wait(2) reports it.
pub fn exit_with(status: u32) -> ! {
    current().set_end_status(status);
    exit_thread()
}

/// Ends the current thread. The last one to begin this sets the process's exit status, unless it is
/// set already.
pub fn exit_thread() -> ! {
    let thread: &Thread = &current();
    let process = thread.process();
    let status = thread.end_status();
    let settles = process.begin_end_of_thread(status);
    ptrace::event(PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT, status as usize);
    if settles && process.pid() == 1 {
        end_of_init(process);
    }
    // Threads that learn of the end through shared memory must not find the filters of this thread.
    thread.seccomp.leave();
    leave_memory(thread);
    process.return_memory();
    let space = thread.replace_space(None);
    thread.drop_files();
    // Dropped here, since the thread's last count may be dropped in an interrupt.
    let ring = thread.keyring.lock().take();
    drop(ring);
    ptrace::end_of_tracer(thread);
    let last = process.remove_thread(thread, space.as_deref().map(|space| &**space));
    // Until now, another thread may have given it filters.
    thread.seccomp.leave();
    // The record is written after the memory was freed, for which others may wait.
    let record = (last && acct::is_on())
        .then(|| acct::Record::of_ended(process, space.as_deref().map(|space| &**space)));
    // With the last user the memory is freed, while others can run.
    drop(space);
    pid_table::remove_thread(thread);
    futex::release_locks();
    if let Some(record) = record {
        record.write();
    }
    ptrace::end_of_thread(status, last);
    if last {
        end_process(process);
    } else {
        process.changed.wake_all();
    }
    process.notify_ended();
    prepare(state::DEAD);
    sched::schedule();
    unreachable!("a dead thread was scheduled")
}

/// Notifies other threads that this one ends, through the memory that they share.
pub(super) fn leave_memory(thread: &Thread) {
    thread.rseq.clear();
    let clear_tid = thread.own.with(|own| core::mem::take(&mut own.clear_tid));
    let robust = thread.robust_list();
    thread.set_robust_list(0);
    let Some(space) = thread.space() else { return };
    if robust != 0 {
        futex::release_robust(robust, thread.tid(), thread.arch.is_compat());
    }
    // If no other thread shares its memory, nobody could look.
    if clear_tid != 0 && space.users() > 1 && user::store_u32(clear_tid, 0).is_ok() {
        // An invalid address has no waiters.
        _ = futex::wake(clear_tid, 1, futex::ANY, true);
    }
}

fn end_of_init(process: &Process) -> ! {
    let status = process.exit_status().unwrap_or(0);
    crate::log!("process 1 ended with status {status:#x}");
    fs::ext4::sync_all();
    fs::page_cache::sync_all();
    crate::drivers::virtio_console::flush();
    arch::power::off()
}

/// Ends `process`, whose last thread is gone.
fn end_process(process: &Process) {
    process.timers.clear();
    process.leave_program();
    let ring = process.keyring.lock().take();
    drop(ring);
    if process.session() == process.pid() {
        fs::tty::session_ended(process.session());
    }
    let left = pid_table::leave_family(process, job::is_guarded, |child, heir| {
        job::orphaned_by(process, child);
        notify_parent_of_death(child);
        if child.is_zombie() {
            notify(child, heir);
        }
    });
    // No delay here: the parent sleeps until it is notified of the zombie that it sees.
    let parent = match left {
        Left::Zombie(parent) => parent,
        Left::Orphaned(group) => {
            job::hang_up(group);
            process.set_zombie();
            pid_table::process(process.parent())
        }
    };
    match parent {
        Some(parent) => notify(process, &parent),
        None => process.set_end_notified(),
    }
}

/// Sends `child`, whose parent was the current process, the signals that its threads requested
/// (PR_SET_PDEATHSIG).
fn notify_parent_of_death(child: &Process) {
    // Sending a signal takes the lock of the receiver's threads, so the signals are collected
    // first.
    let asked = child
        .threads()
        .iter()
        .filter(|thread| thread.death_signal() != 0)
        .fold(0, |set, thread| set | Set::bit(thread.death_signal()));
    for number in (1..=signal::LAST).filter(|&number| asked & Set::bit(number) != 0) {
        if signal::may_send(child, None, number) {
            // An ordinary signal needs no room.
            _ = signal::send_info(child, None, &Info::user(number));
        }
    }
}

/// Notifies `parent` that `child` is a zombie, or reaps it if the parent ignores SIGCHLD.
fn notify(child: &Process, parent: &Process) {
    let mut number = child.exit_signal.load(Relaxed);
    if number != 0 && child.parent_exec_id() != parent.exec_id() {
        // The parent has executed another program, which did not choose the signal.
        number = SIGCHLD;
    }
    let action = parent.signals.with_actions(|actions| actions.get(SIGCHLD));
    let unwanted = action.handler == signal::SIG_IGN || action.flags & SA_NOCLDWAIT as usize != 0;
    let reap = number == SIGCHLD && unwanted;
    if number != 0 && !(reap && action.handler == signal::SIG_IGN) {
        let maker = child.parent_tid.load(Relaxed);
        signal::send_to_parent(parent, maker, &child_info(child, number));
    }
    child.set_end_notified();
    if reap && child.claim_reaping() {
        pid_table::remove_process(child);
        child.notify_ended();
    }
    parent.child_event.wake_all();
    child.changed.wake_all();
}

/// Whether a process wants a signal when its children stop and continue.
pub(super) fn wants_stops(parent: &Process) -> bool {
    let action = parent.signals.with_actions(|actions| actions.get(SIGCHLD));
    action.handler != signal::SIG_IGN && action.flags & SA_NOCLDSTOP as usize == 0
}

fn child_info(child: &Process, number: u32) -> Info {
    let status = child.exit_status().unwrap_or(0);
    let (code, value) = describe(status);
    let uid = child.with_credentials(|who| who.uid);
    Info::child(
        number,
        code,
        child.pid(),
        uid,
        value,
        child.times().in_user_hz(),
    )
}

/// `si_code` and `si_status` of a status that wait(2) reports.
pub fn describe(status: u32) -> (u32, i32) {
    match status & 0x7f {
        0 => (CLD_EXITED, (status >> 8 & 0xff) as i32),
        signal if status & 0x80 != 0 => (CLD_DUMPED, signal as i32),
        signal => (CLD_KILLED, signal as i32),
    }
}

/// Ends all other threads of the current process and waits until they are gone (exec).
///
/// # Errors
/// EAGAIN: the process ends, or another thread is doing the same.
pub(super) fn end_other_threads() -> Result<()> {
    let thread: &Thread = &current();
    let process = thread.process();
    if process.threads().len() == 1 {
        return Ok(());
    }
    {
        let threads = process.threads();
        if thread.must_die() {
            return Err(Errno::EAGAIN);
        }
        for other in threads
            .iter()
            .filter(|other| !core::ptr::eq(&***other, thread))
        {
            other.mark_killed();
            let sleeps = state::INTERRUPTIBLE | state::KILLABLE | state::STOPPED | state::TRACED;
            other.when_not_looked_at(|| signal::notify(other, sleeps));
        }
    }
    let alone = process
        .changed
        .wait_killable(|| process.threads().len() == 1);
    alone.map_err(|_| Errno::EAGAIN)
}
