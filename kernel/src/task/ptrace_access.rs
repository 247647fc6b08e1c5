//! Access to another process (ptrace_may_access): the one gate of everything that shows or changes
//! a process's state.

use super::{Process, Thread, current};
use crate::errno::{Errno, Result};
use linux_raw_sys::general::CAP_SYS_PTRACE;

/// The caller's identity that counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The IDs for file access, where a file is opened (PTRACE_MODE_FSCREDS).
    File,
    /// The real IDs, in other system calls (PTRACE_MODE_REALCREDS).
    Real,
}

/// Whether the current thread may inspect `thread` of `process`, or the rest of a process without
/// threads, as ptrace(2) has it. The answer holds as long as [`Process::hold_program`] keeps the
/// program.
///
/// # Errors
/// EPERM.
pub fn check(process: &Process, thread: Option<&Thread>, by: By) -> Result<()> {
    if core::ptr::eq(process, &**current().process()) {
        return Ok(());
    }
    let own = current().credentials();
    // Before the memory: a process that changes its identity hides the memory first.
    let target = thread.map_or_else(|| process.credentials(), |thread| thread.credentials());
    let space = thread.and_then(|thread| thread.space());
    let (user, group, capabilities) = match by {
        By::File => (own.fsuid, own.fsgid, own.effective),
        By::Real => (own.uid, own.gid, own.permitted),
    };
    let same = [target.uid, target.euid, target.suid] == [user; 3]
        && [target.gid, target.egid, target.sgid] == [group; 3];
    let shown = space.is_none_or(|space| space.dumpable() == 1);
    let covers = target.permitted & !capabilities == 0;
    if own.can(CAP_SYS_PTRACE) || same && shown && covers {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Calls `f` with `thread`, if the current thread may inspect it; it begins no other program
/// meanwhile.
///
/// # Errors
/// EPERM, EINTR, and what `f` fails with.
pub fn look<T>(thread: &Thread, by: By, f: impl FnOnce(&Thread) -> Result<T>) -> Result<T> {
    let _held = thread.process().hold_program()?;
    check(thread.process(), Some(thread), by)?;
    f(thread)
}
