//! Access flag policy: whether the hardware sets the flag decides whether pages mapped ahead begin
//! old, and whether copy on write sets the flag of its source. `hwaf=cached` uses the value common
//! to all CPUs, `reread` reads the CPU's register each time.

use crate::arch::branch::{self, Key};
use crate::{arch, params};

/// Reads the policy from the command line.
pub(super) fn init() {
    if params::choice("hwaf", &[("cached", false), ("reread", true)]) {
        branch::take(Key::HwafReread);
    }
}

/// Whether the hardware sets the Access flag.
#[inline(always)]
fn by_hardware() -> bool {
    if arch::is_taken::<{ Key::HwafReread as u32 }>() {
        return arch::reread_hw_access_flag();
    }
    !arch::is_taken::<{ Key::SoftwareAccessFlag as u32 }>()
}

/// Whether pages mapped ahead of an access begin old: only where the hardware sets the Access flag.
#[inline(always)]
pub fn ahead_is_old() -> bool {
    by_hardware()
}

/// Whether copy on write must set the Access flag of its source, because the hardware has not.
#[inline(always)]
pub fn copy_touches_source() -> bool {
    !by_hardware()
}
