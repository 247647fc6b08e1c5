//! The credentials of a thread.

use super::Thread;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::task::coredump::SUID_DUMPABLE;
use crate::task::credentials::Credentials;
use crate::task::{user, with_space};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use linux_raw_sys::general::RLIMIT_NPROC;

impl Thread {
    /// Calls `f` with the credentials of the thread.
    #[inline]
    pub fn with_credentials<T>(&self, f: impl FnOnce(&Credentials) -> T) -> T {
        f(&self.credentials.lock())
    }

    /// The credentials of the thread.
    pub fn credentials(&self) -> Arc<Credentials> {
        self.credentials.lock().clone()
    }

    /// Changes the credentials of this thread, which is the current one; not at all if `f` fails.
    ///
    /// # Errors
    /// ENOMEM, and the errors of `f`.
    pub fn change_credentials(&self, f: impl FnOnce(&mut Credentials) -> Result<()>) -> Result<()> {
        let old = self.credentials();
        let mut new = Credentials::clone(&old);
        f(&mut new)?;
        if new.uid != old.uid {
            new.user = user::of(new.uid)?;
            // Root's processes are not limited.
            let exceeds = new.uid != 0 && self.exceeds_limit(&new);
            self.over_limit.store(exceeds, Relaxed);
        }
        new.adjust_capabilities(&old);
        if new.has_foreign_ids(&old) {
            self.process.use_privilege();
        }
        let new = try_arc(new)?;
        if new.is_guarded_from(&old) {
            // Set before the credentials, for readers that check both (ptrace_access.rs).
            let dumpable = SUID_DUMPABLE.load(Relaxed);
            with_space(|space| space.set_dumpable(dumpable));
            self.set_death_signal(0);
        }
        self.set_credentials(new);
        Ok(())
    }

    /// Creates files as root from now on, with no further privileges, for a core file.
    ///
    /// # Errors
    /// ENOMEM.
    pub(in crate::task) fn act_as_root(&self) -> Result<()> {
        let mut new = Credentials::clone(&self.credentials());
        new.fsuid = 0;
        self.set_credentials(try_arc(new)?);
        Ok(())
    }

    /// Whether the user of `who` has more processes and further threads than RLIMIT_NPROC allows.
    fn exceeds_limit(&self, who: &Credentials) -> bool {
        who.user.tasks() > self.process.limits.soft(RLIMIT_NPROC)
    }

    /// Checks before execve(2): it fails while the process's user is over RLIMIT_NPROC because of
    /// an earlier set*uid call. Otherwise clears the mark of that call.
    ///
    /// # Errors
    /// EAGAIN.
    pub fn check_over_limit(&self) -> Result<()> {
        if self.over_limit.load(Relaxed) && self.with_credentials(|who| self.exceeds_limit(who)) {
            return Err(Errno::EAGAIN);
        }
        self.over_limit.store(false, Relaxed);
        Ok(())
    }

    pub(in crate::task) fn set_credentials(&self, new: Arc<Credentials>) {
        if self.tid() == self.process_id() {
            self.process.set_credentials(new.clone());
        }
        let further = self.further.load(Relaxed);
        if further {
            new.user.add_task();
        }
        let old = core::mem::replace(&mut *self.credentials.lock(), new);
        if further {
            old.user.remove_task();
        }
        drop(old);
    }
}
