//! The border between the kernel and its hardware: the architectures offer the same names.

pub mod branch;
pub mod cell;
pub mod mmio;
pub mod text;
pub mod vdso;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

/// What runs virtual machines.
pub struct Hypervisor {
    /// Whether this machine's CPUs can, once they are up.
    pub available: fn() -> bool,
    /// Opens `/dev/kvm`.
    pub open: fn() -> crate::errno::Result<alloc::sync::Arc<dyn crate::fs::file::FileOps>>,
}

/// The kernel's own tests (`.selftests` in kernel.ld).
#[cfg(feature = "selftest")]
pub fn selftests() -> &'static [crate::selftest::Test] {
    use crate::selftest::Test;
    unsafe extern "C" {
        static __selftests_start: Test;
        static __selftests_end: Test;
    }
    let (start, end) = (&raw const __selftests_start, &raw const __selftests_end);
    // SAFETY: the linker script puts the tests, and nothing else, between the two symbols.
    unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}
