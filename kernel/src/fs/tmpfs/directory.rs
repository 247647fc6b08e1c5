//! The content of a directory.

use super::super::entry::Entry;
use super::super::file::Record;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

struct Child {
    entry: Arc<Entry>,
    /// Its position for getdents: it stays while others come and go.
    position: u64,
}

/// Names to entries, and the order in which they were added.
pub struct Directory {
    by_name: HashMap<Arc<[u8]>, Child>,
    by_position: BTreeMap<u64, Arc<Entry>>,
    next: u64,
}

/// Positions below this one are `.` and `..`.
const FIRST: u64 = 2;

impl Directory {
    /// An empty directory.
    pub const fn new() -> Self {
        Directory {
            by_name: hash::new(),
            by_position: BTreeMap::new(),
            next: FIRST,
        }
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_position.values()
    }

    /// How many names it has.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The entry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|child| &child.entry)
    }

    /// Makes sure that the next `insert` finds room.
    pub fn reserve(&mut self) -> Result<()> {
        self.by_name.try_reserve(1).map_err(|_| Errno::ENOSPC)
    }

    /// Adds an entry under a name that is not there yet.
    pub fn insert(&mut self, name: Arc<[u8]>, entry: Arc<Entry>) {
        let position = self.next;
        self.next += 1;
        self.by_position.insert(position, entry.clone());
        self.by_name.insert(name, Child { entry, position });
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Entry>> {
        let child = self.by_name.remove(name)?;
        self.by_position.remove(&child.position);
        Some(child.entry)
    }

    /// Puts `entry` in the place of the one called `name`.
    pub fn replace(&mut self, name: &[u8], entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let child = self.by_name.get_mut(name)?;
        self.by_position.insert(child.position, entry.clone());
        Some(core::mem::replace(&mut child.entry, entry))
    }

    /// Takes everything out: the file system goes.
    pub fn clear(&mut self) -> impl Iterator<Item = Arc<Entry>> + use<> {
        self.by_name.clear();
        core::mem::take(&mut self.by_position).into_values()
    }

    /// The first entry at or after `position`, and its position.
    pub fn at_or_after(&self, position: u64) -> Option<(u64, Arc<Entry>)> {
        let (&at, entry) = self.by_position.range(position..).next()?;
        Some((at, entry.clone()))
    }
}

/// Emits `.` and `..` and then what `next(position)` gives, from `position` on.
pub fn read(
    here: &Arc<Entry>,
    position: u64,
    emit: &mut dyn FnMut(Record) -> bool,
    mut next: impl FnMut(u64) -> Option<(u64, Arc<Entry>)>,
) {
    let dots: [(&[u8], Arc<Entry>); 2] = [(b".", here.clone()), (b"..", here.above())];
    for (at, (name, entry)) in dots.into_iter().enumerate().skip(position as usize) {
        let inode = entry.inode().attr().inode;
        if !emit(Record {
            inode,
            kind: entry.kind(),
            name,
            next: at as u64 + 1,
        }) {
            return;
        }
    }
    let mut position = position.max(FIRST);
    while let Some((at, entry)) = next(position) {
        let (inode, name) = (entry.inode().attr().inode, entry.name());
        position = at + 1;
        if !emit(Record {
            inode,
            kind: entry.kind(),
            name: &name,
            next: position,
        }) {
            return;
        }
    }
}
