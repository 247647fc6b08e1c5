//! The locations of static branches, and their patching.

use core::ptr::addr_of;

use super::branch::Key;
use super::{cpus, jump_to};
use crate::mm::vmalloc;

/// An entry of the section `.branches`: both addresses are relative to their own field.
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

/// Makes all branches that test `key` jump. Called only on the boot CPU, while the others wait.
///
/// # Panics
/// If the other CPUs already run.
pub(crate) fn take(key: Key) {
    assert!(
        !cpus::are_released(),
        "another CPU may execute the branches"
    );
    let (start, end) = (&raw const __branches_start, &raw const __branches_end);
    let count = (end as usize - start as usize) / size_of::<Site>();
    // SAFETY: the linker script defines the symbols around the section, whose entries `is_taken`
    // writes in the layout of `Site`.
    let sites = unsafe { core::slice::from_raw_parts(start, count) };
    for site in sites.iter().filter(|site| site.key == key as u32) {
        let at = addr_of!(site.at)
            .addr()
            .wrapping_add_signed(site.at as isize);
        let target = addr_of!(site.target)
            .addr()
            .wrapping_add_signed(site.target as isize);
        // SAFETY: `is_taken` placed a branch's `nop` there, and specifies its target; this CPU is
        // here, and the others wait.
        unsafe { vmalloc::patch_code(at, jump_to(target.wrapping_sub(at) as isize)) };
    }
}
