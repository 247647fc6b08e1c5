//! The architecture interface: all architectures provide the same names.

mod above;
#[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
mod absent;
#[cfg(target_os = "none")]
mod boot_stack;
pub mod branch;
pub mod cell;
mod compat_info;
#[cfg(feature = "selftest")]
mod copies;
mod cpus;
mod delivery;
pub mod emulation;
mod interrupted;
#[cfg(target_os = "none")]
mod lang;
pub mod mmio;
#[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
mod numbered_frame;
mod owner;
mod prot;
#[cfg(target_os = "none")]
mod sites;
pub mod spin;
mod syscall;
pub mod task;
#[cfg(target_os = "none")]
pub mod text;
mod ticks;
#[cfg(target_os = "none")]
mod unequal;
#[cfg(target_os = "none")]
pub mod vdso;
#[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
pub mod virt;
pub mod work;

#[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
pub use absent::*;
pub use idreg::StoreBypass;

pub use compat_info::{InfoKind, compat_info, info_kind, native_info};
pub use syscall::{Call, Entry, Handlers, Syscall, SyscallTable};

#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod aarch64;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub use aarch64::*;

#[cfg(all(target_arch = "riscv64", target_os = "none"))]
mod riscv64;
#[cfg(all(target_arch = "riscv64", target_os = "none"))]
pub use riscv64::*;

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(not(target_os = "none"))]
pub use host::*;

/// The program ABI of an instruction set.
pub struct Abi {
    /// Whether programs are 64-bit (ELFCLASS64) or 32-bit.
    pub is_64bit: bool,
    /// `e_machine`.
    pub machine: u16,
    /// Bits of `e_flags`, one of which must be set; 0 for no requirement.
    pub flags: u32,
    /// The end of the addresses of its programs.
    pub end: fn() -> usize,
    /// AT_PLATFORM.
    pub platform: &'static str,
    /// Whether this machine can run such programs.
    pub available: fn() -> bool,
    /// AT_HWCAP and AT_HWCAP2.
    pub hwcap: fn() -> (u64, u64),
    /// Maps the kernel's pages into a new program; returns the address of the vDSO or its
    /// substitute; 0 for none.
    pub map: fn(&crate::mm::AddressSpace) -> crate::errno::Result<usize>,
    /// Creates a program's initial registers, from the address of its first instruction and its
    /// stack pointer.
    pub start: fn(usize, usize) -> Frame,
}

/// The kernel's own tests (`.selftests` in kernel.ld).
#[cfg(feature = "selftest")]
pub fn selftests() -> &'static [crate::selftest::Test] {
    use crate::selftest::Test;
    unsafe extern "C" {
        static __selftests_start: u8;
        static __selftests_end: u8;
    }
    let (start, end) = (&raw const __selftests_start, &raw const __selftests_end);
    let (start, end) = (start.cast::<Test>(), end.cast::<Test>());
    // SAFETY: the linker script places the tests, and nothing else, between the two symbols.
    unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}
