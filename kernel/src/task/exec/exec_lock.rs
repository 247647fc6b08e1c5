//! The locks between exec in a process and other threads that trace or inspect it.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::errno::{Errno, Result};
use crate::task::Process;

/// The two locks; a thread waits for them on the process's event of changes.
pub struct ExecLock {
    /// Linux's cred_guard_mutex.
    guarded: AtomicBool,
    /// Linux's exec_update_lock: how many `READER`s there are, and whether somebody is, or waits to
    /// be, `UPDATING`.
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

/// While this lives, no other thread traces the process, or decides its program's credentials.
pub struct CredentialsGuard<'a>(&'a Process);

/// While this lives, memory and identity of the process belong together.
pub struct ProgramHold<'a>(&'a Process);

/// While this lives, nobody inspects the process, whose memory and identity change.
pub struct ProgramUpdate<'a>(&'a Process);

impl Process {
    /// Keeps others from tracing the process, or deciding the credentials of its program.
    ///
    /// # Errors
    /// ERESTARTNOINTR: a signal came.
    pub fn guard_credentials(&self) -> Result<CredentialsGuard<'_>> {
        let take = || !self.exec.guarded.swap(true, Acquire);
        self.changed
            .wait_interruptible(take, None)
            .map_err(|_| Errno::ERESTARTNOINTR)?;
        Ok(CredentialsGuard(self))
    }

    /// Keeps the process from beginning another program while another process inspects its identity
    /// and its memory.
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

    /// Lets nobody look at the process while exec changes memory and identity. Only its last thread
    /// may.
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
