//! A machine inside a program of the host, for tests, Miri and fuzzers: one CPU, memory that the
//! host lends, threads of the host of which one runs at a time, and time that goes on by itself
//! only as far as somebody waits for it. It is the smallest architecture.

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

/// prctl(2) where it concerns the architecture.
///
/// # Errors
/// EINVAL: it has no such option.
pub fn prctl(_option: u32, _argument: usize) -> Result<usize> {
    Err(Errno::EINVAL)
}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The first address that programs cannot have.
pub const USER_END: usize = 1 << 47;
/// Below what mappings lie unless a program asks for more.
pub const MAP_WINDOW: usize = USER_END;
/// Bytes of a kernel stack, as the kernel counts them: threads run on the host's.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// How many CPUs there can be.
pub const MAX_CPUS: usize = 64;
/// `e_machine` of programs: none of the ELF specification's.
pub const ELF_MACHINE: u16 = 0x5354;
/// What programs run here.
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
/// What Linux calls its source of time.
pub const CLOCK_SOURCE: &str = "host";
/// What uname calls the machine.
pub const UTS_MACHINE: &str = "host";
/// The same as a 32-bit Linux reports it: there are no 32-bit programs.
pub const UTS_MACHINE_32: &str = UTS_MACHINE;

/// The first address above those of programs.
pub const fn user_end() -> usize {
    USER_END
}

/// Where Linux's `access_ok` ends (TASK_SIZE_MAX).
pub const fn access_end() -> usize {
    USER_END
}

/// What the entry path calls for a thread whose calls drop vectors: there is none.
pub fn dropping_table() -> &'static SyscallTable {
    crate::upcall::syscalls()
}

/// Calls that only this architecture has.
pub const fn specific_calls() -> [(usize, Syscall, Entry); 0] {
    []
}

/// Whether the hardware sets the Accessed bit, asked anew.
pub fn reread_hw_access_flag() -> bool {
    false
}

/// The branches that jump; nothing here sets the Accessed bit.
static TAKEN: AtomicU32 = AtomicU32::new(1 << Key::SoftwareAccessFlag as u32);

/// Whether `KEY` (a [`Key`] as a number) was taken at boot.
pub fn is_taken<const KEY: u32>() -> bool {
    TAKEN.load(Relaxed) & 1 << KEY != 0
}

/// Makes all branches that test `key` jump.
pub(crate) fn take(key: Key) {
    TAKEN.fetch_or(1 << key as u32, Relaxed);
}

/// An entry in a table of system calls for a handler that needs the thread's whole
/// [`Frame`]: every call has stored it.
#[macro_export]
macro_rules! full_frame_stub {
    ($handler:path) => {
        $crate::arch::Entry::new($handler)
    };
}
