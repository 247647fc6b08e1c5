//! RISC-V: a kernel in S-mode below firmware that offers the supervisor binary interface.

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
/// What the entry path calls for a thread whose calls drop vectors: there is none.
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

/// prctl(2) where it concerns the architecture.
///
/// # Errors
/// EINVAL: it has no such option.
pub fn prctl(option: u32, argument: usize) -> Result<usize> {
    match option {
        PR_RISCV_V_SET_CONTROL => vector::set_control(argument),
        PR_RISCV_V_GET_CONTROL => vector::get_control(),
        _ => Err(Errno::EINVAL),
    }
}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The first address that no mode gives programs: Sv57's half. The hardware refuses those above the
/// half of the mode that is on, so a check that only excludes the kernel's half compares with this.
pub const USER_END: usize = mmu::Mode::Sv57.half();
/// Below what mappings lie unless a program asks for more, as on Linux: Sv48's half.
pub const MAP_WINDOW: usize = mmu::Mode::Sv48.half();
/// Bytes of a kernel stack, its top included.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// How many CPUs there can be.
pub const MAX_CPUS: usize = 64;
/// What programs run here.
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
/// What Linux calls its source of time.
pub const CLOCK_SOURCE: &str = "riscv_clocksource";
/// What uname calls the machine.
pub const UTS_MACHINE: &str = "riscv64";
/// The same as a 32-bit Linux reports it: there are no 32-bit programs.
pub const UTS_MACHINE_32: &str = UTS_MACHINE;

/// The first address above those of programs: the half of the mode that is on.
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

/// Where Linux's `access_ok` ends (TASK_SIZE_MAX).
#[inline(always)]
pub fn access_end() -> usize {
    user_end()
}

/// Stops this hart for ever.
fn halt() -> ! {
    loop {
        // SAFETY: waits.
        unsafe { core::arch::asm!("wfi", options(nomem, nostack)) };
    }
}
