//! Sending signals.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::*;

use super::mask::{STOPS, Set};
use super::pending::{self, Charge, Room, Slot};
use super::{Default, Info, SIG_DFL, default_of};
use crate::arch::{self, smp, work::SIGNAL};
use crate::errno::{Errno, Result};
use crate::task::pid_table::{self, Several};
use crate::task::sched::{self, state};
use crate::task::{Process, Thread, current};

/// Makes a thread handle its signals: wakes it, or interrupts its CPU.
pub fn notify(thread: &Arc<Thread>, sleeps: u8) {
    thread.arch.work.fetch_or(SIGNAL, Relaxed);
    // The fence of the wake-up also precedes the load of `is_running`.
    if !sched::wake_from(thread.clone(), sleeps)
        && thread.arch.is_running()
        && !core::ptr::eq(&**thread, &*current())
    {
        smp::kick(thread.sched.cpu());
    }
}

/// Whether the current thread may send signal `number` to `target`, or to its thread `thread`: the
/// credentials of the process's other threads do not matter.
pub fn may_send(target: &Process, thread: Option<&Thread>, number: u32) -> bool {
    if core::ptr::eq(target, &**current().process()) {
        return true;
    }
    let continues = number == SIGCONT && target.session() == current().session();
    let other = thread.map_or_else(|| target.credentials(), Thread::credentials);
    continues || current().with_credentials(|who| who.may_signal(&other))
}

/// Whether a tracer wants to see ignored signals too.
fn is_traced(process: &Process, thread: Option<&Arc<Thread>>) -> bool {
    match thread {
        Some(thread) => thread.is_traced(),
        None => process.find_thread(|thread| thread.is_traced()).is_some(),
    }
}

fn action_of(process: &Process, number: u32) -> usize {
    let actions = &process.signals;
    actions.with_actions(|actions| actions.get(number).handler)
}

/// Process 1 gets only signals with handlers, so that it cannot be killed.
fn is_kept_from_init(process: &Process, thread: Option<&Arc<Thread>>, number: u32) -> bool {
    process.pid() == 1
        && action_of(process, number) == SIG_DFL
        && (number == SIGKILL || !is_traced(process, thread))
}

/// Whether a signal for `thread`, or for all of the process, is dropped. A signal for the process
/// is not if `judge`, by default the first thread, blocks it.
fn is_ignored(
    process: &Process,
    thread: Option<&Arc<Thread>>,
    judge: Option<&Arc<Thread>>,
    number: u32,
) -> bool {
    let bit = Set::bit(number);
    let kept = || match thread.or(judge) {
        Some(thread) => thread.keeps(bit),
        None => process
            .threads()
            .first()
            .is_none_or(|thread| thread.keeps(bit)),
    };
    let ignored = process.signals.with_actions(|actions| actions.ignored()) & bit != 0;
    ignored && !kept() && !is_traced(process, thread)
}

/// Whether a signal would have no effect.
pub fn is_discarded(process: &Process, thread: Option<&Arc<Thread>>, number: u32) -> bool {
    is_kept_from_init(process, thread, number) || is_ignored(process, thread, None, number)
}

/// Sends a signal to a process, or to one of its threads.
///
/// # Errors
/// EAGAIN: no room to queue it.
pub fn send_info(process: &Process, thread: Option<&Arc<Thread>>, info: &Info) -> Result<()> {
    post(process, thread, info, Sender::Other)
}

/// Sends the signal of a POSIX timer. Its code does not identify it, since programs may send that
/// code too.
///
/// # Errors
/// EAGAIN: no room to queue it.
pub fn send_timer(
    process: &Process,
    thread: Option<&Arc<Thread>>,
    info: &Info,
    slot: &Arc<Slot>,
) -> Result<()> {
    post(process, thread, info, Sender::PosixTimer(slot))
}

/// Sends the signal of a POSIX timer for the CPU time of a process: see [`Turn`].
///
/// # Errors
/// EAGAIN: no room to queue it.
pub fn send_posix_cpu_timer(
    process: &Process,
    thread: Option<&Arc<Thread>>,
    info: &Info,
    slot: &Arc<Slot>,
    turn: &Turn,
) -> Result<()> {
    post(process, thread, info, Sender::PosixCpuTimer(slot, turn))
}

/// Sends a signal about the CPU time of a process: ITIMER_VIRTUAL, ITIMER_PROF, RLIMIT_CPU.
///
/// # Errors
/// EAGAIN: no room to queue it.
pub fn send_cpu_timer(process: &Process, info: &Info, turn: &Turn) -> Result<()> {
    post(process, None, info, Sender::CpuTimer(turn))
}

/// Sends a process the signal about a child or a tracee. `parent` is the number of the thread that
/// made or traces it: that thread decides whether the signal is ignored, and gets it if it does not
/// block it (Linux's `do_notify_parent`). If the thread has ended, it is the first one.
pub fn send_to_parent(process: &Process, parent: i32, info: &Info) {
    let is_own = |thread: &Arc<Thread>| core::ptr::eq(&**thread.process(), process);
    let thread = match parent == process.pid() {
        true => None,
        false => pid_table::thread(parent).filter(is_own),
    };
    // An ordinary signal needs no room.
    _ = post(process, None, info, Sender::Child(thread.as_ref()));
}

/// The thread of its process that got the last signal of a CPU-time timer. The next signal goes to
/// the next thread that is running, so that each thread gets signals as it uses CPU time, as on
/// Linux, where the tick of each CPU sends them.
#[derive(Default)]
pub struct Turn(AtomicUsize);

impl Turn {
    /// The next running thread in turn that accepts the signal.
    fn next(&self, process: &Process, bit: u64) -> Option<Arc<Thread>> {
        let threads = process.threads();
        let first = self.0.load(Relaxed) + 1;
        let runs = |&at: &usize| {
            let thread = &threads[at];
            thread.arch.is_running() && thread.blocked() & bit == 0
        };
        let mut in_turn = (first..first + threads.len()).map(|at| at % threads.len());
        let next = in_turn.find(runs)?;
        self.0.store(next, Relaxed);
        Some(threads[next].clone())
    }
}

#[derive(Clone, Copy)]
enum Sender<'a> {
    PosixTimer(&'a Arc<Slot>),
    PosixCpuTimer(&'a Arc<Slot>, &'a Turn),
    CpuTimer(&'a Turn),
    Child(Option<&'a Arc<Thread>>),
    Other,
}

fn post(
    process: &Process,
    thread: Option<&Arc<Thread>>,
    info: &Info,
    sender: Sender<'_>,
) -> Result<()> {
    let (number, bit) = (info.number(), Set::bit(info.number()));
    if process.is_zombie() {
        return Ok(());
    }
    if is_kept_from_init(process, thread, number) {
        return Ok(());
    }
    if bit & STOPS != 0 {
        process.discard(Set::bit(SIGCONT));
    } else if number == SIGCONT {
        process.discard(STOPS);
        process.resume();
    }
    if number == SIGKILL {
        process.kill(SIGKILL);
        return Ok(());
    }
    let judge = match sender {
        Sender::Child(parent) => parent,
        _ => None,
    };
    if is_ignored(process, thread, judge, number) {
        return Ok(());
    }
    let room = match sender {
        Sender::PosixTimer(slot) | Sender::PosixCpuTimer(slot, _) => Room::Timer(slot.clone()),
        _ => room(process, number),
    };
    match thread {
        Some(thread) => thread.signals.pending.lock().add(info, room)?,
        None => process.signals.pending.lock().add(info, room)?,
    }
    if ends_at_once(process, thread, number) {
        process.kill(number);
        return Ok(());
    }
    match thread {
        Some(thread) => {
            if thread.blocked() & bit == 0 {
                notify(thread, state::INTERRUPTIBLE);
            }
        }
        None => {
            let preferred = match sender {
                Sender::PosixTimer(_) => own_thread(process, bit),
                Sender::PosixCpuTimer(_, turn) | Sender::CpuTimer(turn) => turn.next(process, bit),
                Sender::Child(parent) => {
                    let accepts = |thread: &&Arc<Thread>| thread.blocked() & bit == 0;
                    parent.filter(accepts).cloned()
                }
                Sender::Other => None,
            };
            match preferred {
                Some(thread) => {
                    notify(&thread, state::INTERRUPTIBLE);
                    process.signals.waited.wake_all();
                }
                None => retarget_shared(process, bit),
            }
        }
    }
    process.signals.notify_sent();
    Ok(())
}

/// The current thread, if it belongs to the process and accepts the signal.
fn own_thread(process: &Process, bit: u64) -> Option<Arc<Thread>> {
    let own = current();
    let takes = core::ptr::eq(&**own.process(), process) && own.blocked() & bit == 0;
    takes.then(crate::arch::current_arc)
}

/// Whether a signal that is now pending ends the process, taken by a thread that is neither traced
/// nor stopped: then it also ends waits that only a fatal signal interrupts (Linux's
/// `complete_signal`).
fn ends_at_once(process: &Process, thread: Option<&Arc<Thread>>, number: u32) -> bool {
    let bit = Set::bit(number);
    let is_taken = || match thread {
        Some(thread) => !thread.keeps(bit),
        None => {
            let threads = process.threads();
            let mut takers = threads.iter().filter(|thread| thread.blocked() & bit == 0);
            takers.next().is_some() && !threads.iter().any(|thread| thread.awaits(bit))
        }
    };
    default_of(number) == Default::Terminate
        && action_of(process, number) == SIG_DFL
        && !process.is_exiting()
        && !process.signals.stop.is_stopped()
        && is_taken()
        && !is_traced(process, thread)
}

/// The room for a pending signal of `process`: RLIMIT_SIGPENDING limits the queued signals of all
/// processes of its user.
fn room(process: &Process, number: u32) -> Room {
    if number < pending::REAL_TIME {
        return Room::Own;
    }
    let most = process.limits.soft(RLIMIT_SIGPENDING);
    let charge = Charge::new(process.credentials().user.clone(), most);
    charge.map_or(Room::None, |_charge| Room::Charged { _charge })
}

impl Process {
    /// Gives a new process, which is not visible yet, signals to handle before its program begins.
    pub(in crate::task) fn begin_with(&self, set: u64) {
        if set & Set::bit(SIGKILL) != 0 {
            self.set_exit_status(SIGKILL);
        }
        self.signals
            .pending
            .lock()
            .add_numbers(set & !Set::bit(SIGKILL));
        for thread in self.threads().iter() {
            thread.arch.work.fetch_or(SIGNAL, Relaxed);
        }
    }
}

/// Finds a thread for each pending signal of the process in `set`.
pub(super) fn retarget_shared(process: &Process, set: u64) {
    let waiting = process.signals.pending.lock().set() & set;
    if waiting == 0 {
        return;
    }
    let taker = process.find_thread(|thread| !thread.blocked() & waiting != 0);
    if let Some(thread) = taker {
        notify(&thread, state::INTERRUPTIBLE);
    }
    process.signals.waited.wake_all();
}

/// Sends a signal to a thread as tkill(2) does.
pub fn send_thread(thread: &Arc<Thread>, info: &Info) -> Result<()> {
    send_info(thread.process(), Some(thread), info)
}

/// Sends signal `number` from the kernel to process `pid`.
///
/// # Errors
/// ESRCH.
pub fn send_process(pid: i32, number: u32) -> Result<()> {
    let process = pid_table::process(pid).ok_or(Errno::ESRCH)?;
    send(&process, number)
}

/// Sends signal `number` from the kernel to a process.
pub fn send(process: &Process, number: u32) -> Result<()> {
    send_info(process, None, &Info::kernel(number))
}

/// Sends signal `number` from the kernel to every process of group `group`. Other threads may run
/// meanwhile.
///
/// # Errors
/// ESRCH: no such group.
pub fn send_group(group: i32, number: u32) -> Result<()> {
    send_group_where(group, number, |_| true, sched::cond_resched)
}

/// Sends a signal to the `wanted` members of a group; calls `pause` after each, of which there may
/// be thousands.
///
/// # Errors
/// ESRCH: there are none.
pub fn send_group_where(
    group: i32,
    number: u32,
    wanted: impl Fn(&Process) -> bool,
    pause: fn(),
) -> Result<()> {
    let mut found = Err(Errno::ESRCH);
    pid_table::send_each(Several::Group(group), number, wanted, |process| {
        found = Ok(());
        // Ordinary signals need no room.
        _ = send(process, number);
        pause();
    })?;
    found
}

/// Sends signal `number` to the current process, as the kernel does for SIGPIPE.
pub fn raise(number: u32) {
    // Ordinary signals need no room.
    _ = send_info(
        current().process(),
        Some(&crate::arch::current_arc()),
        &Info::kernel(number),
    );
}

/// Sends the current thread a signal if its program's accesses had other tags than the memory: as
/// on Linux, it may be blocked or ignored.
#[cold]
#[inline(never)]
pub fn report_tag_fault() {
    if !arch::take_tag_fault(&current().arch.work) {
        return;
    }
    // A single signal always has room as a bit.
    _ = send_info(
        current().process(),
        Some(&crate::arch::current_arc()),
        &Info::fault(SIGSEGV, SEGV_MTEAERR, 0),
    );
}

/// Makes the current thread take a signal for its own fault, which cannot be blocked or ignored.
/// SIGKILL ends its process. A thread that has to die takes no signal: its process may continue
/// without it, through an exec or until a core file is written.
#[cold]
#[inline(never)]
pub fn force(number: u32, code: u32, address: usize) {
    if current().must_die() {
        return;
    }
    if number == SIGKILL {
        current().process().kill(SIGKILL);
        return;
    }
    force_info(Info::fault(number, code, address));
}

/// Like [`force`], with a complete `siginfo_t`.
pub fn force_info(info: Info) {
    let number = info.number();
    let (thread, bit) = (current(), Set::bit(number));
    thread.process().signals.with_actions(|actions| {
        if (thread.blocked() | actions.ignored()) & bit != 0 {
            actions.reset(number);
            thread.signals.blocked.fetch_and(!bit, Relaxed);
        }
    });
    // A single signal always has room as a bit.
    _ = thread.signals.pending.lock().add(&info, Room::Own);
    thread.arch.work.fetch_or(SIGNAL, Relaxed);
}

/// Makes the current thread take SIGSEGV because the kernel could not deliver the signal `number`
/// (0 for none). The program may catch it, unless `number` is SIGSEGV (Linux's `force_sigsegv`).
#[cold]
pub fn force_sigsegv(number: u32) {
    if number == SIGSEGV {
        force_fatal(SIGSEGV);
    } else {
        force(SIGSEGV, SI_KERNEL, 0);
    }
}

/// Ends the current process by a signal for its own fault, after resetting its action.
fn force_fatal(number: u32) {
    let thread = current();
    if thread.must_die() {
        return;
    }
    let signals = &thread.process().signals;
    signals.with_actions(|actions| actions.reset(number));
    force(number, SI_KERNEL, 0);
}
