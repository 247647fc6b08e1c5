//! What the Access flag means here: whether the hardware sets it decides how pages mapped ahead
//! begin, and whether copy on write sets its source's. `hwaf=cached` answers from what all CPUs
//! have, `reread` from the CPU's register each time.

use crate::arch::branch::{self, Key};
use crate::{arch, params};

/// Settles the policy.
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

/// Whether pages mapped ahead of an access begin old: only where the hardware will set their Access
/// flag.
#[inline(always)]
pub fn ahead_is_old() -> bool {
    by_hardware()
}

/// Whether copy on write must set its source's Access flag, since the hardware has not.
#[inline(always)]
pub fn copy_touches_source() -> bool {
    !by_hardware()
}
