//! arm64: a kernel at EL2 where the CPU has VHE and the machine starts there, at EL1 otherwise.
//! EL1's register names are used throughout; at EL2 with E2H set they mean EL2's (Arm ARM D8.2,
//! "Virtualization Host Extensions").

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

/// Uses a stack that this CPU has not seen: there is none here.
#[cfg(feature = "selftest")]
pub fn meet_unseen_stack() {}

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// The first address above those of programs.
pub const USER_END: usize = 1 << 48;
/// Below what mappings lie: all of it.
pub const MAP_WINDOW: usize = USER_END;
/// Bytes of a kernel stack, its top included.
pub const KERNEL_STACK_SIZE: usize = 16 << 10;
/// How many CPUs there can be.
pub const MAX_CPUS: usize = 64;
/// What Linux calls its source of time.
pub const CLOCK_SOURCE: &str = "arch_sys_counter";
/// What uname calls the machine.
pub const UTS_MACHINE: &str = "aarch64";
/// The same as a 32-bit Linux reports it.
pub const UTS_MACHINE_32: &str = "armv8l";
/// Whether the heap of `brk` may be executed where all that can be read may (READ_IMPLIES_EXEC).
pub const HEAP_MAY_EXECUTE: bool = true;

/// Whether a program's addresses have a byte that the CPU passes over.
pub const ADDRESS_TAGS: bool = true;
/// The bits of a personality that no program begins with.
pub const LOST_PERSONALITY: u32 = 0x0040_0000; // READ_IMPLIES_EXEC

/// The first address above those of programs, for what has to know it exactly.
#[inline(always)]
pub const fn user_end() -> usize {
    USER_END
}

/// Where Linux's `access_ok` ends (TASK_SIZE_MAX), which is that of its largest addresses, of 52
/// bits, also where the CPU has fewer.
#[inline(always)]
pub const fn access_end() -> usize {
    1 << 52
}

/// What programs run here.
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
/// Whether tables of system calls hold those of 32-bit programs.
pub const COMPAT_CALLS: bool = true;

/// Those of mmap(2)'s bits of protection that only this architecture has.
#[inline(always)]
pub const fn specific_prot(prot: u32) -> u32 {
    prot & (PROT_BTI | PROT_MTE)
}

/// Whether `prot`, such bits, asks for memory with tags, where there is any.
pub fn wants_tags(prot: u32) -> bool {
    prot & PROT_MTE != 0 && has_tags()
}

/// What `prot`, bits besides those that all architectures have, adds to rights; none if it has a
/// bit that this machine has no use for.
pub fn specific_rights(prot: u32) -> Option<Rights> {
    let tags = if has_tags() { PROT_MTE } else { 0 };
    match prot & !tags {
        0 => Some(Rights::NONE),
        PROT_BTI if has_guarded_pages() => Some(Rights::GUARDED),
        _ => None,
    }
}

/// Whether pages of programs can be guarded.
#[inline(always)]
pub fn has_guarded_pages() -> bool {
    is_taken::<{ Key::GuardedPages as u32 }>()
}

/// Type and bit of the ELF property of a program whose pages are to be guarded
/// (GNU_PROPERTY_AARCH64_FEATURE_1_AND, GNU_PROPERTY_AARCH64_FEATURE_1_BTI).
pub const GUARD_PROPERTY: Option<(u32, u32)> = Some((0xc000_0000, 1));

/// prctl(2) where it concerns the architecture.
///
/// # Errors
/// EINVAL: it has no such option.
pub fn prctl(option: u32, argument: usize) -> Result<usize> {
    match option {
        PR_SVE_SET_VL => sve::set_vl(argument),
        PR_SVE_GET_VL => sve::get_vl(),
        PR_PAC_RESET_KEYS => pauth::reset_keys(argument),
        PR_PAC_GET_ENABLED_KEYS => pauth::enabled_keys(),
        _ => Err(Errno::EINVAL),
    }
}
