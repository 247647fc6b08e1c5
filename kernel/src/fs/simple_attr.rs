//! The attributes of an inode that belongs to no file system, such as a socket's (Linux's
//! `simple_setattr`).

use super::inode::{Attr, SetAttr, Time};
use crate::sync::Mutex;
use linux_raw_sys::general::S_IFMT;

/// Attributes that keep the values last set.
pub struct SimpleAttr(Mutex<Attr>);

impl SimpleAttr {
    /// The given attributes, with the times of an inode that is created now.
    pub fn new(attr: Attr) -> Self {
        let now = Time::now();
        SimpleAttr(Mutex::new(Attr {
            links: 1,
            accessed: now,
            modified: now,
            changed: now,
            ..attr
        }))
    }

    /// The current attributes.
    pub fn get(&self) -> Attr {
        *self.0.lock()
    }

    /// Records a read and a write at these times.
    pub fn touch(&self, read: Option<Time>, written: Option<Time>) {
        let mut attr = self.0.lock();
        attr.accessed = read.unwrap_or(attr.accessed);
        if let Some(written) = written {
            attr.modified = written;
            attr.changed = written;
        }
    }

    /// Changes those attributes that are `Some` in `change`.
    pub fn set(&self, change: &SetAttr) {
        let mut attr = self.0.lock();
        if let Some(permissions) = change.permissions {
            attr.mode = attr.mode & S_IFMT | permissions;
        }
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        attr.accessed = change.accessed.unwrap_or(attr.accessed);
        attr.modified = change.modified.unwrap_or(attr.modified);
        attr.changed = Time::now();
    }
}
