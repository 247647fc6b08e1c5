//! Register sets of a stopped thread, as in ptrace(2) and core files: only the general registers.

extern crate alloc;

use alloc::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

use super::frame::{Frame, reg};
use super::thread::ThreadState;
use crate::errno::{Errno, Result};

/// NT_PRSTATUS.
const GENERAL: u32 = 1;

/// Whether the set `kind` is read-only: never.
pub fn is_read_only(_compat: bool, _kind: u32) -> bool {
    false
}

/// The other sets of the current thread for a core file: none.
///
/// # Errors
/// None.
pub fn own_others() -> Result<Vec<(u32, Vec<u8>)>> {
    Ok(Vec::new())
}

/// Slot size of a set in bytes.
pub fn slot(_compat: bool, _kind: u32) -> usize {
    8
}

/// The general registers of a frame, in the format of NT_PRSTATUS.
pub fn general(frame: &Frame) -> &[u8] {
    frame.x.as_bytes()
}

/// The floating-point registers of the current thread, in the format of NT_PRFPREG: none.
pub fn own_floating() -> [u8; 8] {
    [0; 8]
}

/// The maximum size in bytes of a set, which has `size` now.
pub fn room(_kind: u32, size: usize) -> usize {
    size
}

/// Returns the set `kind` of a stopped thread.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn get(state: &ThreadState, _compat: bool, kind: u32) -> Result<Vec<u8>> {
    if kind != GENERAL {
        return Err(Errno::EINVAL);
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size_of::<[usize; reg::COUNT]>())
        .map_err(|_| Errno::ENOMEM)?;
    state.with_stopped_frame(|frame| bytes.extend_from_slice(frame.x.as_bytes()));
    Ok(bytes)
}

/// Changes the set `kind` of a stopped thread from byte `from` on; the rest stays unchanged.
///
/// # Errors
/// EINVAL (no such set), ENOMEM.
pub fn set(state: &ThreadState, compat: bool, kind: u32, from: usize, bytes: &[u8]) -> Result<()> {
    let mut whole = get(state, compat, kind)?;
    let changed = whole.iter_mut().skip(from);
    changed.zip(bytes).for_each(|(old, new)| *old = *new);
    let registers = FromBytes::read_from_bytes(&whole).map_err(|_| Errno::EINVAL)?;
    state.with_stopped_frame(|frame| frame.x = registers);
    Ok(())
}

/// Never called: see [`Frame::set_single_step`].
pub fn leave_debug() {}

/// AUDIT_ARCH_AARCH64 (include/uapi/linux/audit.h), whose system call numbers are used here.
pub const AUDIT: u32 = 0xc000_00b7;
/// All of them.
pub const AUDITS: &[u32] = &[AUDIT];
