//! Branches that are patched at boot.

use core::arch::asm;

/// Whether `KEY` (a [`Key`](crate::arch::branch::Key) as a number) was taken at boot.
#[inline(always)]
pub fn is_taken<const KEY: u32>() -> bool {
    // SAFETY: a `nop`, or the branch to the label by which `branch::take` replaces it; the
    // section's entry is data.
    unsafe {
        asm!(
            "1: nop",
            ".pushsection .branches, \"a\"",
            ".4byte 1b - ., {label} - ., {key}",
            ".popsection",
            key = const KEY,
            label = label { return true },
            options(nomem, nostack, preserves_flags),
        )
    };
    false
}

/// `B` over `distance` bytes (Arm ARM, "B": imm26 counts words).
pub const fn jump_to(distance: isize) -> u32 {
    0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff
}
