//! There is no vDSO: programs get the time by system calls.

use crate::errno::Result;

/// Does nothing.
///
/// # Errors
/// None.
pub fn init(_boot_ticks: u64) -> Result<()> {
    Ok(())
}

/// Does nothing: programs get the time of day by system calls.
pub fn set_realtime_offset(_ns: i64) {}

/// The address to which a signal handler returns: any that is not 0, see `program`.
pub const fn sigreturn(_base: usize) -> usize {
    1
}
