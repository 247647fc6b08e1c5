//! Messages as interrupts: what a device writes to an ITS.

use super::super::uapi::Msi;
use super::super::vm::Machine;
use crate::errno::{Errno, Result};

/// Gives a message to the ITS that it is addressed to. Returns whether an interrupt came of it.
///
/// # Errors
/// ENODEV (there is no ITS).
pub fn signal_msi(_machine: &Machine, _message: &Msi) -> Result<usize> {
    Err(Errno::ENODEV)
}
