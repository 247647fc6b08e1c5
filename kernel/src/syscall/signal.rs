//! System calls on signals.

use alloc::sync::Arc;
use core::cell::Cell;

use linux_raw_sys::general::*;

use super::layout::{Layout, given};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::pid_table::{self, Several};
use crate::task::sched::cond_resched;
use crate::task::signal::{self, Action, Info, SIG_IGN, Set, default_of};
use crate::task::wait_queue::{WaitError, WaitQueue};
use crate::task::{Process, Thread, current};

pub(super) fn check_signal(number: u32) -> Result<()> {
    if number <= signal::LAST {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn check_set(size: usize) -> Result<()> {
    if size == size_of::<u64>() {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Whether the current thread may send signal `number` to `target`, or to its thread `thread`.
pub(super) fn check_permission(
    target: &Process,
    thread: Option<&Thread>,
    number: u32,
) -> Result<()> {
    if signal::may_send(target, thread, number) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn send_one(target: &Process, number: u32, info: &Info) -> Result<()> {
    check_signal(number)?;
    check_permission(target, None, number)?;
    if number == 0 {
        Ok(())
    } else {
        signal::send_info(target, None, info)
    }
}

/// kill(2)
pub fn kill(pid: i32, number: u32) -> Result<usize> {
    let info = Info::user(number);
    if pid > 0 {
        send_one(&*process_of(pid)?, number, &info)?;
        return Ok(0);
    }
    if pid == i32::MIN {
        return Err(Errno::ESRCH);
    }
    check_signal(number)?;
    let own = current().process_id();
    match pid {
        0 => send_to_group(current().group(), number, &info),
        -1 => {
            let is_other = |process: &Process| process.pid() > 1 && process.pid() != own;
            // It is no error if the caller may not signal some of the processes, or any.
            match send_to_each(number, &info, Several::All(&is_other)) {
                Err(Errno::EPERM) => Ok(0),
                other => other,
            }
        }
        _ => send_to_group(-pid, number, &info),
    }
}

/// The process that has the number `id`, or that has a thread with it.
fn process_of(id: i32) -> Result<Arc<Process>> {
    pid_table::process_of(id).ok_or(Errno::ESRCH)
}

/// Sends a signal to those processes of a group that the caller may signal.
pub(super) fn send_to_group(group: i32, number: u32, info: &Info) -> Result<usize> {
    send_to_each(number, info, Several::Group(group))
}

fn send_to_each(number: u32, info: &Info, whom: Several) -> Result<usize> {
    let (sent, mut failed) = (Cell::new(false), None);
    let may = |process: &Process| {
        let may = signal::may_send(process, None, number);
        // Number 0 only tests for existence, and no fork waits for it.
        sent.set(sent.get() || may && number == 0);
        may && number != 0
    };
    let others = pid_table::send_each(whom, number, may, |process| {
        match signal::send_info(process, None, info) {
            Err(error) => failed = Some(error),
            Ok(()) => sent.set(true),
        }
        cond_resched();
    })?;
    match failed {
        _ if sent.get() => Ok(0),
        None if others => Err(Errno::EPERM),
        failed => Err(failed.unwrap_or(Errno::ESRCH)),
    }
}

/// tkill(2)
pub fn tkill(tid: i32, number: u32) -> Result<usize> {
    send_to_thread(None, tid, number, &Info::thread(number))
}

/// tgkill(2)
pub fn tgkill(pid: i32, tid: i32, number: u32) -> Result<usize> {
    if pid <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(Some(pid), tid, number, &Info::thread(number))
}

fn send_to_thread(pid: Option<i32>, tid: i32, number: u32, info: &Info) -> Result<usize> {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let thread = pid_table::thread(tid).ok_or(Errno::ESRCH)?;
    if pid.is_some_and(|pid| pid != thread.process_id()) {
        return Err(Errno::ESRCH);
    }
    check_signal(number)?;
    check_permission(thread.process(), Some(&thread), number)?;
    if number != 0 {
        signal::send_thread(&thread, info)?;
    }
    Ok(0)
}

/// The information that a program sends with a signal to the process or thread `to`; only to itself
/// may it pretend to be the kernel or kill(2).
fn check_info(number: u32, mut info: Info, to: i32) -> Result<Info> {
    info.signo = number as i32;
    if (info.code >= 0 || info.code == SI_TKILL) && to != current().tid() {
        return Err(Errno::EPERM);
    }
    Ok(info)
}

/// rt_sigqueueinfo(2)
pub fn rt_sigqueueinfo<L: Layout>(pid: i32, number: u32, info: usize) -> Result<usize> {
    let info = check_info(number, L::info(info)?, pid)?;
    send_one(&*process_of(pid)?, number, &info)?;
    Ok(0)
}

/// rt_tgsigqueueinfo(2)
pub fn rt_tgsigqueueinfo<L: Layout>(pid: i32, tid: i32, number: u32, info: usize) -> Result<usize> {
    let info = L::info(info)?;
    if pid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let info = check_info(number, info, tid)?;
    send_to_thread(Some(pid), tid, number, &info)
}

const FLAGS: u32 = SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND
    | SA_EXPOSE_TAGBITS
    | SA_RESTORER;
const SA_RESTORER: u32 = if arch::signal::HAS_RESTORER {
    0x0400_0000
} else {
    0
};

/// rt_sigaction(2)
pub fn rt_sigaction<L: Layout>(number: u32, new: usize, old: usize, size: usize) -> Result<usize> {
    check_set(size)?;
    let before = change_action(number, given(new, L::action)?)?;
    given(old, |old| L::put_action(old, &before))?;
    Ok(0)
}

/// Changes the action of a signal to `wanted`, if that is given; returns the old one.
///
/// # Errors
/// EINVAL, ENOMEM.
#[inline(always)]
pub fn change_action(number: u32, wanted: Option<Action>) -> Result<Action> {
    if number.wrapping_sub(1) >= signal::LAST {
        return Err(Errno::EINVAL);
    }
    let thread = current();
    let process = thread.process();
    Ok(match wanted {
        None => process.signals.with_actions(|actions| actions.get(number)),
        Some(_) if signal::UNBLOCKABLE & Set::bit(number) != 0 => return Err(Errno::EINVAL),
        Some(wanted) => {
            // Without the flag, the field may hold anything.
            let has_restorer = wanted.flags & SA_RESTORER as usize != 0;
            let action = Action {
                handler: wanted.handler,
                flags: wanted.flags & FLAGS as usize,
                restorer: if has_restorer { wanted.restorer } else { 0 },
                mask: wanted.mask & !signal::UNBLOCKABLE,
            };
            let signals = &process.signals;
            let before = signals.with_actions(move |actions| actions.set(number, action))?;
            let quiet = || matches!(default_of(number), signal::Default::Ignore);
            if action.handler <= SIG_IGN && (action.handler == SIG_IGN || quiet()) {
                process.discard(Set::bit(number));
            }
            before
        }
    })
}

/// rt_sigprocmask(2)
pub fn rt_sigprocmask(how: u32, set: usize, old: usize, size: usize) -> Result<usize> {
    check_set(size)?;
    let before = current().blocked();
    if let Some(set) = UserPtr::<u64>::new(set).read_opt()? {
        signal::set_blocked(match how {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        });
    }
    UserPtr::new(old).write_opt(&before)?;
    Ok(0)
}

/// rt_sigpending(2)
pub fn rt_sigpending(to: usize, size: usize) -> Result<usize> {
    if size > size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let set = current().pending() & current().blocked();
    crate::mm::user::UserSlice::new(to, size).copy_out(&set.to_ne_bytes())?;
    Ok(0)
}

/// rt_sigsuspend(2)
pub fn rt_sigsuspend(set: usize, size: usize) -> Result<usize> {
    check_set(size)?;
    suspend(UserPtr::new(set).read()?)
}

/// Waits for a signal that is not in `set`.
///
/// # Errors
/// ERESTARTNOHAND.
pub fn suspend(set: u64) -> Result<usize> {
    signal::with_mask(set, || {
        match WaitQueue::new().wait_interruptible(|| false, None) {
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTNOHAND),
            _ => Ok(0),
        }
    })
}

/// rt_sigtimedwait(2)
pub fn rt_sigtimedwait<L: Layout>(
    set: usize,
    info: usize,
    timeout: usize,
    size: usize,
) -> Result<usize> {
    check_set(size)?;
    let wanted = UserPtr::<u64>::new(set).read()? & !(Set::bit(SIGKILL) | Set::bit(SIGSTOP));
    let deadline = super::time::read_time::<L>(timeout)?.map(crate::task::clock::deadline_in);
    let found = match signal::take(!wanted) {
        Some(found) => found,
        None => wait_for(wanted, deadline)?,
    };
    given(info, |info| L::put_info(info, &found))?;
    Ok(found.signo as usize)
}

/// Waits for one of the signals `wanted`, which are unblocked meanwhile.
fn wait_for(wanted: u64, deadline: Option<u64>) -> Result<Info> {
    let (found, waited) = signal::await_signals(wanted, || {
        let mut found = None;
        let ready = || {
            found = found.or_else(|| signal::take(!wanted));
            found.is_some()
        };
        let slack = deadline.map_or(0, |_| current().slack_ticks());
        let waited = WaitQueue::new().wait_with_slack(ready, deadline, slack);
        (found.or_else(|| signal::take(!wanted)), waited)
    });
    match (found, waited) {
        (Some(found), _) => Ok(found),
        (None, Err(WaitError::Interrupted)) => Err(Errno::EINTR),
        (None, _) => Err(Errno::EAGAIN),
    }
}

/// rt_sigreturn(2)
pub fn rt_sigreturn<L: Layout>() -> Result<usize> {
    return_from_handler::<L>(true)
}

/// Returns to the code that a handler interrupted, whose frame may hold siginfo.
pub fn return_from_handler<L: Layout>(with_info: bool) -> Result<usize> {
    let (mask, popped) = current().arch.with_frame(|frame| {
        let before = arch::signal::read_saved(frame, with_info);
        let popped = before.and_then(|(_, altstack)| {
            arch::signal::pop(frame, with_info)?;
            Ok((altstack, frame.sp(), frame.result()))
        });
        frame.clear_syscall();
        let mask = before.ok().map(|(mask, _)| mask);
        (mask, popped.map_err(|_| arch::signal::bad_frame(frame)))
    });
    if let Some(mask) = mask {
        signal::set_blocked(mask);
    }
    let (altstack, sp, result) = match popped {
        Ok(popped) => popped,
        Err((code, address)) => {
            signal::force(SIGSEGV, code, address);
            return Ok(0);
        }
    };
    if let Some(words) = altstack {
        let own = &current().signals.own;
        let before = own.with(|own| own.altstack);
        // If a handler leaves an invalid alternate stack behind, the present one is kept.
        let after = before.replaced(words, sp, L::MIN_STACK).unwrap_or(before);
        own.with(|own| own.altstack = after);
    }
    Ok(result as usize)
}

/// sigaltstack(2)
pub fn sigaltstack<L: Layout>(new: usize, old: usize) -> Result<usize> {
    let thread = current();
    let own = &thread.signals.own;
    let sp = thread.arch.with_frame(|frame| frame.sp());
    let before = own.with(|own| own.altstack);
    if new != 0 {
        let after = before.replaced(L::words(new)?, sp, L::MIN_STACK)?;
        own.with(|own| own.altstack = after);
    }
    given(old, |old| L::put_words(old, &before.shown(sp)))?;
    Ok(0)
}
