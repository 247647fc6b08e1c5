//! A machine inside a host process, for tests, Miri and fuzzers: one CPU, memory allocated from the
//! host, host threads of which one runs at a time, and time that advances only when it is read or
//! waited for. It is the smallest architecture.

pub use super::cell;

mod baton;
mod memory;

pub mod boot;
pub mod cpu;
pub mod frame;
pub mod irq;
pub mod mmu;
pub mod order;
pub mod power;
pub mod program;
pub mod regset;
pub mod signal;
pub mod smp;
pub mod text;
pub mod thread;
pub mod time;
pub mod uaccess;
pub mod vdso;

pub use crate::arch::task::{adopt, current, current_arc, switch, try_current};
pub use frame::Frame;
pub use regset::leave_debug;
pub use thread::{ThreadState, enter_user};

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::arch::branch::Key;
use crate::arch::{Entry, Syscall, SyscallTable};
use crate::errno::{Errno, Result};

/// Architecture-specific options of prctl(2).
///
/// # Errors
/// EINVAL for all of them.
pub fn prctl(_option: u32, _argument: usize) -> Result<usize> {
    Err(Errno::EINVAL)
}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The end of the addresses of programs.
pub const USER_END: usize = 1 << 47;
/// The end of the addresses that the kernel chooses for mappings unless a program asks for more.
pub const MAP_WINDOW: usize = USER_END;
/// Size of a kernel stack in bytes, for accounting: threads run on the host's stacks.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// Numbers of [`lock_holder`](cpu::lock_holder) that name one thread differ only below this.
pub const LOCK_HOLDER_SIZE: usize = align_of::<ThreadState>();
/// The maximum number of CPUs.
pub const MAX_CPUS: usize = 64;
/// `e_machine` of programs: not assigned in the ELF specification.
pub const ELF_MACHINE: u16 = 0x5354;
/// The program ABIs of this architecture.
pub static ABIS: &[super::Abi] = &[super::Abi {
    is_64bit: true,
    machine: ELF_MACHINE,
    flags: 0,
    end: user_end,
    platform: "host",
    available: || true,
    hwcap: || (0, 0),
    map: |_| Ok(0),
    start: |entry, sp| Frame::user(entry, sp, 0),
}];
/// The name of the clock source.
pub const CLOCK_SOURCE: &str = "host";
/// The machine name in uname.
pub const UTS_MACHINE: &str = "host";
/// The machine name that a 32-bit Linux would report: there are no 32-bit programs.
pub const UTS_MACHINE_32: &str = UTS_MACHINE;

/// The end of the addresses of programs.
pub const fn user_end() -> usize {
    USER_END
}

/// The end of the range that Linux's `access_ok` accepts (TASK_SIZE_MAX).
pub const fn access_end() -> usize {
    USER_END
}

/// The system call table of threads whose calls discard vectors: the usual one.
pub fn dropping_table() -> &'static SyscallTable {
    crate::upcall::syscalls()
}

/// The system calls that are specific to this architecture: none.
pub const fn specific_calls() -> [(usize, Syscall, Entry); 0] {
    []
}

/// Whether the hardware sets the Accessed bit.
pub fn reread_hw_access_flag() -> bool {
    false
}

/// The keys of the branches that jump; nothing here sets the Accessed bit.
static TAKEN: AtomicU32 = AtomicU32::new(1 << Key::SoftwareAccessFlag as u32);

/// Whether `KEY` (a [`Key`] as a number) was taken at boot.
pub fn is_taken<const KEY: u32>() -> bool {
    TAKEN.load(Relaxed) & 1 << KEY != 0
}

/// Makes all branches that test `key` jump.
pub(crate) fn take(key: Key) {
    TAKEN.fetch_or(1 << key as u32, Relaxed);
}

/// An entry in a table of system calls for a handler that needs the thread's whole [`Frame`], which
/// every call stores anyway.
#[macro_export]
macro_rules! full_frame_stub {
    ($handler:path) => {
        $crate::arch::Entry::new($handler)
    };
}
