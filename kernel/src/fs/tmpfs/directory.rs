//! The content of a directory.

use super::super::dentry::Dentry;
use super::super::file::Record;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::fault_inject::NoFail;
use crate::mm::heap::check_room;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// A dentry of a directory.
pub struct Child {
    dentry: Arc<Dentry>,
    /// Its position for getdents, which stays the same while other entries come and go.
    position: u64,
}

/// The dentries of a directory, by name.
pub type Names = HashMap<Arc<[u8]>, Child>;

/// Names to dentries, and the order in which they were added.
pub struct Directory {
    by_name: Names,
    /// By position. This is a tree, so that no change moves all entries.
    by_position: BTreeMap<u64, Arc<Dentry>>,
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

    /// The number of names.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The dentry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Dentry>> {
        self.by_name.get(name).map(|child| &child.dentry)
    }

    /// Reserves room for the next `insert`.
    pub fn reserve(&mut self) -> Result<()> {
        self.by_name.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        _ = check_room().map_err(|_| Errno::ENOSPC)?;
        Ok(())
    }

    /// Adds a dentry under a name that does not exist yet, in the room that `reserve` made.
    pub fn insert(&mut self, name: Arc<[u8]>, dentry: Arc<Dentry>) {
        let _reserved = NoFail::begin();
        let position = self.next;
        self.next += 1;
        self.by_position.insert(position, dentry.clone());
        self.by_name.insert(name, Child { dentry, position });
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Dentry>> {
        let child = self.by_name.remove(name)?;
        self.by_position.remove(&child.position);
        Some(child.dentry)
    }

    /// Puts `dentry` in place of the one called `name`.
    pub fn replace(&mut self, name: &[u8], dentry: Arc<Dentry>) -> Option<Arc<Dentry>> {
        let child = self.by_name.get_mut(name)?;
        let old = core::mem::replace(&mut child.dentry, dentry.clone());
        self.by_position.insert(child.position, dentry);
        Some(old)
    }

    /// Takes out the last dentry, since the file system is being destroyed; also returns the names,
    /// which the caller drops without the lock.
    pub fn pop(&mut self) -> (Names, Option<Arc<Dentry>>) {
        let names = core::mem::replace(&mut self.by_name, hash::new());
        (names, self.by_position.pop_last().map(|(_, last)| last))
    }

    /// The first dentry at or after `position`, and its position.
    pub fn at_or_after(&self, position: u64) -> Option<(u64, Arc<Dentry>)> {
        let (position, dentry) = self.by_position.range(position..).next()?;
        Some((*position, dentry.clone()))
    }
}

/// Emits `.` and `..` and then the entries that `next(position)` returns, from `position` on.
pub fn read(
    here: &Arc<Dentry>,
    position: u64,
    emit: &mut dyn FnMut(Record) -> bool,
    mut next: impl FnMut(u64) -> Option<(u64, Arc<Dentry>)>,
) {
    let dots: [(&[u8], Arc<Dentry>); 2] = [
        (b".", here.clone()),
        (b"..", here.parent().unwrap_or_else(|| here.clone())),
    ];
    for (at, (name, dentry)) in dots.into_iter().enumerate().skip(position as usize) {
        let inode = dentry.inode().attr().inode;
        if !emit(Record {
            inode,
            kind: dentry.kind(),
            name,
            next: at as u64 + 1,
        }) {
            return;
        }
    }
    let mut position = position.max(FIRST);
    while let Some((at, dentry)) = next(position) {
        let (inode, name) = (dentry.inode().attr().inode, dentry.name());
        position = at + 1;
        if !emit(Record {
            inode,
            kind: dentry.kind(),
            name: &name,
            next: position,
        }) {
            return;
        }
    }
}
