//! Branches that are patched at boot.

use core::arch::asm;

/// Whether `KEY` (a [`Key`](crate::arch::branch::Key) as a number) was taken at boot.
#[inline(always)]
pub fn is_taken<const KEY: u32>() -> bool {
    // SAFETY: a `nop`, or the jump to the label by which `branch::take` replaces it; the section's
    // entry is data. It is four bytes long, and aligned so that it lies in one page.
    unsafe {
        asm!(
            ".option push",
            ".option norvc",
            ".balign 4",
            "1: nop",
            ".option pop",
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

/// `JAL x0` over `distance` bytes (unprivileged manual, "Unconditional Jumps": the J-type
/// immediate).
pub const fn jump_to(distance: isize) -> u32 {
    let bits = distance as u32;
    0x6f | (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3ff) << 21
        | (bits >> 11 & 1) << 20
        | (bits >> 12 & 0xff) << 12
}
