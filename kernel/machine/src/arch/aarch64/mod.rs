//! arm64: the kernel runs at EL2 if the CPU has VHE and the machine starts there, otherwise at EL1.
//! EL1 register names are used throughout; at EL2 with E2H set they access the EL2 registers (Arm
//! ARM, "Virtualization Host Extensions").

pub use super::{cell, mmio};

mod boot;
mod branch;
mod call;
mod compat;
mod compat_emulate;
mod compat_regset;
mod compat_signal;
mod cpuinfo;
mod emulate;
mod entry;
mod exception;
mod features;
mod fp;
mod frame;
mod gic;
mod memory;
mod memory_map;
mod mops;
mod pauth;
mod points;
mod psci;
mod records;
mod start;
mod sve;
mod sve_calls;
mod sve_frame;
mod sve_set;
mod syscall;
mod sysreg;
mod tags;
mod tlb;

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
pub mod virt;

pub use crate::arch::task::{adopt, current, current_arc, switch, try_current};
pub use branch::{is_taken, jump_to};
pub use call::ends_in_call;
pub use compat_emulate::EMULATIONS;
pub use entry::call_with_full_frame;
pub use features::{features, hwcap, hwcap_names, reread_hw_access_flag, store_bypass};
pub use frame::{Frame, set_store_bypass};
pub use pauth::set_enabled_keys;
pub use points::leave as leave_debug;
pub use sve::{default_vector_length, set_default_vector_length};
pub use sve_calls::dropping_table;
pub use tags::{
    clear_page_tags, copy_page_tags, has_tags, page_tags, preferred_checks, set_page_tags,
    set_preferred_checks, set_tag_checks, tag_checks, take_tag_fault,
};
pub use thread::{ThreadState, enter_user};

use linux_raw_sys::general::{PROT_BTI, PROT_MTE};
use linux_raw_sys::prctl::{
    PR_PAC_GET_ENABLED_KEYS, PR_PAC_RESET_KEYS, PR_SVE_GET_VL, PR_SVE_SET_VL,
};

use crate::arch::branch::Key;
use crate::errno::{Errno, Result};
use crate::mm::vma::Rights;

/// Uses a stack whose mapping this CPU has not seen: there is no such stack here.
#[cfg(feature = "selftest")]
pub fn meet_unseen_stack() {}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The end of the addresses of programs.
pub const USER_END: usize = 1 << 48;
/// The end of the addresses that the kernel chooses for mappings: all of them.
pub const MAP_WINDOW: usize = USER_END;
/// Size of a kernel stack in bytes, including the data at its top.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// Numbers of [`lock_holder`](cpu::lock_holder) that name one thread differ only below this.
pub const LOCK_HOLDER_SIZE: usize = 2 * KERNEL_STACK_SIZE;
/// The maximum number of CPUs.
pub const MAX_CPUS: usize = 64;
/// Linux's name of the clock source.
pub const CLOCK_SOURCE: &str = "arch_sys_counter";
/// The machine name in uname.
pub const UTS_MACHINE: &str = "aarch64";
/// The machine name that a 32-bit Linux reports.
pub const UTS_MACHINE_32: &str = "armv8l";
/// Whether READ_IMPLIES_EXEC makes the heap of `brk` executable.
pub const HEAP_MAY_EXECUTE: bool = true;
/// Whether there is a system call renameat(2) beside renameat2(2) (`__ARCH_WANT_RENAMEAT`).
pub const HAS_RENAMEAT: bool = true;

/// Whether the CPU ignores the top byte of a program's addresses.
pub const ADDRESS_TAGS: bool = true;
/// The personality bits that no program starts with.
pub const LOST_PERSONALITY: u32 = 0x0040_0000; // READ_IMPLIES_EXEC

/// The exact end of the addresses of programs.
#[inline(always)]
pub const fn user_end() -> usize {
    USER_END
}

/// The end of the range that Linux's `access_ok` accepts (TASK_SIZE_MAX): that of 52-bit addresses,
/// even if the CPU has fewer.
#[inline(always)]
pub const fn access_end() -> usize {
    1 << 52
}

/// The program ABIs of this architecture.
pub static ABIS: &[super::Abi] = &[
    super::Abi {
        is_64bit: true,
        machine: 183,
        flags: 0,
        end: user_end,
        platform: "aarch64",
        available: || true,
        hwcap,
        map: super::vdso::map,
        start: |entry, sp| Frame::user(entry, sp, 0),
    },
    compat::ABI,
];

pub use compat::calls as specific_calls;
/// Whether the tables of system calls include those of 32-bit programs.
pub const COMPAT_CALLS: bool = true;

/// The bits of mmap(2)'s protection that are specific to this architecture.
#[inline(always)]
pub const fn specific_prot(prot: u32) -> u32 {
    prot & (PROT_BTI | PROT_MTE)
}

/// Whether the specific bits `prot` request tagged memory, and it is supported.
pub fn wants_tags(prot: u32) -> bool {
    prot & PROT_MTE != 0 && has_tags()
}

/// The rights for the bits `prot` that are not common to all architectures; none if this machine
/// does not support one of them.
pub fn specific_rights(prot: u32) -> Option<Rights> {
    let tags = if has_tags() { PROT_MTE } else { 0 };
    match prot & !tags {
        0 => Some(Rights::empty()),
        PROT_BTI if has_guarded_pages() => Some(Rights::GUARDED),
        _ => None,
    }
}

/// Whether guarded pages are supported (BTI).
#[inline(always)]
pub fn has_guarded_pages() -> bool {
    is_taken::<{ Key::GuardedPages as u32 }>()
}

/// Type and bit of the ELF property of a program whose pages shall be guarded
/// (GNU_PROPERTY_AARCH64_FEATURE_1_AND, GNU_PROPERTY_AARCH64_FEATURE_1_BTI).
pub const GUARD_PROPERTY: Option<(u32, u32)> = Some((0xc000_0000, 1));

/// Architecture-specific options of prctl(2).
///
/// # Errors
/// EINVAL (also for unknown options).
pub fn prctl(option: u32, argument: usize) -> Result<usize> {
    match option {
        PR_SVE_SET_VL => sve::set_vl(argument),
        PR_SVE_GET_VL => sve::get_vl(),
        PR_PAC_RESET_KEYS => pauth::reset_keys(argument),
        PR_PAC_GET_ENABLED_KEYS => pauth::enabled_keys(),
        _ => Err(Errno::EINVAL),
    }
}
