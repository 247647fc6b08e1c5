//! The one dentry of a directory on a disk. A damaged disk may have several names for a directory:
//! with a dentry for each, `..` would lead out of the directory that a process is confined to.

use super::damage;
use super::dentry::Dentry;
use super::inode::Kind;
use crate::errno::Errno;
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};

/// The dentry of a directory, while somebody has it.
pub struct Alias(Mutex<Weak<Dentry>>);

impl Alias {
    /// None.
    pub const fn new() -> Self {
        Alias(Mutex::new(Weak::new()))
    }

    /// Notes the dentry of a directory, unless there is another one: returns that. It must not end
    /// under a lock. What is no directory may have many.
    pub fn claim(&self, dentry: &Arc<Dentry>) -> Option<Arc<Dentry>> {
        if dentry.kind() != Kind::Directory {
            return None;
        }
        let mut noted = self.0.lock();
        let other = noted.upgrade();
        if other.is_none() {
            *noted = Arc::downgrade(dentry);
        }
        other
    }
}

/// The error of looking up another name in `here` for the directory `other`: as on Linux ELOOP for
/// one that `here` is in, and otherwise EUCLEAN.
pub fn second_name(kind: &str, here: &Arc<Dentry>, other: &Arc<Dentry>) -> Errno {
    damage::tell(kind, format_args!("damaged: a directory with two names"));
    match here.is_within(other) {
        true => Errno::ELOOP,
        false => Errno::EUCLEAN,
    }
}
