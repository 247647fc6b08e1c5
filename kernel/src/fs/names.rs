//! The names of a directory on a disk that somebody has: each has one dentry, which every look-up
//! finds, so that something can be mounted on it.

use super::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
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
