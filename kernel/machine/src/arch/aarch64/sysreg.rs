//! Access to system registers by name.

/// Reads a system register.
macro_rules! read {
    ($register:literal) => {{
        let value: usize;
        // SAFETY: reading a register does not change memory.
        #[allow(unused_unsafe)]
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack, preserves_flags))
        };
        value
    }};
}

/// Writes a system register. The caller's `unsafe` block must justify it.
macro_rules! write {
    ($register:literal, $value:expr) => {
        core::arch::asm!(concat!("msr ", $register, ", {}"), in(reg) $value, options(nostack, preserves_flags))
    };
}

pub(super) use {read, write};

/// Makes writes to system registers visible to the following instructions (Arm ARM,
/// "Synchronization requirements for AArch64 System registers").
#[inline(always)]
pub(super) fn isb() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}

/// Whether the kernel runs at EL2.
pub(super) fn at_el2() -> bool {
    read!("CurrentEL") >> 2 & 3 == 2
}
