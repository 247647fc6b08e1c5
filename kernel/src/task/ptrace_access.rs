//! Access to another process (ptrace_may_access): every operation that shows or changes a process's
//! state goes through this check.

use super::{Process, Thread, current};
use crate::errno::{Errno, Result};
use linux_raw_sys::general::CAP_SYS_PTRACE;

/// The credentials of the caller that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The IDs for file access, when a file is opened (PTRACE_MODE_FSCREDS).
    File,
    /// The real IDs, in other system calls (PTRACE_MODE_REALCREDS).
    Real,
}

/// Whether the current thread may inspect `thread` of `process`, or the rest of a process without
/// threads, as by ptrace(2). The answer holds as long as [`Process::hold_program`] holds the
/// program.
///
/// # Errors
/// EPERM.
pub fn check(process: &Process, thread: Option<&Thread>, by: By) -> Result<()> {
    if core::ptr::eq(process, &**current().process()) {
        return Ok(());
    }
    let own = current().credentials();
    // Read before the memory: a process that changes its credentials hides the memory first.
    let target = thread.map_or_else(|| process.credentials(), |thread| thread.credentials());
    // A thread that ends gives its memory up before its files.
    let shown =
        thread.is_none_or(|thread| thread.space().is_some_and(|space| space.dumpable() == 1));
    let (user, group, capabilities) = match by {
        By::File => (own.fsuid, own.fsgid, own.effective),
        By::Real => (own.uid, own.gid, own.permitted),
    };
    let same = [target.uid, target.euid, target.suid] == [user; 3]
        && [target.gid, target.egid, target.sgid] == [group; 3];
    let covers = target.permitted & !capabilities == 0;
    if own.can(CAP_SYS_PTRACE) || same && shown && covers {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Calls `f` with `thread`, if the current thread may inspect it; it cannot exec meanwhile.
///
/// # Errors
/// EPERM, EINTR, and the errors of `f`.
pub fn look<T>(thread: &Thread, by: By, f: impl FnOnce(&Thread) -> Result<T>) -> Result<T> {
    let _held = thread.process().hold_program()?;
    check(thread.process(), Some(thread), by)?;
    f(thread)
}
