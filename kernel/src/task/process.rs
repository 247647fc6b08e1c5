//! A process: threads with one number, one set of signals, one parent.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};

use super::count_groups::Group;
use super::credentials::Credentials;
use super::exec::ExecLock;
use super::io_accounting::{Sums, Transfers};
use super::itimer::Timers;
use super::limits::Limits;
use super::oom_adjust::OomAdjust;
use super::rusage::{PrevCputime, Times, Usage};
use super::sched::{self, state};
use super::signal::{self, Actions, Pending, Stop};
use super::signal_groups::Several;
use super::thread::Thread;
use super::wait_queue::WaitQueue;
use super::{clock, coredump, current, tick};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::poll::WaitSource;
use crate::keyring::Key;
use crate::mm::AddressSpace;
use crate::sync::{Mutex, MutexGuard, Once};
use linux_raw_sys::general::SIGCHLD;

/// Up to this many threads, each timer that checks asks each for its usage.
const FEW: usize = 32;

/// The signal state of a process.
pub struct SharedSignals {
    /// Signals for any of its threads.
    pub pending: Mutex<Pending>,
    actions: Mutex<Arc<Actions>>,
    /// The state of job control stops.
    pub stop: Stop,
    /// Threads that wait for signals without handlers (sigtimedwait).
    pub waited: WaitQueue,
    /// The source that its signalfds wait for, once there is one.
    sent: Once<Arc<WaitSource>>,
}

impl SharedSignals {
    /// The state of a new process.
    pub fn new(actions: Arc<Actions>) -> Self {
        SharedSignals {
            pending: Mutex::new(Pending::new()),
            actions: Mutex::new(actions),
            stop: Stop::new(),
            waited: WaitQueue::new(),
            sent: Once::new(),
        }
    }

    /// The source that signalfds wait for: notified when any signal is sent.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn sent(&self) -> Result<&Arc<WaitSource>> {
        self.sent.try_call_once(WaitSource::new)
    }

    /// Notifies signalfds that a signal was sent, or that their set changed.
    #[inline]
    pub fn notify_sent(&self) {
        if let Some(sent) = self.sent.get() {
            sent.notify();
        }
    }

    /// The actions of the signals.
    pub fn actions(&self) -> Arc<Actions> {
        self.actions.lock().clone()
    }

    /// Calls `f` with the signal actions.
    #[inline(always)]
    pub fn with_actions<T>(&self, f: impl FnOnce(&Actions) -> T) -> T {
        f(&self.actions.lock())
    }

    pub(super) fn set_actions(&self, actions: Arc<Actions>) {
        let old = core::mem::replace(&mut *self.actions.lock(), actions);
        drop(old);
    }
}

/// Flags of a process that prctl(2) sets, and that its children and programs inherit.
pub struct Mode;

impl Mode {
    /// PR_SET_THP_DISABLE.
    pub const NO_HUGE_PAGES: u32 = 1;
    /// PR_SET_MDWE with PR_MDWE_NO_INHERIT.
    pub const WRITE_EXECUTE_FOR_CHILD: u32 = 2;
    /// PR_SET_MDWE.
    pub const NO_WRITE_EXECUTE: u32 = 4;
}

/// The scheduling of a thread.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// SCHED_*, with SCHED_RESET_ON_FORK.
    pub policy: u32,
    /// The priority in the real-time policies.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
}

/// A process.
pub struct Process {
    pid: i32,
    pub(super) parent: AtomicI32,
    /// The thread of the parent that created it, or that inherited it.
    pub(super) parent_tid: AtomicI32,
    pub(super) group: AtomicI32,
    pub(super) session: AtomicI32,
    /// Living threads; the first is the leader while it lives.
    pub(super) threads: Mutex<Vec<Arc<Thread>>>,
    /// Threads that have not begun to end (Linux's quick_threads).
    quick_threads: AtomicU32,
    /// Notified when a child changes its state.
    pub child_event: WaitQueue,
    /// Notified when threads end, when the process returns its parent's memory, and when signals to
    /// several processes have reached it.
    pub changed: WaitQueue,
    /// Whether the process runs in its parent's memory, and the parent waits for it (vfork).
    pub(super) borrows_memory: AtomicBool,
    /// Signals to several processes that are being sent to it.
    pub several: Several,
    /// The threads that it traces.
    tracees: Mutex<Vec<Arc<Thread>>>,
    /// Whether it traces any.
    traces: AtomicBool,
    /// Its first thread, if it was traced and ended before others.
    pub(super) ended_leader: Mutex<Option<Arc<Thread>>>,
    /// The source that is notified of its end.
    ended: Mutex<Option<Arc<WaitSource>>>,
    /// Signals.
    pub signals: SharedSignals,
    /// Resource limits.
    pub limits: Limits,
    /// Interval timers.
    pub timers: Timers,
    /// Its keyring, if it was created.
    pub keyring: Mutex<Option<Arc<Key>>>,
    /// The credentials of its first thread, even after that has ended.
    credentials: Mutex<Arc<Credentials>>,
    /// Whether it is counted for its user, until it is waited for.
    counted: AtomicBool,
    /// Whether it is counted by `sched::admit` in place of its first thread, which has ended.
    admitted: AtomicBool,
    /// The file of the program that it runs.
    program: Mutex<Option<Arc<File>>>,
    /// The status that wait(2) reports, with EXITING.
    exit: AtomicU32,
    /// Whether it has left its group: its parent no longer guards the group (`job`).
    left_group: AtomicBool,
    zombie: AtomicBool,
    /// Whether the parent was notified that it is a zombie.
    end_notified: AtomicBool,
    /// Whether a wait(2) has reaped it.
    reaped: AtomicBool,
    /// The signal that the parent gets at the end; 0 for none.
    pub exit_signal: AtomicU32,
    /// The number of programs that it has executed.
    exec_id: AtomicU64,
    /// The `exec_id` of its parent when it was created (Linux's parent_exec_id).
    parent_exec_id: u64,
    /// Prevents others from inspecting it during exec.
    pub exec: ExecLock,
    usage: Mutex<[Usage; 2]>,
    /// The last usage that timers read, and its time in ticks.
    recent_usage: Mutex<(u64, Usage)>,
    /// The bytes read and written by threads that ended, and by children that were waited for;
    /// under the lock of `usage`.
    transfers: Transfers,
    /// Its last reported times, and those of its children.
    prev_cputime: [PrevCputime; 2],
    started: u64,
    executed: AtomicBool,
    /// Whether it used a capability.
    used_privilege: AtomicBool,
    subreaper: AtomicBool,
    /// Bits of [`Mode`].
    modes: AtomicU32,
    /// The scheduling of its last thread.
    last_scheduling: Mutex<Scheduling>,
    counting: Mutex<Arc<Group>>,
    traced: AtomicBool,
    barriers: AtomicU32,
    /// Its likelihood to be killed for lack of memory.
    pub oom_adjust: OomAdjust,
    /// Kinds of memory that go into a core file (coredump_filter).
    dump_filter: AtomicU32,
}

/// The bit of `exit` that says that the process is ending.
const EXITING: u32 = 1 << 31;

/// The parts of a new process.
pub struct Parts<'a> {
    /// Its number.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// The number of its parent's thread.
    pub parent_tid: i32,
    /// Process group and session.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// Its actions of signals.
    pub actions: Arc<Actions>,
    /// Resource limits, which are copied.
    pub limits: &'a Limits,
    /// The credentials of its first thread.
    pub credentials: Arc<Credentials>,
    /// The file of the program that it runs.
    pub program: Option<Arc<File>>,
    /// Signal for its parent at its end.
    pub exit_signal: u32,
    /// The number of programs that its parent has executed.
    pub parent_exec_id: u64,
    /// Whether the process runs in its parent's memory.
    pub borrows_memory: bool,
    /// Bits of [`Mode`].
    pub modes: u32,
    /// Its likelihood to be killed for lack of memory.
    pub oom_adjust: OomAdjust,
    /// The kinds of memory that go into a core file.
    pub dump_filter: u32,
    /// The group in which its crossings are counted.
    pub counting: Arc<Group>,
    /// Whether its system calls are traced.
    pub traced: bool,
    /// The barriers that it registered for.
    pub barriers: u32,
}

impl Process {
    /// A process without threads. Inlined, so that it is built in place.
    #[inline(always)]
    pub fn new(parts: Parts) -> Self {
        Process {
            pid: parts.pid,
            parent: AtomicI32::new(parts.parent),
            parent_tid: AtomicI32::new(parts.parent_tid),
            group: AtomicI32::new(parts.group),
            session: AtomicI32::new(parts.session),
            threads: Mutex::new(Vec::new()),
            quick_threads: AtomicU32::new(0),
            child_event: WaitQueue::new(),
            changed: WaitQueue::new(),
            borrows_memory: AtomicBool::new(parts.borrows_memory),
            several: Several::new(),
            tracees: Mutex::new(Vec::new()),
            traces: AtomicBool::new(false),
            ended_leader: Mutex::new(None),
            ended: Mutex::new(None),
            signals: SharedSignals::new(parts.actions),
            limits: parts.limits.fork(),
            timers: Timers::new(),
            keyring: Mutex::new(None),
            credentials: Mutex::new(parts.credentials),
            counted: AtomicBool::new(true),
            admitted: AtomicBool::new(false),
            program: Mutex::new(parts.program),
            exit: AtomicU32::new(0),
            left_group: AtomicBool::new(false),
            zombie: AtomicBool::new(false),
            end_notified: AtomicBool::new(false),
            reaped: AtomicBool::new(false),
            exit_signal: AtomicU32::new(parts.exit_signal),
            exec_id: AtomicU64::new(0),
            parent_exec_id: parts.parent_exec_id,
            exec: ExecLock::new(),
            usage: Mutex::new([Usage::default(); 2]),
            recent_usage: Mutex::new((0, Usage::default())),
            transfers: Transfers::new(),
            prev_cputime: [PrevCputime::new(), PrevCputime::new()],
            started: clock::monotonic_ns(),
            executed: AtomicBool::new(false),
            used_privilege: AtomicBool::new(false),
            subreaper: AtomicBool::new(false),
            modes: AtomicU32::new(parts.modes),
            last_scheduling: Mutex::default(),
            counting: Mutex::new(parts.counting),
            traced: AtomicBool::new(parts.traced),
            barriers: AtomicU32::new(parts.barriers),
            oom_adjust: parts.oom_adjust,
            dump_filter: AtomicU32::new(parts.dump_filter),
        }
    }

    /// The process's number.
    #[inline]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The number of the parent.
    #[inline]
    pub fn parent(&self) -> i32 {
        self.parent.load(Relaxed)
    }

    /// Whether `thread` is the first of the living threads.
    pub(super) fn is_first(&self, thread: &Thread) -> bool {
        let threads = self.threads();
        let first = threads.first();
        first.is_some_and(|first| core::ptr::eq(&**first, thread))
    }

    /// The number of the process group.
    pub fn group(&self) -> i32 {
        self.group.load(Relaxed)
    }

    /// The number of the session.
    pub fn session(&self) -> i32 {
        self.session.load(Relaxed)
    }

    /// The living threads.
    pub fn threads(&self) -> MutexGuard<'_, Vec<Arc<Thread>>> {
        self.threads.lock()
    }

    /// Threads that it traces.
    pub(super) fn tracees(&self) -> MutexGuard<'_, Vec<Arc<Thread>>> {
        self.tracees.lock()
    }

    /// Whether one of its threads traces another.
    pub(super) fn traces(&self) -> bool {
        self.traces.load(Acquire)
    }

    /// Called under the lock of the tracees.
    pub(super) fn set_traces(&self, traces: bool) {
        self.traces.store(traces, Release);
    }

    /// The first living thread for which `wanted` holds.
    pub fn find_thread(&self, wanted: impl Fn(&Thread) -> bool) -> Option<Arc<Thread>> {
        self.threads().iter().find(|thread| wanted(thread)).cloned()
    }

    /// Calls `f` with the credentials of its first thread, which count for the whole process.
    #[inline]
    pub fn with_credentials<T>(&self, f: impl FnOnce(&Credentials) -> T) -> T {
        f(&self.credentials.lock())
    }

    /// The credentials of its first thread.
    pub fn credentials(&self) -> Arc<Credentials> {
        self.credentials.lock().clone()
    }

    pub(super) fn set_credentials(&self, credentials: Arc<Credentials>) {
        credentials.user.add_task();
        let old = core::mem::replace(&mut *self.credentials.lock(), credentials);
        old.user.remove_task();
    }

    /// The file of the program that it runs.
    pub fn program(&self) -> Option<Arc<File>> {
        self.program.lock().clone()
    }

    /// Sets the program after exec.
    pub(super) fn set_program(&self, file: Arc<File>) {
        let old = self.program.lock().replace(file);
        self.executed.store(true, Relaxed);
        self.barriers.store(0, Relaxed);
        drop(old);
    }

    /// Releases the program at the end of the process, so that its file may be written again.
    pub(super) fn leave_program(&self) {
        let file = self.program.lock().take();
        drop(file);
    }

    /// The barriers that it registered for (MEMBARRIER_CMD_REGISTER_…, as bits).
    pub fn barriers(&self) -> u32 {
        self.barriers.load(Relaxed)
    }

    /// Registers for a barrier.
    pub fn register_barrier(&self, command: u32) {
        self.barriers.fetch_or(command, Relaxed);
    }

    /// The number of programs that it has executed.
    pub fn exec_id(&self) -> u64 {
        self.exec_id.load(Relaxed)
    }

    /// The number of programs that its parent had executed when this process was created.
    pub(super) fn parent_exec_id(&self) -> u64 {
        self.parent_exec_id
    }

    /// Notes an exec: its parent is notified of its end by SIGCHLD, and its children no longer
    /// regard it as the parent that created them.
    pub(super) fn change_program(&self) {
        self.exit_signal.store(SIGCHLD, Relaxed);
        self.exec_id.fetch_add(1, Relaxed);
    }

    /// Whether the process executed a program since it was forked.
    pub fn has_executed(&self) -> bool {
        self.executed.load(Relaxed)
    }

    /// Whether the process used a capability.
    pub fn used_privilege(&self) -> bool {
        self.used_privilege.load(Relaxed)
    }

    /// Notes that the process uses a capability.
    pub(super) fn use_privilege(&self) {
        if !self.used_privilege() {
            self.used_privilege.store(true, Relaxed);
        }
    }

    /// Whether all its threads are ending.
    #[inline]
    pub fn is_exiting(&self) -> bool {
        self.exit.load(Relaxed) != 0
    }

    /// The status that wait(2) reports or will report, once it is set.
    pub fn exit_status(&self) -> Option<u32> {
        let exit = self.exit.load(Acquire);
        (exit != 0).then_some(exit & !EXITING)
    }

    /// Whether the process ended and was not waited for yet.
    pub fn is_zombie(&self) -> bool {
        self.zombie.load(Acquire)
    }

    /// The source that is notified of its end, and of its threads'.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn ended(&self) -> Result<Arc<WaitSource>> {
        let fresh = WaitSource::new()?;
        Ok(self.ended.lock().get_or_insert(fresh).clone())
    }

    /// Notifies pollers that it or one of its threads ended.
    pub(super) fn notify_ended(&self) {
        let ended = self.ended.lock().clone();
        if let Some(ended) = ended {
            ended.notify();
        }
    }

    /// Whether a wait(2) has reaped it.
    pub(super) fn is_reaped(&self) -> bool {
        self.reaped.load(Acquire)
    }

    /// Claims it for a wait(2); false if another has.
    pub(super) fn claim_reaping(&self) -> bool {
        !self.reaped.swap(true, AcqRel)
    }

    /// Whether it has left its group: its parent no longer guards the group.
    pub(super) fn has_left_group(&self) -> bool {
        self.left_group.load(Relaxed)
    }

    /// Called under the lock of the table of processes.
    pub(super) fn set_left_group(&self) {
        self.left_group.store(true, Relaxed);
    }

    pub(super) fn set_zombie(&self) {
        self.zombie.store(true, Release);
    }

    /// Whether its parent was sent the signal of its end. Until then wait(2) does not find it.
    pub(super) fn is_end_notified(&self) -> bool {
        self.end_notified.load(Acquire)
    }

    pub(super) fn set_end_notified(&self) {
        self.end_notified.store(true, Release);
    }

    /// Sets the status (as wait(2) reports it) unless it is set, and makes all threads end.
    pub fn begin_exit(&self, status: u32) {
        self.set_exit_status(status);
        for thread in self.threads().iter() {
            let sleeps = state::INTERRUPTIBLE | state::KILLABLE | state::STOPPED | state::TRACED;
            thread.when_not_looked_at(|| signal::notify(thread, sleeps));
        }
    }

    pub(super) fn set_exit_status(&self, status: u32) {
        _ = self
            .exit
            .compare_exchange(0, EXITING | status, AcqRel, Relaxed);
    }

    /// Discards the pending signals in `set` of the process and its threads.
    pub fn discard(&self, set: u64) {
        self.signals.pending.lock().discard(set);
        for thread in self.threads().iter() {
            thread.signals.pending.lock().discard(set);
        }
    }

    /// Adds a thread.
    ///
    /// # Errors
    /// ENOMEM; ERESTARTNOINTR: the current thread, which makes it, must die. A thread that ends all
    /// others (exec, a core file) marks them with the lock of the threads held.
    pub(super) fn add_thread(&self, thread: Arc<Thread>) -> Result<()> {
        let mut threads = self.threads();
        threads.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if self.is_exiting() || current().must_die() {
            return Err(Errno::ERESTARTNOINTR);
        }
        threads.push(thread);
        self.quick_threads.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A thread begins to end with `status`. Returns whether it was the last to begin this; then
    /// the status is set.
    pub(super) fn begin_end_of_thread(&self, status: u32) -> bool {
        let last = self.quick_threads.fetch_sub(1, AcqRel) == 1;
        if last {
            self.set_exit_status(status);
        }
        last
    }

    /// Drops the thread of a process that never began.
    pub(super) fn drop_first_thread(&self) {
        let gone = core::mem::take(&mut *self.threads());
        drop(gone);
    }

    /// Removes a thread, which left `space`; true if it was the last.
    pub(super) fn remove_thread(&self, thread: &Thread, space: Option<&AddressSpace>) -> bool {
        let used = Usage::of(thread);
        let last = thread.scheduling();
        if thread.tid() == self.pid() {
            if last != Scheduling::default() {
                self.set_last_scheduling(last);
            }
            self.admitted.store(thread.hand_count_over(), Relaxed);
        }
        let mut threads = self.threads();
        let at = threads
            .iter()
            .position(|other| core::ptr::eq(&**other, thread));
        let gone = at.map(|at| threads.remove(at));
        let last = threads.is_empty();
        if !last && thread.is_traced() && thread.tid() == self.pid() {
            // Set before another thread can be the last, which notifies the tracer.
            *self.ended_leader.lock() = gone.clone();
        }
        drop(threads);
        drop(gone);
        let peak = space.filter(|_| last).map_or(0, |space| space.size().peak);
        let mut usage = self.usage.lock();
        usage[0] = usage[0].plus(Usage { peak, ..used });
        self.transfers.inherit(&thread.transfers);
        last
    }

    /// The usage of its threads.
    pub fn usage(&self) -> Usage {
        let living = self
            .threads()
            .iter()
            .fold(Usage::default(), |sum, thread| sum.plus(Usage::of(thread)));
        self.usage.lock()[0].plus(living)
    }

    /// Its usage for timer checks, of which there may be thousands: for a process of many threads,
    /// the usage is computed once per tick.
    pub(super) fn recent_usage(&self) -> Usage {
        if self.threads().len() <= FEW {
            return self.usage();
        }
        let now = time::now_ticks();
        let (then, recent) = *self.recent_usage.lock();
        if now.saturating_sub(then) < time::ns_to_ticks(tick::PERIOD_NS) {
            return recent;
        }
        let usage = self.usage();
        *self.recent_usage.lock() = (now, usage);
        usage
    }

    /// The transfers of its threads, and of children that were waited for.
    pub fn transfers(&self) -> Sums {
        let threads = self.threads();
        let living = threads.iter().map(|thread| thread.transfers.sums());
        living.fold(self.transfers.sums(), Sums::plus)
    }

    /// Records that the process leaves memory that had at most `peak` pages.
    pub(super) fn leave_memory(&self, peak: usize) {
        let own = &mut self.usage.lock()[0];
        own.peak = own.peak.max(peak);
    }

    /// The usage of its children that were waited for.
    pub fn children_usage(&self) -> Usage {
        self.usage.lock()[1]
    }

    /// Adds a child's usage to that of the children.
    pub(super) fn inherit_usage(&self, child: &Process) {
        let used = child.usage().plus(child.children_usage());
        let mut usage = self.usage.lock();
        usage[1] = usage[1].plus(used);
        self.transfers.inherit(&child.transfers);
    }

    /// Its CPU time.
    pub fn times(&self) -> Times {
        self.times_of(&self.usage())
    }

    /// Its CPU time, given its usage.
    pub(super) fn times_of(&self, usage: &Usage) -> Times {
        self.prev_cputime[0].adjust(usage)
    }

    /// Its children's CPU time.
    pub fn children_times(&self) -> Times {
        self.prev_cputime[1].adjust(&self.children_usage())
    }

    /// Its start time, in ns of CLOCK_MONOTONIC.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Whether orphaned descendants become its children.
    pub fn is_subreaper(&self) -> bool {
        self.subreaper.load(Relaxed)
    }

    /// Sets whether orphaned descendants become its children.
    pub fn set_subreaper(&self, on: bool) {
        self.subreaper.store(on, Relaxed);
    }

    /// Bits of [`Mode`].
    pub fn modes(&self) -> u32 {
        self.modes.load(Relaxed)
    }

    /// The bits with which its new memory, its children and its next program start.
    pub fn inherited_modes(&self) -> u32 {
        match self.modes() {
            modes if modes & Mode::WRITE_EXECUTE_FOR_CHILD == 0 => modes,
            modes => modes & !(Mode::NO_WRITE_EXECUTE | Mode::WRITE_EXECUTE_FOR_CHILD),
        }
    }

    /// Whether the bits `mode` are set.
    pub fn mode(&self, mode: u32) -> bool {
        self.modes() & mode == mode
    }

    /// Sets the bits `which` to those of `to`, and leaves the others unchanged.
    pub fn set_modes(&self, which: u32, to: u32) {
        let set = |modes| Some(modes & !which | to);
        _ = self.modes.fetch_update(Relaxed, Relaxed, set);
    }

    /// The scheduling of its last thread.
    pub fn last_scheduling(&self) -> Scheduling {
        *self.last_scheduling.lock()
    }

    /// Sets the scheduling that is reported for it.
    pub fn set_last_scheduling(&self, scheduling: Scheduling) {
        *self.last_scheduling.lock() = scheduling;
    }

    /// The group in which its crossings are counted.
    pub fn counting(&self) -> Arc<Group> {
        self.counting.lock().clone()
    }

    pub(super) fn set_counting(&self, group: Arc<Group>) {
        let old = core::mem::replace(&mut *self.counting.lock(), group);
        drop(old);
    }

    /// Whether its system calls are traced.
    pub fn is_traced(&self) -> bool {
        self.traced.load(Relaxed)
    }

    pub(super) fn set_traced(&self, on: bool) {
        self.traced.store(on, Relaxed);
    }

    /// The kinds of memory that go into its core file (`coredump_filter`).
    pub fn dump_filter(&self) -> u32 {
        self.dump_filter.load(Relaxed)
    }

    /// Sets the kinds of memory that go into its core file.
    pub fn set_dump_filter(&self, kinds: u32) {
        self.dump_filter.store(kinds & coredump::KINDS, Relaxed);
    }

    /// Whether its parent waits until it returns the parent's memory.
    pub fn borrows_memory(&self) -> bool {
        self.borrows_memory.load(Acquire)
    }

    /// Lets the parent that waits for its memory continue.
    pub(super) fn return_memory(&self) {
        if self.borrows_memory.swap(false, AcqRel) {
            self.changed.wake_all();
        }
    }

    /// Releases its count among its user's processes. A pidfd may keep the rest of it indefinitely.
    pub(super) fn uncount(&self) {
        if self.counted.load(Relaxed) {
            self.counted.store(false, Relaxed);
            self.with_credentials(|who| who.user.remove_task());
        }
        self.leave_count();
    }

    /// Releases the count of its first thread: it was waited for, or another thread takes its
    /// place.
    pub(super) fn leave_count(&self) {
        if self.admitted.load(Relaxed) {
            self.admitted.store(false, Relaxed);
            sched::uncount();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process was never entered in the tree.
        self.uncount();
    }
}
