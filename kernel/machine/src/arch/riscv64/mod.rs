//! RISC-V: the kernel runs in S-mode on firmware that provides the Supervisor Binary Interface
//! (SBI).

pub use super::{cell, mmio};

mod aia;
mod boot;
mod branch;
mod call;
mod entry;
mod external;
mod features;
mod fence;
mod fp;
pub(in crate::arch) mod frame;
mod hwprobe;
mod kernel_map;
mod memory;
mod plic;
mod start;
mod status;
mod syscall;
mod tlb;
mod trap;
mod units;
mod vector;
mod vector_frame;

pub mod cpu;
pub mod irq;
pub mod mmu;
pub mod order;
pub mod power;
pub mod regset;
pub mod signal;
pub mod smp;
pub mod thread;
pub mod time;
pub mod uaccess;

pub use branch::{is_taken, jump_to};
pub use call::ends_in_call;
pub use entry::call_with_full_frame;
pub use features::{features, hwcap, reread_hw_access_flag};
pub use frame::Frame;
/// The system call table of threads whose calls discard vectors: the usual one.
pub fn dropping_table() -> &'static super::SyscallTable {
    &crate::upcall::SYSCALLS
}

pub use crate::arch::task::{adopt, current, current_arc, switch, try_current};
#[cfg(feature = "selftest")]
pub use entry::meet_unseen_stack;
pub use hwprobe::{specific_calls, values_by_key as probes};
pub use regset::leave_debug;
pub use thread::{ThreadState, enter_user};

use linux_raw_sys::prctl::{PR_RISCV_V_GET_CONTROL, PR_RISCV_V_SET_CONTROL};

use crate::arch::branch::Key;
use crate::errno::{Errno, Result};

/// Architecture-specific options of prctl(2).
///
/// # Errors
/// EINVAL (also for unknown options).
pub fn prctl(option: u32, argument: usize) -> Result<usize> {
    match option {
        PR_RISCV_V_SET_CONTROL => vector::set_control(argument),
        PR_RISCV_V_GET_CONTROL => vector::get_control(),
        _ => Err(Errno::EINVAL),
    }
}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The end of the addresses that any mode gives to programs: Sv57's half. The hardware rejects
/// addresses above the half of the active mode, so a check that only excludes the kernel's half
/// compares with this.
pub const USER_END: usize = mmu::Mode::Sv57.half();
/// The end of the addresses that the kernel chooses for mappings unless a program asks for more, as
/// on Linux: Sv48's half.
pub const MAP_WINDOW: usize = mmu::Mode::Sv48.half();
/// Size of a kernel stack in bytes, including the data at its top.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// Numbers of [`lock_holder`](cpu::lock_holder) that name one thread differ only below this.
pub const LOCK_HOLDER_SIZE: usize = 2 * KERNEL_STACK_SIZE;
/// The maximum number of CPUs.
pub const MAX_CPUS: usize = 64;
/// The program ABIs of this architecture.
pub static ABIS: &[super::Abi] = &[super::Abi {
    is_64bit: true,
    machine: 243,
    flags: 0,
    end: user_end,
    platform: "riscv64",
    available: || true,
    hwcap,
    map: super::vdso::map,
    start: |entry, sp| Frame::user(entry, sp, 0),
}];
/// Linux's name of the clock source.
pub const CLOCK_SOURCE: &str = "riscv_clocksource";
/// The machine name in uname.
pub const UTS_MACHINE: &str = "riscv64";
/// The machine name that a 32-bit Linux reports: there are no 32-bit programs.
pub const UTS_MACHINE_32: &str = UTS_MACHINE;

/// The end of the addresses of programs: the half of the active mode.
#[inline(always)]
pub fn user_end() -> usize {
    if is_taken::<{ Key::Sv57 as u32 }>() {
        mmu::Mode::Sv57.half()
    } else if is_taken::<{ Key::Sv48 as u32 }>() {
        mmu::Mode::Sv48.half()
    } else {
        mmu::Mode::Sv39.half()
    }
}

/// The end of the range that Linux's `access_ok` accepts (TASK_SIZE_MAX).
#[inline(always)]
pub fn access_end() -> usize {
    user_end()
}

/// Stops this hart forever.
fn halt() -> ! {
    loop {
        // SAFETY: waiting has no side effects.
        unsafe { core::arch::asm!("wfi", options(nomem, nostack)) };
    }
}
