//! Threads and processes: who runs, who waits, who is whose child, and what they are told by signals.

extern crate alloc;

pub mod access;
pub mod barrier;
pub mod clock;
mod coredump;
pub mod counting;
pub mod credentials;
pub mod exec;
pub mod exit;
pub mod fault;
mod fork;
pub mod futex;
pub mod image;
mod init;
pub mod itimer;
pub mod job;
pub mod limits;
pub mod listener;
pub mod load;
pub mod oom;
pub mod oom_adjust;
mod per_cpu;
pub mod personality;
pub mod pidfd;
pub mod process;
pub mod ptrace;
pub mod queue;
pub mod real_time;
pub mod reap;
pub mod rseq;
pub mod sched;
pub mod seccomp;
#[cfg(feature = "selftest")]
mod selftests;
mod several;
pub mod signal;
pub mod sleep;
pub mod stack;
pub mod thread;
pub mod tick;
pub mod timer;
pub mod transfers;
pub mod tree;
pub mod usage;
pub mod user;
pub mod uts;
pub mod wait;
pub mod work;

pub use exit::{exit_alone, exit_group};
pub use fork::{CloneRequest, check_namespaces, clone};
#[cfg(feature = "selftest")]
pub use init::{doom, spawn_kernel};
pub use init::{init, start_cpu, start_init};
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
pub fn current() -> &'static Thread {
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

/// Whether the current process has `capability` (CAP_*) in force.
pub fn can(capability: u32) -> bool {
    current().with_credentials(|who| who.can(capability))
}

/// EPERM unless the current process has `capability` (CAP_*) in force.
pub fn require(capability: u32) -> Result<()> {
    if can(capability) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}
