//! Branches settled at boot: a policy's test on a hot path is one instruction, `nop` or `b`, and loads nothing.

use core::arch::asm;
use core::ptr::addr_of;

use crate::mm::kmap;

/// What a branch tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Key {
    /// `hwaf=reread`.
    HwafReread = 1,
}

/// Whether `KEY` (a [`Key`] as a number) was taken at boot.
#[inline(always)]
pub fn is_taken<const KEY: u32>() -> bool {
    // SAFETY: a `nop`, or the branch to `label` that `take` put in its place; the section's entry is data.
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

/// One entry of the section: both places relative to the field that names them.
#[repr(C)]
struct Site {
    at: i32,
    target: i32,
    key: u32,
}

unsafe extern "C" {
    static __branches_start: Site;
    static __branches_end: Site;
}

/// Turns the branches that test `key` into taken ones. Called on the boot CPU alone, before the others start.
pub fn take(key: Key) {
    let (start, end) = (&raw const __branches_start, &raw const __branches_end);
    // SAFETY: the linker script puts the symbols around the section, whose entries `is_taken` lays out as `Site`s.
    let sites = unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) };
    for site in sites.iter().filter(|site| site.key == key as u32) {
        let at = addr_of!(site.at)
            .addr()
            .wrapping_add_signed(site.at as isize);
        let target = addr_of!(site.target)
            .addr()
            .wrapping_add_signed(site.target as isize);
        kmap::patch_code(at, branch(target.wrapping_sub(at) as isize));
    }
}

/// `B` over `distance` bytes (Arm ARM C6.2, "B": imm26 counts words).
const fn branch(distance: isize) -> u32 {
    0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff
}
