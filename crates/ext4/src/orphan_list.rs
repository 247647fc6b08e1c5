//! The list of orphans in memory. On disk each inode has the number of the next one; this list also
//! has the previous one, so that an inode can be removed from the middle of a long list without a
//! walk.

use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::Result;
use crate::bytes::push;

/// The inode before each inode in the list, 0 before the first, and the data that undoes the
/// changes of the running operation.
#[derive(Default)]
pub struct OrphanList {
    before: HashMap<u32, u32>,
    undo: Vec<(u32, Option<u32>)>,
}

impl OrphanList {
    /// The inode before one in the list.
    pub fn before(&self, number: u32) -> Option<u32> {
        self.before.get(&number).copied()
    }

    /// Sets the inode before another one, or removes that one from the list.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub fn set(&mut self, number: u32, before: Option<u32>) -> Result<()> {
        self.before.try_reserve(1)?;
        let old = self.before(number);
        push(&mut self.undo, (number, old))?;
        self.put(number, before);
        Ok(())
    }

    fn put(&mut self, number: u32, before: Option<u32>) {
        match before {
            Some(before) => _ = self.before.insert(number, before),
            None => _ = self.before.remove(&number),
        }
    }

    /// Keeps the changes of the running operation.
    pub fn keep(&mut self) {
        self.undo.clear();
    }

    /// Undoes the changes of the running operation.
    pub fn undo(&mut self) {
        while let Some((number, before)) = self.undo.pop() {
            self.put(number, before);
        }
    }
}
