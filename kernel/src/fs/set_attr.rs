//! Attributes that were set on files of a fixed tree. They belong to the tree, whichever mount
//! shows it, and persist, as in Linux's `proc_dir_entry` and `kernfs_node`.

use super::inode::{Attr, SetAttr, XattrChange};
use super::seq_file::Tree;
use super::tmpfs::{Quota, Xattrs};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use linux_raw_sys::general::S_IFMT;

/// By tree and number; the number of files in the trees is limited.
static GIVEN: Mutex<HashMap<(Tree, u64), SetAttr>> = Mutex::new(hash::new());
/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Changes attributes of a file.
///
/// # Errors
/// ENOMEM.
pub fn set(tree: Tree, number: u64, change: &SetAttr) -> Result<()> {
    let mut given = GIVEN.lock();
    given.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let all = given.get_or_insert_with((tree, number), SetAttr::default);
    *all = SetAttr {
        permissions: change.permissions.or(all.permissions),
        uid: change.uid.or(all.uid),
        gid: change.gid.or(all.gid),
        accessed: change.accessed.or(all.accessed),
        modified: change.modified.or(all.modified),
    };
    ANY.store(true, Relaxed);
    Ok(())
}

/// The present attributes of a file with the initial attributes `attr`.
pub fn apply(tree: Tree, number: u64, attr: Attr) -> Attr {
    if !ANY.load(Relaxed) {
        return attr;
    }
    let given = GIVEN.lock();
    let Some(given) = given.get(&(tree, number)) else {
        return attr;
    };
    Attr {
        mode: given
            .permissions
            .map_or(attr.mode, |permissions| attr.mode & S_IFMT | permissions),
        uid: given.uid.unwrap_or(attr.uid),
        gid: given.gid.unwrap_or(attr.gid),
        accessed: given.accessed.unwrap_or(attr.accessed),
        modified: given.modified.unwrap_or(attr.modified),
        ..attr
    }
}

/// Extended attributes of sysfs files, by number.
static XATTRS: Mutex<HashMap<u64, Arc<Xattrs>>> = Mutex::new(hash::new());
/// Unlimited, since only privileged programs can create any.
static ROOM: Quota = Quota::new(None);

fn xattrs_of(number: u64) -> Option<Arc<Xattrs>> {
    XATTRS.lock().get(&number).cloned()
}

/// An extended attribute of a sysfs file.
///
/// # Errors
/// ENODATA, ENOMEM.
pub fn xattr(number: u64, name: &[u8]) -> Result<Vec<u8>> {
    xattrs_of(number).ok_or(Errno::ENODATA)?.get(name)
}

/// Changes an extended attribute; attributes of programs (`user.`) are not supported.
///
/// # Errors
/// EOPNOTSUPP, ENODATA, EEXIST, ENOSPC, ENOMEM.
pub fn set_xattr(number: u64, name: &[u8], change: XattrChange) -> Result<()> {
    if name.starts_with(b"user.") {
        return Err(Errno::EOPNOTSUPP);
    }
    let fresh = try_arc(Xattrs::new())?;
    let all = {
        let mut known = XATTRS.lock();
        known.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        known.get_or_insert_with(number, || fresh.clone()).clone()
    };
    all.change(name, change, &ROOM)
}

/// The names of all extended attributes, each followed by a zero byte.
///
/// # Errors
/// ENOMEM.
pub fn xattrs(number: u64) -> Result<Vec<u8>> {
    xattrs_of(number).map_or(Ok(Vec::new()), |all| all.names())
}
