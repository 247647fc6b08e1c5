//! The locks between exec in a process and other threads that trace or inspect it.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::errno::{Errno, Result};
use crate::task::Process;

/// The two locks. Threads wait for them on the process's `changed`.
pub struct ExecLock {
    /// Linux's cred_guard_mutex.
    guarded: AtomicBool,
    /// Linux's exec_update_lock: the number of `READER`s, and `UPDATING` if a thread updates or
    /// waits to.
    update: AtomicUsize,
}

const UPDATING: usize = 1;
const READER: usize = 2;

impl ExecLock {
    /// Free locks.
    pub fn new() -> Self {
        ExecLock {
            guarded: AtomicBool::new(false),
            update: AtomicUsize::new(0),
        }
    }
}

/// While this lives, no other thread starts to trace the process, or decides its program's
/// credentials.
pub struct CredentialsGuard<'a>(&'a Process);

/// While this lives, memory and credentials of the process belong together.
pub struct ProgramHold<'a>(&'a Process);

/// While this lives, no other thread inspects the process, whose memory and credentials change.
pub struct ProgramUpdate<'a>(&'a Process);

impl Process {
    /// Prevents others from tracing the process, or deciding the credentials of its program.
    ///
    /// # Errors
    /// ERESTARTNOINTR: a signal arrived.
    pub fn guard_credentials(&self) -> Result<CredentialsGuard<'_>> {
        let take = || !self.exec.guarded.swap(true, Acquire);
        self.changed
            .wait_interruptible(take, None)
            .map_err(|_| Errno::ERESTARTNOINTR)?;
        Ok(CredentialsGuard(self))
    }

    /// Prevents the process from replacing its program while the current process inspects its
    /// credentials and its memory.
    ///
    /// # Errors
    /// EINTR: the current process is killed.
    pub fn hold_program(&self) -> Result<ProgramHold<'_>> {
        let enter = |held: usize| (held & UPDATING == 0).then_some(held + READER);
        self.changed
            .wait_killable(|| {
                self.exec
                    .update
                    .fetch_update(Acquire, Relaxed, enter)
                    .is_ok()
            })
            .map_err(|_| Errno::EINTR)?;
        Ok(ProgramHold(self))
    }

    /// Prevents others from inspecting the process while exec changes memory and credentials. Only
    /// for its last thread.
    ///
    /// # Errors
    /// EINTR: the process is killed.
    pub(super) fn update_program(&self) -> Result<ProgramUpdate<'_>> {
        self.exec.update.fetch_or(UPDATING, Acquire);
        let update = ProgramUpdate(self);
        self.changed
            .wait_killable(|| self.exec.update.load(Acquire) == UPDATING)
            .map_err(|_| Errno::EINTR)?;
        Ok(update)
    }
}

impl Drop for CredentialsGuard<'_> {
    fn drop(&mut self) {
        self.0.exec.guarded.store(false, Release);
        self.0.changed.wake_all();
    }
}

impl Drop for ProgramHold<'_> {
    fn drop(&mut self) {
        if self.0.exec.update.fetch_sub(READER, Release) & UPDATING != 0 {
            self.0.changed.wake_all();
        }
    }
}

impl Drop for ProgramUpdate<'_> {
    fn drop(&mut self) {
        self.0.exec.update.fetch_and(!UPDATING, Release);
        self.0.changed.wake_all();
    }
}
