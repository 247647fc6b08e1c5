//! What the Access flag means here: whether the hardware sets it decides how pages mapped ahead begin.

use crate::arch;

/// Whether pages mapped ahead of an access begin old: only where the hardware will set their Access flag.
#[inline]
pub fn ahead_is_old() -> bool {
    arch::features().hw_access_flag()
}

/// Whether copy on write must set its source's Access flag itself, since the hardware has not.
#[inline]
pub fn copy_touches_source() -> bool {
    !arch::features().hw_access_flag()
}
