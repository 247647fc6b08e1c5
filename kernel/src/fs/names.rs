//! The names of a directory on a disk or a server that somebody has: each has one dentry, which
//! every look-up finds, so that something can be mounted on it. And what is checked before names
//! are removed or moved.

use super::dentry::Dentry;
use super::inode::Replace;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// Dentries by their names.
pub struct Names {
    dentries: HashMap<Vec<u8>, Weak<Dentry>>,
    /// Where the search for dead ones goes on.
    swept: usize,
}

impl Names {
    /// None.
    pub const fn new() -> Self {
        Names {
            dentries: hash::new(),
            swept: 0,
        }
    }

    /// The dentry of a name, which may be removed by now. It must not end under a lock.
    pub fn known(&self, name: &[u8]) -> Option<Arc<Dentry>> {
        self.dentries.get(name).and_then(Weak::upgrade)
    }

    /// Makes room for one name more.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(&mut self) -> Result<()> {
        let live = |_: &Vec<u8>, dentry: &Weak<Dentry>| dentry.strong_count() > 0;
        self.swept = self.dentries.retain_from(self.swept, live);
        self.dentries.try_reserve(1).map_err(|_| Errno::ENOMEM)
    }

    /// Notes the dentry of a name that there is room for ([`Names::reserve`]).
    pub fn put(&mut self, name: Vec<u8>, dentry: &Arc<Dentry>) {
        self.dentries.insert(name, Arc::downgrade(dentry));
    }

    /// Forgets a name.
    pub fn remove(&mut self, name: &[u8]) {
        self.dentries.remove(name);
    }
}

/// The dentry of a name that is in use.
pub fn in_use(names: &Mutex<Names>, name: &[u8]) -> Option<Arc<Dentry>> {
    let known = names.lock().known(name);
    known.filter(|dentry| !dentry.is_removed())
}

/// ESTALE unless a name still belongs to `dentry`.
pub fn check_same(names: &Mutex<Names>, name: &[u8], dentry: &Arc<Dentry>) -> Result<()> {
    match in_use(names, name).is_some_and(|known| Arc::ptr_eq(&known, dentry)) {
        true => Ok(()),
        false => Err(Errno::ESTALE),
    }
}

/// The same of a name that is to be removed: EBUSY while something is mounted on it.
pub fn check_victim(names: &Mutex<Names>, name: &[u8], victim: &Arc<Dentry>) -> Result<()> {
    check_same(names, name, victim)?;
    match victim.is_covered() {
        true => Err(Errno::EBUSY),
        false => Ok(()),
    }
}

/// Checks that directories form no loop by a rename of `source` from `here` to `there`, where
/// `occupant` has the name.
///
/// # Errors
/// EINVAL: one gets into itself. ENOTEMPTY: what is replaced has the other.
pub fn check_loop(
    (here, source): (&Arc<Dentry>, &Arc<Dentry>),
    there: &Arc<Dentry>,
    occupant: Option<&Arc<Dentry>>,
    replace: Replace,
) -> Result<()> {
    if Arc::ptr_eq(here, there) {
        return Ok(());
    }
    if there.is_within(source) {
        return Err(Errno::EINVAL);
    }
    match occupant {
        Some(occupant) if here.is_within(occupant) => Err(match replace {
            Replace::Exchange => Errno::EINVAL,
            _ => Errno::ENOTEMPTY,
        }),
        _ => Ok(()),
    }
}
