//! The content of a directory.

use super::super::dentry::Dentry;
use super::super::file::Record;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A dentry of a directory.
pub struct Child {
    dentry: Arc<Dentry>,
    /// Its position for getdents: it stays while others come and go.
    position: u64,
}

enum Slot {
    Dentry(Arc<Dentry>),
    /// This slot and the following ones are free, up to this distance.
    Hole(usize),
}

/// The dentries of a directory, by name.
pub type Names = HashMap<Arc<[u8]>, Child>;

/// Names to dentries, and the order in which they were added.
pub struct Directory {
    by_name: Names,
    /// By position, ascending; a removed dentry leaves a hole until there are more holes than
    /// dentries.
    by_position: Vec<(u64, Slot)>,
    next: u64,
}

/// Positions below this one are `.` and `..`.
const FIRST: u64 = 2;
/// Holes that may be left in any directory.
const FEW: usize = 16;

impl Directory {
    /// An empty directory.
    pub const fn new() -> Self {
        Directory {
            by_name: hash::new(),
            by_position: Vec::new(),
            next: FIRST,
        }
    }

    /// How many names it has.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The dentry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Dentry>> {
        self.by_name.get(name).map(|child| &child.dentry)
    }

    /// Makes sure that the next `insert` finds room.
    pub fn reserve(&mut self) -> Result<()> {
        self.by_name.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        let room = self.by_position.try_reserve(1);
        room.map_err(|_| Errno::ENOSPC)
    }

    /// Adds a dentry under a name that is not there yet, in the room that `reserve` made.
    pub fn insert(&mut self, name: Arc<[u8]>, dentry: Arc<Dentry>) {
        let position = self.next;
        self.next += 1;
        self.by_position
            .push((position, Slot::Dentry(dentry.clone())));
        self.by_name.insert(name, Child { dentry, position });
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Dentry>> {
        let child = self.by_name.remove(name)?;
        *self.slot(child.position)? = Slot::Hole(1);
        if self.by_position.len() > 2 * self.by_name.len() + FEW {
            self.by_position
                .retain(|(_, slot)| matches!(slot, Slot::Dentry(_)));
        }
        Some(child.dentry)
    }

    /// Puts `dentry` in the place of the one called `name`.
    pub fn replace(&mut self, name: &[u8], dentry: Arc<Dentry>) -> Option<Arc<Dentry>> {
        let child = self.by_name.get_mut(name)?;
        let (position, old) = (child.position, child.dentry.clone());
        child.dentry = dentry.clone();
        *self.slot(position)? = Slot::Dentry(dentry);
        Some(old)
    }

    /// Takes the last dentry out, because the file system goes, and the names, which the caller
    /// lets go of without the lock.
    pub fn pop(&mut self) -> (Names, Option<Arc<Dentry>>) {
        let names = core::mem::replace(&mut self.by_name, hash::new());
        loop {
            match self.by_position.pop() {
                Some((_, Slot::Dentry(dentry))) => return (names, Some(dentry)),
                Some(_) => {}
                None => return (names, None),
            }
        }
    }

    /// The first dentry at or after `position`, and its position. No hole on the way is walked
    /// through twice.
    pub fn at_or_after(&mut self, position: u64) -> Option<(u64, Arc<Dentry>)> {
        let slots = &mut self.by_position;
        let first = slots.partition_point(|slot| slot.0 < position);
        let mut at = first;
        while let Some((_, Slot::Hole(skip))) = slots.get(at) {
            at += skip;
        }
        let mut passed = first;
        while let Some((_, Slot::Hole(skip))) = slots.get_mut(passed) {
            let next = passed + core::mem::replace(skip, at - passed);
            passed = next;
        }
        match slots.get(at)? {
            (position, Slot::Dentry(dentry)) => Some((*position, dentry.clone())),
            _ => None,
        }
    }

    fn slot(&mut self, position: u64) -> Option<&mut Slot> {
        let at = self
            .by_position
            .binary_search_by_key(&position, |slot| slot.0);
        Some(&mut self.by_position[at.ok()?].1)
    }
}

/// Emits `.` and `..` and then what `next(position)` gives, from `position` on.
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
