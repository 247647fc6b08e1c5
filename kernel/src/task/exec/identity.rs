//! The credentials that a program gets, and whether others may inspect it, decided before the new
//! program is set up.

use alloc::sync::Arc;

use linux_raw_sys::general::{MS_NOSUID, S_ISGID, S_ISUID, S_IXGRP};

use crate::errno::{Errno, Result};
use crate::fs::fs_context::Executing;
use crate::fs::{File, perm};
use crate::mm::heap::try_arc;
use crate::task::credentials::{Credentials, Withheld};
use crate::task::file_capabilities::{self, FileCapabilities};
use crate::task::{Thread, current};

/// The personality bits that are cleared for set-user-ID programs (PER_CLEAR_ON_SETID):
/// READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE, ADDR_COMPAT_LAYOUT and MMAP_PAGE_ZERO.
const UNSAFE_PERSONALITY: u32 = 0x040_0000 | 0x004_0000 | 0x020_0000 | 0x010_0000;

/// The identity with which a program runs.
pub struct Identity {
    /// Its credentials.
    pub credentials: Arc<Credentials>,
    /// Whether the program is more privileged than its caller (AT_SECURE).
    pub secure: bool,
    /// The bits of the personality that are cleared for the program.
    pub lost_personality: u32,
    /// Whether others of the same user may inspect it.
    pub dumpable: bool,
    /// Until exec is complete, no other process joins in sharing the thread's directory.
    _alone: Option<Executing>,
}

impl Identity {
    /// The identity of a program in `file`, for the current thread.
    ///
    /// # Errors
    /// ENOMEM; EPERM and EINVAL because of the file's capabilities.
    pub fn decide(file: &File) -> Result<Self> {
        let thread: &Thread = &current();
        let (owner, group) = owners(file);
        let alone = Executing::begin(thread);
        let old = thread.credentials();
        let withheld = withheld(thread, alone.is_some());
        let (new, secure) = old.exec(owner, group, capabilities(file)?, withheld)?;
        let gains = new.permitted & !old.permitted != 0;
        let changes = owner.is_some() || group.is_some() || gains;
        let mut identity = Identity {
            dumpable: [old.euid, old.egid] == [old.uid, old.gid] && !new.is_guarded_from(&old),
            credentials: try_arc(new)?,
            secure,
            lost_personality: if changes { UNSAFE_PERSONALITY } else { 0 },
            _alone: alone,
        };
        identity.hide_unreadable(file);
        Ok(identity)
    }

    /// Hides the memory of a program whose file the user may not read (would_dump).
    pub fn hide_unreadable(&mut self, file: &File) {
        self.dumpable &= perm::check(file.path(), perm::READ).is_ok();
    }
}

/// The owner and the group of a set-user-ID or set-group-ID program.
fn owners(file: &File) -> (Option<u32>, Option<u32>) {
    let inode = file.dentry().inode();
    if file.path().mount_flags() & MS_NOSUID != 0 || current().has_no_new_privileges() {
        return (None, None);
    }
    let attr = inode.attr();
    // The permission that was checked may be gone, as those of others should be before chmod gives
    // the file set-id bits (bprm_fill_uid).
    let executes = |who: &Credentials| perm::check_as(who, &attr, perm::EXECUTE).is_ok();
    if !current().with_credentials(executes) {
        return (None, None);
    }
    let user = (attr.mode & S_ISUID != 0).then_some(attr.uid);
    let both = S_ISGID | S_IXGRP;
    (user, (attr.mode & both == both).then_some(attr.gid))
}

/// The capabilities of the executable file.
fn capabilities(file: &File) -> Result<Option<FileCapabilities>> {
    if file.path().mount_flags() & MS_NOSUID != 0 {
        return Ok(None);
    }
    match file.dentry().inode().xattr(file_capabilities::NAME) {
        Ok(value) => FileCapabilities::parse(&value),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The privileges that `thread` does not get from a program. `alone`: no other process shares its
/// directory (`fs_struct` of Linux).
fn withheld(thread: &Thread, alone: bool) -> Withheld {
    if thread.has_no_new_privileges() {
        Withheld::All
    } else if alone && !thread.is_traced_by_unprivileged() {
        Withheld::Nothing
    } else {
        Withheld::Gained
    }
}
