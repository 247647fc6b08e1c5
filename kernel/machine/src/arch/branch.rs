//! Branches settled at boot: a policy's test on a hot path is one instruction, which falls through
//! or jumps, and loads nothing.

use core::ptr::addr_of;

use super::{cpus, jump_to};
use crate::mm::vmalloc;

/// What a branch tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(dead_code, reason = "each architecture has some of them")]
pub enum Key {
    /// `hwaf=reread`.
    HwafReread = 1,
    /// `affinity=scan`.
    AffinityScan = 2,
    /// `fence.kernel=preventive`.
    FenceKernelPreventive = 3,
    /// Programs' new entries are fenced for: no Svvptc, or not wanted.
    FenceUserPreventive = 4,
    /// `fence.inject`.
    FenceInject = 5,
    /// All CPUs zero memory by blocks (RISC-V: Zicboz).
    ZeroByBlock = 6,
    /// Tables have four levels (RISC-V).
    Sv48 = 7,
    /// Tables have five levels (RISC-V).
    Sv57 = 8,
}

/// An entry of the section `.branches`: both places relative to the field that names them.
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

/// Makes all branches that test `key` jump. Called on the boot CPU alone, before the others start.
///
/// # Panics
/// If they started already.
pub fn take(key: Key) {
    assert_eq!(cpus::possible(), 1, "another CPU may execute the branches");
    let (start, end) = (&raw const __branches_start, &raw const __branches_end);
    let count = (end as usize - start as usize) / size_of::<Site>();
    // SAFETY: the linker script puts the symbols around the section, whose entries `is_taken` lays
    // out as `Site`s.
    let sites = unsafe { core::slice::from_raw_parts(start, count) };
    for site in sites.iter().filter(|site| site.key == key as u32) {
        let at = addr_of!(site.at)
            .addr()
            .wrapping_add_signed(site.at as isize);
        let target = addr_of!(site.target)
            .addr()
            .wrapping_add_signed(site.target as isize);
        // SAFETY: `is_taken` put a branch's `nop` there, and names where it jumps to; this CPU is
        // here, and there is no other.
        unsafe { vmalloc::patch_code(at, jump_to(target.wrapping_sub(at) as isize)) };
    }
}
