//! Threads and processes: scheduling, waiting, parents and children, and signals.

extern crate alloc;

pub mod acct;
mod asleep;
pub mod clock;
pub mod core_name;
pub mod coredump;
pub mod count_groups;
pub mod cpu_times;
pub mod credentials;
pub mod droppable;
pub mod elf;
mod elf_property;
pub mod exec;
pub mod exit;
pub mod fault;
pub mod file_capabilities;
pub mod filter_program;
mod fork;
pub mod futex;
pub mod hung_task;
mod init;
pub mod initial_stack;
pub mod io_accounting;
pub mod itimer;
pub mod job;
pub mod limits;
pub mod loadavg;
pub mod membarrier;
pub mod memory_wait;
pub mod ntp;
pub mod oom;
pub mod oom_adjust;
mod oom_reaper;
mod per_cpu;
pub mod personality;
pub mod pid_table;
pub mod pidfd;
pub mod process;
pub mod ptrace;
pub mod ptrace_access;
pub mod queue;
pub mod real_time;
pub mod rseq;
pub mod rusage;
pub mod sched;
mod sched_entity;
pub mod seccomp;
pub mod seccomp_notify;
#[cfg(feature = "selftest")]
pub(crate) mod selftests;
pub mod signal;
mod signal_groups;
pub mod sleep_mutex;
pub mod sleep_rwlock;
pub mod speculation;
pub mod thread;
pub mod tick;
pub mod timer;
pub mod user;
pub mod uts;
pub mod wait_child;
pub mod wait_queue;
pub mod watchdog;
pub mod work;
pub mod work_queue;

pub use asleep::Sleep;
pub use exit::{exit_alone, exit_group};
pub use fork::{CloneRequest, check_namespaces, clone};
#[cfg(feature = "selftest")]
pub use init::spawn_and_wait_for_panic;
pub use init::{init, spawn_kernel, start_cpu, start_init};
pub use per_cpu::{CpuParts, PerCpu};
pub use process::Process;
pub use thread::Thread;
pub use work::exit_work;

use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;

/// The thread that runs here.
///
/// # Panics
/// Before the first thread.
#[inline(always)]
pub fn current() -> arch::task::Current<Thread> {
    arch::current()
}

/// Calls `f` with the address space of the current thread.
///
/// # Panics
/// If the current thread is the kernel's own.
#[inline]
pub fn with_space<T>(f: impl FnOnce(&AddressSpace) -> T) -> T {
    f(&current().space().expect("a thread with a program"))
}

/// The soft limit `kind` (RLIMIT_*) of the current process.
pub fn rlimit(kind: u32) -> usize {
    current().process().limits.soft(kind)
}

/// Whether the current process has `capability` (CAP_*) in its effective set.
pub fn can(capability: u32) -> bool {
    current().with_credentials(|who| who.can(capability))
}

/// EPERM unless the current process has `capability` (CAP_*) in its effective set.
pub fn require(capability: u32) -> Result<()> {
    if can(capability) {
        current().process().use_privilege();
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}
