//! Who a process acts as.

extern crate alloc;

use alloc::sync::Arc;
use core::mem;

use linux_raw_sys::general::*;

use crate::ipc::key::Key;

/// User and group identities, and capabilities, of a process.
#[derive(Clone)]
pub struct Credentials {
    /// Real user.
    pub uid: u32,
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
    pub groups: Arc<[u32]>,
    /// Capabilities in force, as bits.
    pub effective: u64,
    /// Capabilities that can be put in force.
    pub permitted: u64,
    /// Capabilities kept by exec.
    pub inheritable: u64,
    /// Capabilities that exec can give at most.
    pub bounding: u64,
    /// Capabilities that a program without privileges begins with.
    pub ambient: u64,
    /// SECBIT_* flags, but SECBIT_KEEP_CAPS.
    secure_bits: u32,
    /// The keyring of the session, if it was asked for.
    pub session_keyring: Option<Arc<Key>>,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new_privileges: bool,
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

/// SECBIT_* (include/uapi/linux/securebits.h), and the bits that lock the one before.
const SECBIT_NOROOT: u32 = 1;
const SECBIT_NO_SETUID_FIXUP: u32 = 4;
const SECBIT_KEEP_CAPS: u32 = 16;
const SECBIT_NO_CAP_AMBIENT_RAISE: u32 = 64;
const SECURE_LOCKS: usize = 0xaa;

impl Credentials {
    /// The superuser's.
    pub fn root() -> Self {
        Credentials {
            uid: 0,
            euid: 0,
            suid: 0,
            fsuid: 0,
            gid: 0,
            egid: 0,
            sgid: 0,
            fsgid: 0,
            groups: Arc::from([]),
            effective: ALL_CAPABILITIES,
            permitted: ALL_CAPABILITIES,
            inheritable: 0,
            bounding: ALL_CAPABILITIES,
            ambient: 0,
            secure_bits: 0,
            session_keyring: None,
            no_new_privileges: false,
            keeps_capabilities: false,
        }
    }

    /// Whether capability `number` is in force.
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

    /// Sets them, where that is allowed.
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

    /// Whether the capabilities `set` may become ambient.
    pub fn may_raise_ambient(&self, set: u64) -> bool {
        set & self.permitted & self.inheritable == set
            && self.secure_bits & SECBIT_NO_CAP_AMBIENT_RAISE == 0
    }

    /// Whether the group for file access or a supplementary one is `group`.
    pub fn in_group(&self, group: u32) -> bool {
        self.fsgid == group || self.groups.binary_search(&group).is_ok()
    }

    /// Whether a file of `group` keeps its set-group-ID bit when they change it.
    pub fn keeps_set_group(&self, group: u32) -> bool {
        self.in_group(group) || self.can(CAP_FSETID)
    }

    /// The same with the real identities in place of those for file access (access(2)).
    pub fn real(&self) -> Self {
        let effective = if self.uid == 0 { self.permitted } else { 0 };
        Credentials {
            fsuid: self.uid,
            fsgid: self.gid,
            effective,
            ..self.clone()
        }
    }

    /// Whether a process with these may send signals to one with `target`.
    pub fn may_signal(&self, target: &Credentials) -> bool {
        self.can(CAP_KILL)
            || [self.euid, self.uid]
                .iter()
                .any(|&id| id == target.uid || id == target.suid)
    }

    /// After the user identities changed from `old`: root's capabilities come and go with identity 0.
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

    /// Changes the user for file access alone: root's capabilities on files come and go with identity 0.
    pub fn set_file_user(&mut self, id: u32) {
        let old = mem::replace(&mut self.fsuid, id);
        if old == 0 && self.fsuid != 0 {
            self.effective &= !ON_FILES;
        } else if old != 0 && self.fsuid == 0 {
            self.effective |= self.permitted & ON_FILES;
        }
    }

    /// As exec leaves them: `owner` and `group` are those of a set-user-ID or set-group-ID program.
    pub fn exec(&mut self, owner: Option<u32>, group: Option<u32>) {
        if !self.no_new_privileges {
            self.euid = owner.unwrap_or(self.euid);
            self.egid = group.unwrap_or(self.egid);
        }
        (self.suid, self.fsuid) = (self.euid, self.euid);
        (self.sgid, self.fsgid) = (self.egid, self.egid);
        self.keeps_capabilities = false;
        if owner.is_some() || group.is_some() {
            self.ambient = 0;
        }
        let is_root = self.uid == 0 || self.euid == 0;
        if is_root && self.secure_bits & SECBIT_NOROOT == 0 {
            self.permitted = self.inheritable | self.bounding;
            self.effective = if self.euid == 0 { self.permitted } else { 0 };
        } else {
            (self.permitted, self.effective) = (self.ambient, self.ambient);
        }
    }
}
