//! Credentials: the user, groups and capabilities that a thread acts with.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use linux_raw_sys::general::*;

use super::file_capabilities::FileCapabilities;
use super::user::{self, User};
use crate::errno::{Errno, Result};
use crate::keyring::Key;

/// User and group IDs and capabilities of a thread. They are never changed, but replaced as a whole
/// (Linux's `struct cred`).
#[derive(Clone)]
pub struct Credentials {
    /// Real user.
    pub uid: u32,
    /// The resources of that user.
    pub user: Arc<User>,
    /// Effective user.
    pub euid: u32,
    /// Saved user.
    pub suid: u32,
    /// User for file access.
    pub fsuid: u32,
    /// Real group.
    pub gid: u32,
    /// Effective group.
    pub egid: u32,
    /// Saved group.
    pub sgid: u32,
    /// Group for file access.
    pub fsgid: u32,
    /// Supplementary groups, ascending.
    pub groups: Arc<Vec<u32>>,
    /// Effective capabilities, as bits.
    pub effective: u64,
    /// Permitted capabilities.
    pub permitted: u64,
    /// Capabilities kept by exec.
    pub inheritable: u64,
    /// The upper bound of capabilities that exec can give.
    pub bounding: u64,
    /// Capabilities with which an unprivileged program begins.
    pub ambient: u64,
    /// SECBIT_* flags, except SECBIT_KEEP_CAPS.
    secure_bits: u32,
    /// The keyring of the session, if it was created.
    pub session_keyring: Option<Arc<Key>>,
    /// The keyring that requested keys are linked to (KEYCTL_SET_REQKEY_KEYRING).
    pub request_keyring: i32,
    /// PR_SET_KEEPCAPS.
    pub keeps_capabilities: bool,
}

/// All capabilities of Linux 6.12: CAP_CHOWN (0) to CAP_CHECKPOINT_RESTORE (40).
pub const ALL_CAPABILITIES: u64 = (1 << 41) - 1;

/// Capabilities on files (CAP_FS_SET of Linux's capability.h).
const ON_FILES: u64 = 1 << CAP_CHOWN
    | 1 << CAP_DAC_OVERRIDE
    | 1 << CAP_DAC_READ_SEARCH
    | 1 << CAP_FOWNER
    | 1 << CAP_FSETID
    | 1 << CAP_LINUX_IMMUTABLE
    | 1 << CAP_MKNOD
    | 1 << CAP_MAC_OVERRIDE;

/// SECBIT_* (include/uapi/linux/securebits.h), each followed by the bit that locks it.
const SECBIT_NOROOT: u32 = 1;
const SECBIT_NO_SETUID_FIXUP: u32 = 4;
const SECBIT_KEEP_CAPS: u32 = 16;
const SECBIT_KEEP_CAPS_LOCKED: u32 = 32;
const SECBIT_NO_CAP_AMBIENT_RAISE: u32 = 64;
const SECURE_LOCKS: usize = 0xaa;

impl Credentials {
    /// The superuser's credentials.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn root() -> Result<Self> {
        Ok(Credentials {
            uid: 0,
            user: user::of(0)?,
            euid: 0,
            suid: 0,
            fsuid: 0,
            gid: 0,
            egid: 0,
            sgid: 0,
            fsgid: 0,
            groups: Arc::new(Vec::new()),
            effective: ALL_CAPABILITIES,
            permitted: ALL_CAPABILITIES,
            inheritable: 0,
            bounding: ALL_CAPABILITIES,
            ambient: 0,
            secure_bits: 0,
            session_keyring: None,
            request_keyring: 0,
            keeps_capabilities: false,
        })
    }

    /// Whether capability `number` is effective.
    pub fn can(&self, number: u32) -> bool {
        self.effective >> number & 1 != 0
    }

    /// SECBIT_* flags.
    pub fn secure_bits(&self) -> u32 {
        let keeps = if self.keeps_capabilities {
            SECBIT_KEEP_CAPS
        } else {
            0
        };
        self.secure_bits | keeps
    }

    /// Sets the SECBIT_* flags, if that is allowed.
    pub fn set_secure_bits(&mut self, bits: usize) -> Option<()> {
        let old = self.secure_bits() as usize;
        let locked = (old & SECURE_LOCKS) >> 1;
        let unlocks = old & SECURE_LOCKS & !bits != 0;
        let odd = bits & !(SECURE_LOCKS | SECURE_LOCKS >> 1) != 0;
        if locked & (old ^ bits) != 0 || unlocks || odd || !self.can(CAP_SETPCAP) {
            return None;
        }
        self.keeps_capabilities = bits as u32 & SECBIT_KEEP_CAPS != 0;
        self.secure_bits = bits as u32 & !SECBIT_KEEP_CAPS;
        Some(())
    }

    /// Sets PR_SET_KEEPCAPS, if that is allowed.
    pub fn keep_capabilities(&mut self, keeps: bool) -> Option<()> {
        self.keeps_capabilities = keeps;
        (self.secure_bits & SECBIT_KEEP_CAPS_LOCKED == 0).then_some(())
    }

    /// The capabilities that may become inheritable: a file cannot restore one that was dropped
    /// from the bounding set.
    pub fn most_inheritable(&self) -> u64 {
        let gained = if self.can(CAP_SETPCAP) {
            self.bounding
        } else {
            self.bounding & self.permitted
        };
        self.inheritable | gained
    }

    /// Whether the capabilities `set` may become ambient.
    pub fn may_raise_ambient(&self, set: u64) -> bool {
        set & self.permitted & self.inheritable == set
            && self.secure_bits & SECBIT_NO_CAP_AMBIENT_RAISE == 0
    }

    /// Whether `group` is the group for file access or a supplementary one.
    pub fn in_group(&self, group: u32) -> bool {
        self.fsgid == group || self.groups.binary_search(&group).is_ok()
    }

    /// Whether a file of `group` keeps its set-group-ID bit when a process with these credentials
    /// changes it.
    pub fn keeps_set_group(&self, group: u32) -> bool {
        self.in_group(group) || self.can(CAP_FSETID)
    }

    /// A copy whose IDs for file access are the real ones (access(2)).
    pub fn real(&self) -> Self {
        let effective = if self.uid == 0 { self.permitted } else { 0 };
        Credentials {
            fsuid: self.uid,
            fsgid: self.gid,
            effective,
            ..self.clone()
        }
    }

    /// Whether a process with these credentials may send signals to one with `target`.
    pub fn may_signal(&self, target: &Credentials) -> bool {
        self.can(CAP_KILL)
            || [self.euid, self.uid]
                .iter()
                .any(|&id| id == target.uid || id == target.suid)
    }

    /// Adjusts capabilities after the user IDs changed from `old`: root's come and go with user ID
    /// 0.
    pub fn adjust_capabilities(&mut self, old: &Credentials) {
        let has_root = |who: &Credentials| who.uid == 0 || who.euid == 0 || who.suid == 0;
        if self.secure_bits & SECBIT_NO_SETUID_FIXUP != 0 {
            return;
        }
        if has_root(old) && !has_root(self) {
            self.ambient = 0;
            if !self.keeps_capabilities {
                (self.permitted, self.effective) = (0, 0);
            }
        }
        if old.euid == 0 && self.euid != 0 {
            self.effective = 0;
        } else if old.euid != 0 && self.euid == 0 {
            self.effective = self.permitted;
        }
    }

    /// Changes only the user for file access: root's capabilities on files come and go with user ID
    /// 0.
    pub fn set_file_user(&mut self, id: u32) {
        let old = mem::replace(&mut self.fsuid, id);
        if self.secure_bits & SECBIT_NO_SETUID_FIXUP != 0 {
            return;
        }
        if old == 0 && self.fsuid != 0 {
            self.effective &= !ON_FILES;
        } else if old != 0 && self.fsuid == 0 {
            self.effective |= self.permitted & ON_FILES;
        }
    }

    /// Whether a process with `old` may no longer inspect one with these credentials
    /// (commit_creds).
    pub fn is_guarded_from(&self, old: &Credentials) -> bool {
        let ids = |who: &Credentials| [who.euid, who.egid, who.fsuid, who.fsgid];
        ids(self) != ids(old) || self.permitted & !old.permitted != 0
    }

    /// Whether the IDs include one that a process with credentials `old` could not set itself.
    pub fn has_foreign_ids(&self, old: &Credentials) -> bool {
        let (uids, gids) = ([old.uid, old.euid, old.suid], [old.gid, old.egid, old.sgid]);
        [self.uid, self.euid, self.suid]
            .iter()
            .any(|id| !uids.contains(id))
            || [self.gid, self.egid, self.sgid]
                .iter()
                .any(|id| !gids.contains(id))
    }

    /// The credentials after exec, and whether the program is more privileged than its caller
    /// (AT_SECURE). `owner` and `group` are those of a set-user-ID or set-group-ID program, `file`
    /// its capabilities; `withheld` says which privileges it does not get
    /// (cap_bprm_creds_from_file).
    ///
    /// # Errors
    /// EPERM: a program that does not check its capabilities would not get all those of its file.
    pub fn exec(
        &self,
        owner: Option<u32>,
        group: Option<u32>,
        file: Option<FileCapabilities>,
        withheld: Withheld,
    ) -> Result<(Self, bool)> {
        let mut new = self.clone();
        new.euid = owner.unwrap_or(self.euid);
        new.egid = group.unwrap_or(self.egid);
        new.permitted = file.map_or(0, |file| {
            self.bounding & file.permitted | self.inheritable & file.inheritable
        });
        let mut in_force = file.is_some_and(|file| file.effective);
        if let Some(file) = file
            && file.effective
            && file.permitted & !new.permitted != 0
        {
            return Err(Errno::EPERM);
        }
        // A set-user-ID root program with file capabilities gets only those.
        let own_only = file.is_some() && new.euid == 0 && new.uid != 0;
        if self.secure_bits & SECBIT_NOROOT == 0 && !own_only {
            if new.uid == 0 || new.euid == 0 {
                new.permitted = new.inheritable | new.bounding;
            }
            in_force |= new.euid == 0;
        }
        let changes = new.euid != self.uid || new.egid != self.gid;
        if (changes || new.permitted & !self.permitted != 0) && withheld != Withheld::Nothing {
            if withheld == Withheld::All || !self.can(CAP_SETUID) {
                (new.euid, new.egid) = (new.uid, new.gid);
            }
            new.permitted &= self.permitted;
        }
        (new.suid, new.fsuid) = (new.euid, new.euid);
        (new.sgid, new.fsgid) = (new.egid, new.egid);
        if changes || file.is_some() {
            new.ambient = 0;
        }
        new.permitted |= new.ambient;
        new.effective = if in_force { new.permitted } else { new.ambient };
        new.keeps_capabilities = false;
        let grew = in_force || new.permitted & !new.ambient != 0;
        Ok((new, changes || self.uid != 0 && grew))
    }
}

/// The privileges of a set-user-ID program that exec withholds (LSM_UNSAFE_*).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// No privileges.
    Nothing,
    /// Privileges that its caller does not have: the caller is traced, or shares its directory.
    Gained,
    /// All privileges (PR_SET_NO_NEW_PRIVS).
    All,
}
