//! A process: threads with one number, one set of signals, one parent.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
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
use super::{clock, coredump, tick};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::poll::WaitSource;
use crate::keyring::Key;
use crate::mm::AddressSpace;
use crate::sync::{Mutex, MutexGuard, Once};
use linux_raw_sys::general::SIGCHLD;

/// So many threads are asked for their usage by each timer that looks.
const FEW: usize = 32;

/// The signal state of a process.
pub struct SharedSignals {
    /// Signals for any of its threads.
    pub pending: Mutex<Pending>,
    actions: Mutex<Arc<Actions>>,
    /// The state of job control stops.
    pub stop: Stop,
    /// Threads that wait for signals outside of handlers (sigtimedwait).
    pub waited: WaitQueue,
    /// The source that its signalfds wait for, once there was one.
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

    /// Notifies signalfds that a signal was sent, or that what they wait for changed.
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

    /// Calls `f` with the actions for signals.
    #[inline(always)]
    pub fn with_actions<T>(&self, f: impl FnOnce(&Actions) -> T) -> T {
        f(&self.actions.lock())
    }

    pub(super) fn set_actions(&self, actions: Arc<Actions>) {
        let old = core::mem::replace(&mut *self.actions.lock(), actions);
        drop(old);
    }
}

/// The program that a process runs.
#[derive(Clone, Default)]
pub struct Image {
    /// Its file.
    pub file: Option<Arc<File>>,
    /// Where its arguments lie in its memory.
    pub arguments: Range<usize>,
    /// Where its environment lies.
    pub environment: Range<usize>,
    /// Where its auxiliary vector lies.
    pub auxiliary: Range<usize>,
    /// The address of its stack's first argument.
    pub stack: usize,
    /// Where its instructions lie: from the first that may be executed to the last that come from
    /// the file.
    pub code: Range<usize>,
    /// From the start of its last segment to the end of the part that comes from the file.
    pub data: Range<usize>,
}

/// Flags that prctl(2) sets of a process, and its children and programs inherit.
pub struct Mode;

impl Mode {
    /// PR_SET_THP_DISABLE.
    pub const NO_HUGE_PAGES: u32 = 1;
    /// PR_SET_MDWE with PR_MDWE_NO_INHERIT.
    pub const WRITE_EXECUTE_FOR_CHILD: u32 = 2;
    /// PR_SET_MDWE.
    pub const NO_WRITE_EXECUTE: u32 = 4;
}

/// How a thread is scheduled.
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
    /// The thread of the parent that made it, or that it was given to.
    pub(super) parent_tid: AtomicI32,
    pub(super) group: AtomicI32,
    pub(super) session: AtomicI32,
    /// Living threads; the first is the leader while it lives.
    pub(super) threads: Mutex<Vec<Arc<Thread>>>,
    /// Threads that have not begun to end (Linux's quick_threads).
    quick_threads: AtomicU32,
    /// Notified when a child changes its state.
    pub child_event: WaitQueue,
    /// Notified when threads end, when the process lets go of its parent's memory, and when signals
    /// to several have reached it.
    pub changed: WaitQueue,
    /// Whether the process runs in its parent's memory, and the parent waits for it (vfork).
    pub(super) borrows_memory: AtomicBool,
    /// Signals to several processes that it is among.
    pub several: Several,
    /// Threads that it traces.
    tracees: Mutex<Vec<Arc<Thread>>>,
    /// Whether there are any.
    traces: AtomicBool,
    /// Its first thread, which ended traced and before others.
    pub(super) ended_leader: Mutex<Option<Arc<Thread>>>,
    /// Watchers of its end.
    ended: Mutex<Option<Arc<WaitSource>>>,
    /// Signals.
    pub signals: SharedSignals,
    /// Resource limits.
    pub limits: Limits,
    /// Interval timers.
    pub timers: Timers,
    /// Its keyring, if it was asked for.
    pub keyring: Mutex<Option<Arc<Key>>>,
    /// The credentials of its first thread, also when that has ended.
    credentials: Mutex<Arc<Credentials>>,
    /// Counted for its user, until it is waited for.
    counted: AtomicBool,
    /// Counted by `sched::admit` in place of its first thread, which has ended.
    admitted: AtomicBool,
    image: Mutex<Image>,
    /// The status that wait(2) reports, with EXITING.
    exit: AtomicU32,
    /// Whether its parent, as that of one that ends, guards its group no more (`job`).
    left_group: AtomicBool,
    zombie: AtomicBool,
    /// Whether the parent was notified that it is a zombie.
    end_notified: AtomicBool,
    /// Whether a wait(2) has taken it.
    reaped: AtomicBool,
    /// The signal that the parent gets at the end; 0 for none.
    pub exit_signal: AtomicU32,
    /// How many programs it has begun.
    exec_id: AtomicU64,
    /// The `exec_id` of its parent when it was made (Linux's parent_exec_id).
    parent_exec_id: u64,
    /// Keeps others from inspecting it while it begins another program.
    pub exec: ExecLock,
    usage: Mutex<[Usage; 2]>,
    /// The usage that timers saw last, and when, in ticks.
    recent_usage: Mutex<(u64, Usage)>,
    /// The bytes that ended threads, and children that were waited for, read and wrote; under the
    /// lock of `usage`.
    transfers: Transfers,
    /// Its times as last reported, and its children's.
    prev_cputime: [PrevCputime; 2],
    started: u64,
    executed: AtomicBool,
    /// Whether a capability let it do something that needed one.
    used_privilege: AtomicBool,
    subreaper: AtomicBool,
    /// Bits of [`Mode`].
    modes: AtomicU32,
    /// How its last thread was scheduled.
    last_scheduling: Mutex<Scheduling>,
    counting: Mutex<Arc<Group>>,
    traced: AtomicBool,
    barriers: AtomicU32,
    /// How likely it is to be killed for lack of memory.
    pub oom_adjust: OomAdjust,
    /// Kinds of memory that go into a core file (coredump_filter).
    dump_filter: AtomicU32,
}

/// Says in `exit` that the process ends.
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
    /// The program that it runs.
    pub image: Image,
    /// Signal for its parent at its end.
    pub exit_signal: u32,
    /// How many programs its parent has begun.
    pub parent_exec_id: u64,
    /// Whether the process runs in its parent's memory.
    pub borrows_memory: bool,
    /// Bits of [`Mode`].
    pub modes: u32,
    /// How likely it is to be killed for lack of memory.
    pub oom_adjust: OomAdjust,
    /// The kinds of memory that go into a core file.
    pub dump_filter: u32,
    /// Where its crossings are counted.
    pub counting: Arc<Group>,
    /// Whether its system calls are traced.
    pub traced: bool,
    /// Barriers that it registered for.
    pub barriers: u32,
}

impl Process {
    /// A process without threads. Inlined, so that it is made where it stays.
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
            image: Mutex::new(parts.image),
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

    /// Whether `thread` is the first of those that live.
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

    /// Whether any thread of it traces another.
    pub(super) fn traces(&self) -> bool {
        self.traces.load(Acquire)
    }

    /// Under the lock of the tracees.
    pub(super) fn set_traces(&self, traces: bool) {
        self.traces.store(traces, Release);
    }

    /// The first living thread for which `wanted` holds.
    pub fn find_thread(&self, wanted: impl Fn(&Thread) -> bool) -> Option<Arc<Thread>> {
        self.threads().iter().find(|thread| wanted(thread)).cloned()
    }

    /// Calls `f` with the identities that its first thread acts as, which count where the whole
    /// process is meant.
    #[inline]
    pub fn with_credentials<T>(&self, f: impl FnOnce(&Credentials) -> T) -> T {
        f(&self.credentials.lock())
    }

    /// The identities that its first thread acts as.
    pub fn credentials(&self) -> Arc<Credentials> {
        self.credentials.lock().clone()
    }

    pub(super) fn set_credentials(&self, credentials: Arc<Credentials>) {
        credentials.user.add_task();
        let old = core::mem::replace(&mut *self.credentials.lock(), credentials);
        old.user.remove_task();
    }

    /// The program that it runs.
    pub fn image(&self) -> Image {
        self.image.lock().clone()
    }

    /// Exec has begun another program.
    pub(super) fn set_image(&self, image: Image) {
        let old = core::mem::replace(&mut *self.image.lock(), image);
        self.executed.store(true, Relaxed);
        self.barriers.store(0, Relaxed);
        drop(old);
    }

    /// The process ends: its program may be written again.
    pub(super) fn leave_program(&self) {
        let file = self.image.lock().file.take();
        drop(file);
    }

    /// Barriers that it registered for (MEMBARRIER_CMD_REGISTER_…, as bits).
    pub fn barriers(&self) -> u32 {
        self.barriers.load(Relaxed)
    }

    /// Registers for a barrier.
    pub fn register_barrier(&self, command: u32) {
        self.barriers.fetch_or(command, Relaxed);
    }

    /// How many programs it has begun.
    pub fn exec_id(&self) -> u64 {
        self.exec_id.load(Relaxed)
    }

    /// How many programs its parent had begun when it was made.
    pub(super) fn parent_exec_id(&self) -> u64 {
        self.parent_exec_id
    }

    /// Notes that the process begins another program: its parent is notified of its end as of any
    /// other's, and for its children it is another parent.
    pub(super) fn change_program(&self) {
        self.exit_signal.store(SIGCHLD, Relaxed);
        self.exec_id.fetch_add(1, Relaxed);
    }

    /// Whether the process began a program since it was forked.
    pub fn has_executed(&self) -> bool {
        self.executed.load(Relaxed)
    }

    /// Whether a capability let the process do something that needed one.
    pub fn used_privilege(&self) -> bool {
        self.used_privilege.load(Relaxed)
    }

    /// A capability lets it do something.
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

    /// The status that wait(2) reports or will, once it is settled.
    pub fn exit_status(&self) -> Option<u32> {
        let exit = self.exit.load(Acquire);
        (exit != 0).then_some(exit & !EXITING)
    }

    /// Whether the process ended and was not waited for yet.
    pub fn is_zombie(&self) -> bool {
        self.zombie.load(Acquire)
    }

    /// The source of its end, and of its threads'.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn ended(&self) -> Result<Arc<WaitSource>> {
        let fresh = WaitSource::new()?;
        Ok(self.ended.lock().get_or_insert(fresh).clone())
    }

    /// Notifies pollers that it, or a thread of it, ended.
    pub(super) fn notify_ended(&self) {
        let ended = self.ended.lock().clone();
        if let Some(ended) = ended {
            ended.notify();
        }
    }

    /// Whether a wait(2) has taken it.
    pub(super) fn is_reaped(&self) -> bool {
        self.reaped.load(Acquire)
    }

    /// Takes it for a wait(2); false if another has.
    pub(super) fn claim_reaping(&self) -> bool {
        !self.reaped.swap(true, AcqRel)
    }

    /// Whether its parent, as that of one that ends, guards its group no more.
    pub(super) fn has_left_group(&self) -> bool {
        self.left_group.load(Relaxed)
    }

    /// Under the lock of the table of processes.
    pub(super) fn set_left_group(&self) {
        self.left_group.store(true, Relaxed);
    }

    pub(super) fn set_zombie(&self) {
        self.zombie.store(true, Release);
    }

    /// Whether its parent was sent the signal of its end, before which wait(2) does not find it.
    pub(super) fn is_end_notified(&self) -> bool {
        self.end_notified.load(Acquire)
    }

    pub(super) fn set_end_notified(&self) {
        self.end_notified.store(true, Release);
    }

    /// Settles the status (as wait(2) reports it) unless it is, and makes all threads end.
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

    /// Forgets the signals in `set` that wait for the process or its threads.
    pub fn discard(&self, set: u64) {
        self.signals.pending.lock().discard(set);
        for thread in self.threads().iter() {
            thread.signals.pending.lock().discard(set);
        }
    }

    /// Adds a thread.
    ///
    /// # Errors
    /// ENOMEM; EINTR: the process is ending.
    pub(super) fn add_thread(&self, thread: Arc<Thread>) -> Result<()> {
        let mut threads = self.threads();
        threads.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if self.is_exiting() {
            return Err(Errno::ERESTARTNOINTR);
        }
        threads.push(thread);
        self.quick_threads.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A thread begins to end with `status`. Whether it was the last to begin that: then the status
    /// is settled.
    pub(super) fn begin_end_of_thread(&self, status: u32) -> bool {
        let last = self.quick_threads.fetch_sub(1, AcqRel) == 1;
        if last {
            self.set_exit_status(status);
        }
        last
    }

    /// Lets go of the thread of a process that never began.
    pub(super) fn drop_first_thread(&self) {
        let gone = core::mem::take(&mut *self.threads());
        drop(gone);
    }

    /// Takes a thread out, which left `space`; true if it was the last.
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
            // Before another can be the last, which tells the tracer.
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

    /// Its usage for timers to look at, of which there may be thousands: where many threads would
    /// have to be asked, what they were asked for another within a tick.
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

    /// Notes that the process leaves memory that had at most `peak` pages.
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

    /// The same where its usage is known.
    pub(super) fn times_of(&self, usage: &Usage) -> Times {
        self.prev_cputime[0].adjust(usage)
    }

    /// Its children's CPU time.
    pub fn children_times(&self) -> Times {
        self.prev_cputime[1].adjust(&self.children_usage())
    }

    /// When it began, in ns of CLOCK_MONOTONIC.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Whether orphans below it become its children.
    pub fn is_subreaper(&self) -> bool {
        self.subreaper.load(Relaxed)
    }

    /// Lets orphans below it become its children, or not.
    pub fn set_subreaper(&self, on: bool) {
        self.subreaper.store(on, Relaxed);
    }

    /// Bits of [`Mode`].
    pub fn modes(&self) -> u32 {
        self.modes.load(Relaxed)
    }

    /// The bits that new memory of it, its child's or its next program's, begins with.
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

    /// Sets the bits `which` to those of `to`, and leaves the others as they are by then.
    pub fn set_modes(&self, which: u32, to: u32) {
        let set = |modes| Some(modes & !which | to);
        _ = self.modes.fetch_update(Relaxed, Relaxed, set);
    }

    /// How its last thread was scheduled.
    pub fn last_scheduling(&self) -> Scheduling {
        *self.last_scheduling.lock()
    }

    /// Sets what is reported of that.
    pub fn set_last_scheduling(&self, scheduling: Scheduling) {
        *self.last_scheduling.lock() = scheduling;
    }

    /// Where its crossings are counted.
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

    /// Whether its parent waits for it to let go of its memory.
    pub fn borrows_memory(&self) -> bool {
        self.borrows_memory.load(Acquire)
    }

    /// Lets the parent that waits for its memory go on.
    pub(super) fn return_memory(&self) {
        if self.borrows_memory.swap(false, AcqRel) {
            self.changed.wake_all();
        }
    }

    /// Gives its place among its user's processes back. A pidfd may keep the rest of it for as long
    /// as it likes.
    pub(super) fn uncount(&self) {
        if self.counted.load(Relaxed) {
            self.counted.store(false, Relaxed);
            self.with_credentials(|who| who.user.remove_task());
        }
        self.leave_count();
    }

    /// Nothing is left of its first thread: it was waited for, or another takes its place.
    pub(super) fn leave_count(&self) {
        if self.admitted.load(Relaxed) {
            self.admitted.store(false, Relaxed);
            sched::uncount();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that was never entered in the tree.
        self.uncount();
    }
}
