//! Speculation controls of a thread (PR_SET_SPECULATION_CTRL): arm64 has one for speculative store
//! bypass only (Linux's `ssbd_prctl_set`, Documentation/userspace-api/spec_ctrl.rst).

use linux_raw_sys::prctl::*;

use super::thread::inherited::{NO_STORE_BYPASS, STORE_BYPASS_AT_EXEC, STORE_BYPASS_LOCKED};
use super::{Thread, current};
use crate::arch::{self, Frame, StoreBypass};
use crate::errno::{Errno, Result};

/// PR_SPEC_DISABLE_NOEXEC
const DISABLE_NOEXEC: u32 = 16;

/// PR_GET_SPECULATION_CTRL of a thread.
///
/// # Errors
/// EINVAL: the architecture has no control at all. ENODEV: it has none for `which`.
pub fn control(thread: &Thread, which: usize) -> Result<u32> {
    let bits = thread.inherited();
    Ok(match switch(which)? {
        StoreBypass::Unaffected => PR_SPEC_NOT_AFFECTED,
        StoreBypass::Vulnerable => PR_SPEC_ENABLE,
        _ if bits & STORE_BYPASS_LOCKED != 0 => PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE,
        _ if bits & STORE_BYPASS_AT_EXEC != 0 => PR_SPEC_PRCTL | DISABLE_NOEXEC,
        _ if bits & NO_STORE_BYPASS != 0 => PR_SPEC_PRCTL | PR_SPEC_DISABLE,
        StoreBypass::Mitigated => PR_SPEC_PRCTL | PR_SPEC_ENABLE,
    })
}

/// PR_SET_SPECULATION_CTRL of the current thread.
///
/// # Errors
/// As [`control`]; EPERM: it was disabled for good. ERANGE: `to` is no such setting.
pub fn set_control(which: usize, to: usize) -> Result<()> {
    switch(which)?;
    let thread = current();
    let locked = thread.inherited() & STORE_BYPASS_LOCKED != 0;
    let (on, off) = match u32::try_from(to).map_err(|_| Errno::ERANGE)? {
        PR_SPEC_ENABLE | DISABLE_NOEXEC if locked => return Err(Errno::EPERM),
        PR_SPEC_ENABLE => (0, NO_STORE_BYPASS | STORE_BYPASS_AT_EXEC),
        PR_SPEC_DISABLE => (NO_STORE_BYPASS, STORE_BYPASS_AT_EXEC),
        PR_SPEC_FORCE_DISABLE => (NO_STORE_BYPASS | STORE_BYPASS_LOCKED, STORE_BYPASS_AT_EXEC),
        DISABLE_NOEXEC => (NO_STORE_BYPASS | STORE_BYPASS_AT_EXEC, 0),
        _ => return Err(Errno::ERANGE),
    };
    thread.change_inherited(on, off);
    thread.arch.with_frame(|frame| apply(&thread, frame));
    Ok(())
}

/// Reverts settings that last until exec, and sets up the first registers of the new program.
pub fn exec(first: &mut Frame) {
    let thread = current();
    if thread.inherited() & STORE_BYPASS_AT_EXEC != 0 {
        thread.change_inherited(0, NO_STORE_BYPASS | STORE_BYPASS_AT_EXEC);
    }
    apply(&thread, first);
}

fn apply(thread: &Thread, frame: &mut Frame) {
    arch::set_store_bypass(frame, thread.inherited() & NO_STORE_BYPASS == 0);
}

/// The machine's control `which`.
fn switch(which: usize) -> Result<StoreBypass> {
    let store_bypass = arch::store_bypass().ok_or(Errno::EINVAL)?;
    if which == PR_SPEC_STORE_BYPASS as usize {
        Ok(store_bypass)
    } else {
        Err(Errno::ENODEV)
    }
}

/// The value in `/proc/PID/status` about indirect branches, for which no architecture has a
/// control.
pub fn indirect_branches() -> &'static str {
    match arch::store_bypass() {
        Some(_) => "unknown",
        None => "unsupported",
    }
}

/// The value in `/proc/PID/status` about a thread's speculative store bypass.
pub fn store_bypass(thread: &Thread) -> &'static str {
    const LOCKED: u32 = PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE;
    const DISABLED: u32 = PR_SPEC_PRCTL | PR_SPEC_DISABLE;
    const ENABLED: u32 = PR_SPEC_PRCTL | PR_SPEC_ENABLE;
    match control(thread, PR_SPEC_STORE_BYPASS as usize) {
        Err(_) => "unknown",
        Ok(PR_SPEC_NOT_AFFECTED) => "not vulnerable",
        Ok(LOCKED) => "thread force mitigated",
        Ok(DISABLED) => "thread mitigated",
        Ok(ENABLED) => "thread vulnerable",
        // This is Linux's word also for a setting that lasts until exec.
        Ok(_) => "vulnerable",
    }
}
