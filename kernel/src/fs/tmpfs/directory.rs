//! The content of a directory.

use super::super::dentry::Entry;
use super::super::file::Record;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An entry of a directory.
pub struct Child {
    entry: Arc<Entry>,
    /// Its position for getdents: it stays while others come and go.
    position: u64,
}

enum Slot {
    Entry(Arc<Entry>),
    /// So many slots on there may be an entry, and before that there is none.
    Hole(usize),
}

/// The entries of a directory, by name.
pub type Names = HashMap<Arc<[u8]>, Child>;

/// Names to entries, and the order in which they were added.
pub struct Directory {
    by_name: Names,
    /// By position, ascending; what was removed leaves a hole until there are more holes than
    /// entries.
    by_position: Vec<(u64, Slot)>,
    next: u64,
}

/// Positions below this one are `.` and `..`.
const FIRST: u64 = 2;
/// So many holes may always be left.
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

    /// The entry called `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|child| &child.entry)
    }

    /// Makes sure that the next `insert` finds room.
    pub fn reserve(&mut self) -> Result<()> {
        self.by_name.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        let room = self.by_position.try_reserve(1);
        room.map_err(|_| Errno::ENOSPC)
    }

    /// Adds an entry under a name that is not there yet, in the room that `reserve` made.
    pub fn insert(&mut self, name: Arc<[u8]>, entry: Arc<Entry>) {
        let position = self.next;
        self.next += 1;
        self.by_position
            .push((position, Slot::Entry(entry.clone())));
        self.by_name.insert(name, Child { entry, position });
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Entry>> {
        let child = self.by_name.remove(name)?;
        *self.slot(child.position)? = Slot::Hole(1);
        if self.by_position.len() > 2 * self.by_name.len() + FEW {
            self.by_position
                .retain(|(_, slot)| matches!(slot, Slot::Entry(_)));
        }
        Some(child.entry)
    }

    /// Puts `entry` in the place of the one called `name`.
    pub fn replace(&mut self, name: &[u8], entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let child = self.by_name.get_mut(name)?;
        let (position, old) = (child.position, child.entry.clone());
        child.entry = entry.clone();
        *self.slot(position)? = Slot::Entry(entry);
        Some(old)
    }

    /// Takes the last entry out, because the file system goes, and the names, which the caller lets
    /// go of without the lock.
    pub fn pop(&mut self) -> (Names, Option<Arc<Entry>>) {
        let names = core::mem::replace(&mut self.by_name, hash::new());
        loop {
            match self.by_position.pop() {
                Some((_, Slot::Entry(entry))) => return (names, Some(entry)),
                Some(_) => {}
                None => return (names, None),
            }
        }
    }

    /// The first entry at or after `position`, and its position. No hole on the way is walked
    /// through twice.
    pub fn at_or_after(&mut self, position: u64) -> Option<(u64, Arc<Entry>)> {
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
            (position, Slot::Entry(entry)) => Some((*position, entry.clone())),
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
    here: &Arc<Entry>,
    position: u64,
    emit: &mut dyn FnMut(Record) -> bool,
    mut next: impl FnMut(u64) -> Option<(u64, Arc<Entry>)>,
) {
    let dots: [(&[u8], Arc<Entry>); 2] = [
        (b".", here.clone()),
        (b"..", here.parent().unwrap_or_else(|| here.clone())),
    ];
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
