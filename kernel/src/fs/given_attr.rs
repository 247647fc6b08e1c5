//! Attributes that files of a fixed tree were given. They are the tree's, whatever mount shows it, and
//! stay, as in Linux's `proc_dir_entry` and `kernfs_node`.

use super::inode::{Attr, SetAttr};
use super::seq_file::Tree;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::sync::Mutex;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use linux_raw_sys::general::S_IFMT;

/// By tree and number: a tree has so many files and no more.
static GIVEN: Mutex<HashMap<(Tree, u64), SetAttr>> = Mutex::new(hash::new());
/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Changes attributes of a file.
///
/// # Errors
/// ENOMEM.
pub fn give(tree: Tree, number: u64, change: &SetAttr) -> Result<()> {
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

/// The attributes of a file that were `attr` at first.
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
