//! Delivery of signals, on return to the program.

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;

use super::mask::{Set, set_blocked};
use super::{
    Action, Altstack, Default, Info, Own, SIG_DFL, SIG_IGN, default_of, force_sigsegv, stop,
};
use crate::arch::signal::{self, Delivery};
use crate::arch::{self, Frame, work::SIGNAL};
use crate::errno::{Errno, Result};
use crate::task::{coredump, current, exit, itimer, job, ptrace, rseq, sched};
use zerocopy::IntoBytes;

/// The bit of an exit status that says that there is a core file (WCOREDUMP).
const DUMPED: u32 = 0x80;

/// Handles the current thread's signals before its program continues.
pub fn deliver() {
    let thread = current();
    let process = thread.process();
    thread.arch.work.fetch_and(!SIGNAL, Relaxed);
    let mut info = Info::NONE;
    loop {
        if thread.must_die() {
            coredump::leave();
            // Many threads that end one after the other would otherwise switch without polling for
            // pending interrupts.
            sched::cond_resched();
            exit::exit_thread();
        }
        let (signal, count) = process.signals.stop.signal();
        if signal != 0 && (!thread.is_traced() || ptrace::group_stop(signal, count)) {
            stop::park();
            continue;
        }
        if thread.is_traced() && ptrace::take_interrupt() {
            continue;
        }
        if !take_to(thread.blocked(), &mut info) {
            break;
        }
        if thread.is_traced() && !ptrace::signal_stop(&mut info) {
            continue;
        }
        let number = info.number();
        let action = process.signals.with_actions(|actions| actions.take(number));
        match action.handler {
            SIG_IGN => {}
            SIG_DFL => act_by_default(&info),
            _ => {
                if arch::ADDRESS_TAGS && action.flags & SA_EXPOSE_TAGBITS as usize == 0 {
                    info.hide_tag();
                }
                thread
                    .arch
                    .with_frame(|frame| restart(frame, Some(&action)));
                handle(&action, &info);
                return;
            }
        }
    }
    thread.arch.with_frame(|frame| restart(frame, None));
    if let Some(mask) = thread.signals.own.with(|own| own.saved_mask.take()) {
        set_blocked(mask);
    }
}

/// Performs the default action of a signal.
#[cold]
#[inline(never)]
fn act_by_default(info: &Info) {
    let thread = current();
    let process = thread.process();
    let number = info.number();
    match default_of(number) {
        Default::Ignore | Default::Continue => {}
        // A sent signal reached process 1 only for its tracer; only the process's own faults end
        // it.
        _ if process.pid() == 1 && info.code <= 0 && number != SIGSTOP => {}
        Default::Stop if number != SIGSTOP && job::is_orphaned(process.group()) => {}
        Default::Stop => {
            process.stop(number);
            // SIGCONT may have arrived already: then this thread must notify the parent.
            if !current().is_traced() {
                stop::park();
            }
        }
        Default::Terminate => process.kill(number),
        Default::Core if coredump::dump(info) => process.kill(number | DUMPED),
        Default::Core => process.kill(number),
    }
}

/// Takes the next signal of the current thread or its process outside `blocked`.
pub fn take(blocked: u64) -> Option<Info> {
    let mut info = Info::NONE;
    take_to(blocked, &mut info).then_some(info)
}

/// Moves the next signal to `info`; returns whether there is one.
fn take_to(blocked: u64, info: &mut Info) -> bool {
    let thread = current();
    let own = thread.signals.pending.lock().take(blocked, info);
    let of_process = || thread.process().signals.pending.lock().take(blocked, info);
    let Some(of_timer) = own.or_else(of_process) else {
        return false;
    };
    if info.number() == SIGALRM {
        itimer::alarm_taken();
    }
    if of_timer {
        itimer::delivered(info);
    }
    true
}

/// Finishes a system call that a signal interrupted: it is restarted, or ends with EINTR.
fn restart(frame: &mut Frame, handler: Option<&Action>) {
    if frame.syscall_nr().is_none() {
        return;
    }
    let code = Errno(frame.result().wrapping_neg().clamp(0, 4095) as u16);
    let again = match (code, handler) {
        (Errno::ERESTARTSYS, Some(action)) => action.flags & SA_RESTART as usize != 0,
        (Errno::ERESTARTNOHAND | Errno::ERESTART_RESTARTBLOCK, Some(_)) => false,
        (Errno::ERESTART_RESTARTBLOCK, None) => {
            frame.restart_as(__NR_restart_syscall as usize);
            return;
        }
        (Errno::ERESTARTSYS | Errno::ERESTARTNOINTR | Errno::ERESTARTNOHAND, _) => true,
        _ => {
            frame.clear_syscall();
            return;
        }
    };
    if again {
        frame.restart_syscall();
    } else {
        frame.set_result(Errno::EINTR.result());
        frame.clear_syscall();
    }
}

/// The state of an interrupted system call in its frame, and the address at which the program
/// restarts it.
pub struct Interrupted {
    pc: usize,
    again: usize,
    result: isize,
    call: usize,
}

/// If a signal interrupted a system call that can be restarted, makes the frame restart it, which
/// is what a tracer sees.
pub fn begin_again(frame: &mut Frame) -> Option<Interrupted> {
    let (call, result, pc) = (frame.syscall_nr()?, frame.result(), frame.pc());
    let restarts = [
        Errno::ERESTARTSYS,
        Errno::ERESTARTNOINTR,
        Errno::ERESTARTNOHAND,
        Errno::ERESTART_RESTARTBLOCK,
    ];
    if !restarts.iter().any(|errno| errno.result() == result) {
        return None;
    }
    frame.restart_syscall();
    Some(Interrupted {
        pc,
        again: frame.pc(),
        result,
        call,
    })
}

/// Undoes [`begin_again`], unless the tracer set another pc.
pub fn take_back(frame: &mut Frame, before: Option<Interrupted>) {
    if let Some(before) = before.filter(|before| before.again == frame.pc()) {
        frame.set_pc(before.pc);
        frame.set_result(before.result);
        frame.set_syscall(before.call);
    }
}

/// Makes the program call its handler.
fn handle(action: &Action, info: &Info) {
    let thread = current();
    let own = |own: &mut Own| (own.altstack, own.saved_mask.take());
    let (altstack, saved) = thread.signals.own.with(own);
    let wanted = action.flags & SA_ONSTACK as usize != 0;
    let top = |frame: &mut Frame| altstack.top(frame.sp()).filter(|_| wanted);
    let stack_top = thread.arch.with_frame(top);
    let delivery = Delivery {
        signo: info.number(),
        info: info
            .as_bytes()
            .try_into()
            .expect("a siginfo_t has 128 bytes"),
        handler: action.handler,
        flags: action.flags,
        restorer: match action.restorer {
            0 => arch::vdso::sigreturn(crate::task::with_space(|space| space.vdso())),
            restorer => restorer,
        },
        mask: saved.unwrap_or_else(|| thread.blocked()),
        altstack: altstack.words(),
        stack_top,
    };
    rseq::interrupt(info.number());
    let pushed = thread
        .arch
        .with_frame(|frame| signal::push(frame, &delivery));
    if pushed.is_err() {
        thread.signals.own.with(|own| own.saved_mask = saved);
        return force_sigsegv(info.number());
    }
    if altstack.disarms_itself() {
        thread.signals.own.with(|own| own.altstack = Altstack::NONE);
    }
    let own = if action.flags & SA_NODEFER as usize != 0 {
        0
    } else {
        Set::bit(info.number())
    };
    set_blocked(thread.blocked() | action.mask | own);
}

/// Runs `call` with another mask. If a signal ends the call, `mask` is still in force when its
/// handler starts, and the old mask is restored after it.
pub fn with_mask(mask: u64, call: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let thread = current();
    let old = thread.blocked();
    set_blocked(mask);
    let result = call();
    if thread.signal_due()
        && matches!(result, Err(Errno(code)) if code == Errno::EINTR.0 || code >= Errno::ERESTARTSYS.0)
    {
        thread.signals.own.with(|own| own.saved_mask = Some(old));
    } else {
        set_blocked(old);
    }
    result
}
