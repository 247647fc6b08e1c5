//! The supervisor's status register (privileged manual, section 12.1.1).

use core::arch::asm;

/// Previous interrupt enable: what interrupts are after `sret`.
pub const SPIE: usize = 1 << 5;
/// Previous mode: `sret` leads to the supervisor.
pub const SPP: usize = 1 << 8;
/// Supervisor access to pages of programs.
pub const SUM: usize = 1 << 18;
/// State of the floating-point registers.
const FS: usize = 3 << FS_SHIFT;
const FS_SHIFT: u32 = 13;
/// State of the vector registers; they stay off.
const VS: usize = 3 << 9;

/// State of the floating-point registers (section 3.1.6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Fp {
    /// An instruction that uses them traps.
    Off = 0,
    /// As the kernel set them.
    Clean = 2,
    /// Changed since.
    Dirty = 3,
}

/// What this hart's floating-point registers are.
#[inline]
pub fn fp() -> Fp {
    let value: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, sstatus", out(reg) value, options(nomem, nostack, preserves_flags)) };
    match (value & FS) >> FS_SHIFT {
        0 => Fp::Off,
        3 => Fp::Dirty,
        _ => Fp::Clean,
    }
}

/// Sets what this hart's floating-point registers are.
#[inline]
pub fn set_fp(state: Fp) {
    // SAFETY: the kernel uses no floating-point register but in `fp`, which sets what it needs.
    unsafe {
        asm!(
            "csrc sstatus, {all}", "csrs sstatus, {new}",
            all = in(reg) FS, new = in(reg) (state as usize) << FS_SHIFT, options(nostack, preserves_flags)
        )
    };
}

/// As the kernel wants it on each hart: programs' memory closed, floating point and vectors off, and `sret` leads to a
/// program with interrupts on.
pub(super) fn init() {
    // SAFETY: nothing of this hart relies on what is switched off.
    unsafe {
        asm!("csrc sstatus, {}", in(reg) SPP | SUM | FS | VS, options(nostack));
        asm!("csrs sstatus, {}", in(reg) SPIE, options(nostack));
    }
}
