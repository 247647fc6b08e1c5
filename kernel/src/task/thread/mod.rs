//! A thread: the unit of scheduling.

extern crate alloc;

mod credentials;
mod io_context;
mod resources;

pub use io_context::IoContext;
pub use resources::Resources;
use resources::address_of;

use crate::task::CpuParts;
use alloc::sync::Arc;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};

use super::count_groups::Mode;
use super::credentials::Credentials;
use super::io_accounting::Transfers;
use super::limits;
use super::process::{Process, Scheduling};
use super::rusage::{PrevCputime, Times, Usage};
use super::sched::{Entity, state};
use super::signal::{Altstack, ThreadSignals};
use super::{futex, ptrace, rseq, sched, seccomp};
use crate::arch::cell::ThreadLocal;
use crate::arch::{ThreadState, cpu, time};
use crate::errno::Result;
use crate::keyring::Key;
use crate::net::scm_rights::Discarded;
use crate::sync::Mutex;
use crate::sync::Once;
use linux_raw_sys::general::{RLIMIT_NOFILE, SCHED_RESET_ON_FORK};

/// Writes seconds and nanoseconds to a program's memory, in the layout of its ABI.
pub type PutTime = fn(usize, [i64; 2]) -> Result<()>;

/// The arguments of an interrupted call that restart_syscall(2) continues.
#[derive(Clone, Copy)]
pub enum Restart {
    /// None: the call ends with EINTR.
    None,
    /// A sleep until a time of a clock, in ticks; where and how to write the remaining time.
    Sleep {
        deadline: u64,
        remaining: usize,
        put_time: PutTime,
    },
    /// A wait of futex(2).
    Futex {
        address: usize,
        value: u32,
        bits: u32,
        shared: bool,
        deadline: u64,
    },
}

/// The part of a thread's state that only the thread itself accesses.
pub struct Own {
    /// How an interrupted call is restarted.
    pub restart: Restart,
    /// The address at which to write 0 and wake a futex when the thread ends; 0 for none.
    pub clear_tid: usize,
}

/// Settings that new threads and children inherit, as bits.
pub mod inherited {
    /// PR_SET_NO_NEW_PRIVS.
    pub const NO_NEW_PRIVILEGES: u8 = 1;
    /// PR_TAGGED_ADDR_ENABLE.
    pub const TAGGED_ADDRESSES: u8 = 2;
    /// Loads do not bypass stores speculatively (PR_SPEC_DISABLE).
    pub const NO_STORE_BYPASS: u8 = 4;
    /// The thread cannot revert that (PR_SPEC_FORCE_DISABLE).
    pub const STORE_BYPASS_LOCKED: u8 = 8;
    /// Exec reverts that (PR_SPEC_DISABLE_NOEXEC).
    pub const STORE_BYPASS_AT_EXEC: u8 = 16;
    /// PR_SET_IO_FLUSHER, which has no effect.
    pub const FLUSHER: u8 = 32;
    /// The shift of the two bits of PR_MCE_KILL, which have no effect, since no memory failure is
    /// ever reported.
    pub const MEMORY_FAILURE_SHIFT: u32 = 6;
}

/// abi.tagged_addr_disabled: no thread can enable [`inherited::TAGGED_ADDRESSES`] any more.
pub static TAGS_DISABLED: AtomicUsize = AtomicUsize::new(0);

/// A thread.
#[repr(C)]
pub struct Thread {
    /// The hardware's part. It is the first field, as the entry paths assume.
    pub arch: ThreadState,
    /// The scheduler's part.
    pub sched: Entity,
    /// Signals of this thread.
    pub signals: ThreadSignals,
    /// The part that only the thread itself accesses.
    pub own: ThreadLocal<Own>,
    /// The area of its restartable sequences.
    pub rseq: rseq::Area,
    /// Its tracer, and the options.
    pub ptrace: ptrace::State,
    /// The filter of its system calls.
    pub seccomp: seccomp::State,
    /// Its keyring, if it was created.
    pub keyring: Mutex<Option<Arc<Key>>>,
    /// Files that it received or sent, and has released.
    pub discarded: Mutex<Discarded>,
    tid: AtomicI32,
    process: Arc<Process>,
    resources: Mutex<Resources>,
    /// Its credentials. Only the thread itself changes them.
    credentials: Mutex<Arc<Credentials>>,
    /// Bits of [`inherited`].
    inherited: AtomicU8,
    /// Whether its last system call that ran out of memory failed for that reason.
    pub(super) starved: AtomicBool,
    /// Whether the thread waits for memory, in a call or not.
    pub(super) starves: AtomicBool,
    /// Whether the thread changed to a user with too many processes already (PF_NPROC_EXCEEDED).
    over_limit: AtomicBool,
    name: Mutex<[u8; 16]>,
    /// Whether the thread must end though its process continues.
    killed: AtomicBool,
    /// Nice value.
    nice: AtomicI32,
    /// SCHED_*, and the priority in the real-time ones.
    policy: [AtomicU32; 2],
    /// Signal for the thread when its parent ends (PR_SET_PDEATHSIG).
    death_signal: AtomicU32,
    /// The timer slack in ns (PR_SET_TIMERSLACK).
    slack: AtomicUsize,
    /// The slack that its creator had.
    default_slack: usize,
    /// See [`personality`](super::personality).
    personality: AtomicU32,
    /// Head of the list of robust futexes; 0 for none.
    robust_list: AtomicUsize,
    /// The owner of the lock that it waits for; changed with its place among the waiters.
    awaited: Mutex<Option<futex::Awaited>>,
    /// Its I/O context, once it has one.
    io: Once<Arc<IoContext>>,
    /// Its CPU time as last reported.
    prev_cputime: PrevCputime,
    /// The status from exit(2), as wait(2) reports it.
    end_status: AtomicU32,
    /// Bytes that it read and wrote.
    pub transfers: Transfers,
    /// Page faults that were resolved.
    faults: AtomicU64,
    /// Whether it is counted by `sched::admit`.
    counted: AtomicBool,
    /// Whether it is counted for its user on its own: the first thread of a process is counted with
    /// the process.
    further: AtomicBool,
}

/// The parts of a new thread.
pub struct Parts<A: FnOnce() -> ThreadState> {
    /// Creates the hardware's part.
    pub arch: A,
    /// Its number.
    pub tid: i32,
    /// The process that it belongs to.
    pub process: Arc<Process>,
    /// The resources that it shares or owns.
    pub resources: Resources,
    /// Its credentials.
    pub credentials: Arc<Credentials>,
    /// Bits of [`inherited`].
    pub inherited: u8,
    /// Signals that it blocks.
    pub blocked: u64,
    /// Its alternate stack for signals.
    pub altstack: Altstack,
    /// Its name.
    pub name: [u8; 16],
    /// CPUs that it may run on.
    pub allowed: u64,
    /// Nice value.
    pub nice: i32,
    /// Whether `sched::admit` counted it.
    pub counted: bool,
    /// The timer slack in ns.
    pub slack: usize,
    /// The value of personality(2).
    pub personality: u32,
    /// The address at which to write 0 and wake a futex when it ends; 0 for none.
    pub clear_tid: usize,
}

/// The timer slack of the first threads, in ns.
pub const FIRST_SLACK: usize = 50_000;

impl Thread {
    /// A thread that does not run yet. Inlined, so that it is built in place.
    #[inline(always)]
    pub fn new(parts: Parts<impl FnOnce() -> ThreadState>) -> Self {
        let mode = Mode::of(&parts.process);
        let space = address_of(&parts.resources.space);
        let further = parts.tid != parts.process.pid();
        Thread {
            arch: (parts.arch)(),
            sched: Entity::new(parts.allowed, parts.nice, space, mode),
            signals: ThreadSignals::new(parts.blocked, parts.altstack),
            own: ThreadLocal::new(Own {
                restart: Restart::None,
                clear_tid: parts.clear_tid,
            }),
            rseq: rseq::Area::default(),
            ptrace: ptrace::State::default(),
            seccomp: seccomp::State::new(),
            keyring: Mutex::new(None),
            discarded: Mutex::default(),
            tid: AtomicI32::new(parts.tid),
            process: parts.process,
            resources: Mutex::new(parts.resources),
            credentials: Mutex::new(parts.credentials),
            inherited: AtomicU8::new(parts.inherited),
            starved: AtomicBool::new(false),
            starves: AtomicBool::new(false),
            over_limit: AtomicBool::new(false),
            name: Mutex::new(parts.name),
            killed: AtomicBool::new(false),
            nice: AtomicI32::new(parts.nice),
            policy: [AtomicU32::new(0), AtomicU32::new(0)],
            death_signal: AtomicU32::new(0),
            slack: AtomicUsize::new(parts.slack),
            default_slack: parts.slack,
            personality: AtomicU32::new(parts.personality),
            robust_list: AtomicUsize::new(0),
            awaited: Mutex::new(None),
            prev_cputime: PrevCputime::new(),
            end_status: AtomicU32::new(0),
            io: Once::new(),
            transfers: Transfers::new(),
            faults: AtomicU64::new(0),
            counted: AtomicBool::new(parts.counted),
            further: AtomicBool::new(further),
        }
    }

    /// The thread's number.
    #[inline]
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed)
    }

    /// An exec by another thread than the first gives it the number of the process, with which it
    /// is counted from now on.
    pub(super) fn take_over(&self, pid: i32) {
        self.tid.store(pid, Relaxed);
        self.uncount();
    }

    /// Releases its count among its user's threads, if it has one of its own.
    pub(super) fn uncount(&self) {
        if self.further.load(Relaxed) {
            self.further.store(false, Relaxed);
            self.with_credentials(|who| who.user.remove_task());
        }
    }

    /// Whether `sched::admit` counted it; the caller takes the count over.
    pub(super) fn hand_count_over(&self) -> bool {
        let counted = self.counted.load(Relaxed);
        self.counted.store(false, Relaxed);
        counted
    }

    /// The process that the thread belongs to.
    #[inline]
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The process's number.
    #[inline]
    pub fn process_id(&self) -> i32 {
        self.process.pid()
    }

    /// The number of the process group.
    pub fn group(&self) -> i32 {
        self.process.group()
    }

    /// The number of the session.
    pub fn session(&self) -> i32 {
        self.process.session()
    }

    /// PR_GET_NO_NEW_PRIVS.
    pub fn has_no_new_privileges(&self) -> bool {
        self.inherited() & inherited::NO_NEW_PRIVILEGES != 0
    }

    /// PR_SET_NO_NEW_PRIVS.
    pub fn set_no_new_privileges(&self) {
        _ = self
            .inherited
            .fetch_or(inherited::NO_NEW_PRIVILEGES, Relaxed);
    }

    /// Bits of [`inherited`].
    pub fn inherited(&self) -> u8 {
        self.inherited.load(Relaxed)
    }

    /// Whether system calls take addresses with a tag in their top byte
    /// (PR_SET_TAGGED_ADDR_CTRL).
    pub fn tags_addresses(&self) -> bool {
        self.inherited() & inherited::TAGGED_ADDRESSES != 0
    }

    /// Sets whether they do.
    pub fn set_tags_addresses(&self, on: bool) {
        if on {
            self.inherited
                .fetch_or(inherited::TAGGED_ADDRESSES, Relaxed);
        } else if self.tags_addresses() {
            self.inherited
                .fetch_and(!inherited::TAGGED_ADDRESSES, Relaxed);
        }
    }

    /// Sets the bits `on` of [`inherited`] and clears `off`.
    pub fn change_inherited(&self, on: u8, off: u8) {
        _ = self.inherited.fetch_and(!off, Relaxed);
        _ = self.inherited.fetch_or(on, Relaxed);
    }

    /// The limit on descriptors.
    #[inline]
    pub fn open_files_limit(&self) -> usize {
        self.process
            .limits
            .soft(RLIMIT_NOFILE)
            .min(limits::INFINITY - 1)
    }

    /// The name that `ps` shows: up to 15 bytes and zeroes.
    pub fn name(&self) -> [u8; 16] {
        *self.name.lock()
    }

    /// The name, unless it is just being set.
    pub fn try_name(&self) -> Option<[u8; 16]> {
        self.name.try_lock().map(|name| *name)
    }

    /// Sets the name from its first 15 bytes.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock() = short_name(name);
    }

    /// Whether the thread must end before its program continues.
    #[inline]
    pub fn must_die(&self) -> bool {
        self.process.is_exiting() || self.killed.load(Relaxed)
    }

    pub(super) fn mark_killed(&self) {
        self.killed.store(true, Relaxed);
    }

    /// Whether something interrupts a sleep of `kind` (a bit of `sched::state`).
    #[inline]
    pub(super) fn is_interrupted(&self, kind: u8) -> bool {
        match kind {
            state::INTERRUPTIBLE => self.signal_due(),
            state::KILLABLE => self.must_die(),
            _ => false,
        }
    }

    /// Ticks of CPU time used until now.
    pub fn cpu_time(&self) -> u64 {
        let since = if self.arch.is_running() {
            cpu::get(self.sched.cpu()).map_or(0, |cpu| cpu.sched().uncharged(time::now_ticks()))
        } else {
            0
        };
        self.sched.runtime() + since
    }

    /// The number of its resolved page faults.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Counts a resolved page fault of this thread, which is the current one.
    #[inline(always)]
    pub fn count_fault(&self) {
        self.faults.store(self.faults() + 1, Relaxed);
    }

    /// Its CPU time until now.
    pub fn times(&self) -> Times {
        self.prev_cputime.adjust(&Usage::of(self))
    }

    /// Nice value, -20 to 19.
    pub fn nice(&self) -> i32 {
        self.nice.load(Relaxed)
    }

    /// Sets the nice value.
    pub fn set_nice(&self, nice: i32) {
        self.nice.store(nice, Relaxed);
        futex::reclassify(self);
    }

    /// The scheduling policy (SCHED_*), and the priority in it.
    pub fn policy(&self) -> (u32, u32) {
        let [policy, priority] = [0, 1].map(|at| self.policy[at].load(Relaxed));
        (policy & !SCHED_RESET_ON_FORK, priority)
    }

    /// All its scheduling attributes.
    pub fn scheduling(&self) -> Scheduling {
        let (policy, priority) = self.policy();
        Scheduling {
            policy: policy | self.reset_on_fork(),
            priority,
            nice: self.nice(),
        }
    }

    /// SCHED_RESET_ON_FORK if children get the ordinary policy, else 0.
    pub fn reset_on_fork(&self) -> u32 {
        self.policy[0].load(Relaxed) & SCHED_RESET_ON_FORK
    }

    /// Sets the scheduling policy, with SCHED_RESET_ON_FORK if children do not inherit it.
    pub fn set_policy(&self, policy: u32, priority: u32) {
        self.policy[0].store(policy, Relaxed);
        self.policy[1].store(priority, Relaxed);
        if priority != 0 || self.timer_slack() == 0 {
            self.set_timer_slack(0);
        }
        futex::reclassify(self);
    }

    /// Signal for the thread when its parent ends; 0 for none.
    pub fn death_signal(&self) -> u32 {
        self.death_signal.load(Relaxed)
    }

    /// The lock that it waits for (PI futexes).
    pub(super) fn awaited(&self) -> Option<futex::Awaited> {
        self.awaited.lock().clone()
    }

    /// Sets the lock that the thread waits for, if any.
    pub(super) fn waits_for(&self, awaited: Option<futex::Awaited>) {
        *self.awaited.lock() = awaited;
    }

    /// Sets the signal that it gets when its parent ends.
    pub fn set_death_signal(&self, number: u32) {
        self.death_signal.store(number, Relaxed);
    }

    /// Its exit status, as wait(2) reports it: that of the process's end, or that from exit(2).
    pub(super) fn end_status(&self) -> u32 {
        let own = self.end_status.load(Relaxed);
        self.process.exit_status().unwrap_or(own)
    }

    pub(super) fn set_end_status(&self, status: u32) {
        self.end_status.store(status, Relaxed);
    }

    /// Head of the list of robust futexes; 0 for none.
    pub fn robust_list(&self) -> usize {
        self.robust_list.load(Relaxed)
    }

    /// Sets the head of the list of robust futexes.
    pub fn set_robust_list(&self, head: usize) {
        self.robust_list.store(head, Relaxed);
    }

    /// personality(2).
    pub fn personality(&self) -> u32 {
        self.personality.load(Relaxed)
    }

    /// Sets the personality.
    pub fn set_personality(&self, value: u32) {
        self.personality.store(value, Relaxed);
    }

    /// The timer slack in ns: how much longer its sleeps may take.
    pub fn timer_slack(&self) -> usize {
        self.slack.load(Relaxed)
    }

    /// The timer slack in ticks.
    pub fn slack_ticks(&self) -> u64 {
        time::ns_to_ticks(self.timer_slack() as u64)
    }

    /// Sets the timer slack in ns; 0 for the initial one. Real-time threads have none.
    pub fn set_timer_slack(&self, ns: usize) {
        let ns = match ns {
            _ if self.policy().1 != 0 => 0,
            0 => self.default_slack,
            ns => ns,
        };
        self.slack.store(ns, Relaxed);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.hand_count_over() {
            sched::uncount();
        }
        self.uncount();
    }
}

/// The first 15 bytes of a name.
pub fn short_name(name: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    let len = name.len().min(15);
    short[..len].copy_from_slice(&name[..len]);
    short
}
