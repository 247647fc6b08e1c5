//! There is no vDSO: programs ask for the time.

use crate::errno::Result;

/// Makes nothing.
///
/// # Errors
/// None.
pub fn init(_boot_ticks: u64) -> Result<()> {
    Ok(())
}

/// The time of day is no program's to read without a call.
pub fn set_realtime_offset(_ns: i64) {}

/// Where a signal handler returns to: a place that is not 0, see `program`.
pub const fn sigreturn(_base: usize) -> usize {
    1
}
