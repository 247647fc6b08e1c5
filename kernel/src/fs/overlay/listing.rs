//! The names of a merged directory.

use super::super::Dentry;
use super::super::inode::Kind;
use super::UPPER;
use super::layers::open;
use super::node::Node;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_bytes;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::{O_DIRECTORY, O_RDONLY};

/// A name, as the uppermost layer has it that has any.
pub struct Entry {
    pub name: Arc<[u8]>,
    pub kind: Kind,
    /// The number of the inode in that layer.
    pub inode: u64,
    /// That layer.
    pub layer: usize,
    is_whiteout: bool,
}

/// The entries of a directory, in an order that changes of the upper layer leave as far as
/// possible: those of the lowest layer are first.
#[derive(Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
}

/// Entries as they are collected, from the upper layer down.
struct Collected {
    entries: Vec<Entry>,
    places: HashMap<Arc<[u8]>, usize>,
    /// For each layer the places of its entries, in its order.
    order: Vec<Vec<usize>>,
}

impl Listing {
    /// Reads the directories of all layers.
    ///
    /// # Errors
    /// ENOMEM; EINTR; those of the layers.
    pub fn read(node: &Node) -> Result<Self> {
        let mut all = Collected {
            entries: Vec::new(),
            places: hash::new(),
            order: Vec::new(),
        };
        let (upper, lowers) = node.real();
        if let Some(upper) = upper {
            all.add(node, UPPER, &upper)?;
        }
        for lower in lowers.iter() {
            all.add(node, lower.layer, &lower.dentry)?;
        }
        all.sort()
    }

    /// The memory that it takes, in bytes.
    pub fn held(&self) -> usize {
        let names = self.entries.iter().map(|entry| entry.name.len());
        // A name that is shared has two counts beside it.
        let counts = 2 * size_of::<usize>() * self.entries.len();
        self.entries.capacity() * size_of::<Entry>() + counts + names.sum::<usize>()
    }

    /// Whether there are names but `.` and `..`.
    pub fn has_names(&self) -> bool {
        let mut names = self.entries.iter().map(|entry| &*entry.name);
        names.any(|name| !matches!(name, b"." | b".."))
    }
}

impl Collected {
    /// Adds what a layer has.
    fn add(&mut self, node: &Node, layer: usize, directory: &Arc<Dentry>) -> Result<()> {
        let path = node.fs.path(layer, directory.clone());
        self.order.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.order.push(Vec::new());
        let first = self.entries.len();
        let file = open(&path, O_RDONLY | O_DIRECTORY)?;
        let mut outcome = Ok(());
        file.ops().read_dir(&file, 0, &mut |record| {
            let added = cond_resched_killable()
                .and_then(|()| self.note(record.name, record.kind, record.inode, layer));
            outcome = added;
            outcome.is_ok()
        })?;
        outcome?;
        let has_files = node.fs.opacity(directory) == Some(b'x');
        for entry in &mut self.entries[first..] {
            let may_be = match entry.kind {
                Kind::Character => true,
                Kind::Regular => has_files,
                _ => false,
            };
            if may_be {
                cond_resched_killable()?;
                // A name that is gone by now is as good as hidden.
                let found = directory.inode().lookup(directory, &entry.name);
                entry.is_whiteout = match found {
                    Ok(found) => node.fs.is_whiteout(&found),
                    Err(error) => error == Errno::ENOENT,
                };
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &[u8], kind: Kind, inode: u64, layer: usize) -> Result<()> {
        let at = match self.places.get(name) {
            Some(&at) => at,
            None => {
                let name = try_bytes(name)?;
                self.entries.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.places.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.places.insert(name.clone(), self.entries.len());
                self.entries.push(Entry {
                    name,
                    kind,
                    inode,
                    layer,
                    is_whiteout: false,
                });
                self.entries.len() - 1
            }
        };
        let order = self.order.last_mut().ok_or(Errno::EIO)?;
        order.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        order.push(at);
        Ok(())
    }

    /// The entries that there are, each where the lowest layer has it that has it.
    fn sort(self) -> Result<Listing> {
        let count = self.entries.len();
        let mut unsorted: Vec<Option<Entry>> = Vec::new();
        unsorted
            .try_reserve_exact(count)
            .map_err(|_| Errno::ENOMEM)?;
        for entry in self.entries {
            unsorted.push((!entry.is_whiteout).then_some(entry));
            cond_resched_killable()?;
        }
        let mut entries = Vec::new();
        entries
            .try_reserve_exact(count)
            .map_err(|_| Errno::ENOMEM)?;
        // The first time that a name comes is that of the lowest layer that has it.
        for order in self.order.iter().rev() {
            for &at in order {
                entries.extend(unsorted[at].take());
                cond_resched_killable()?;
            }
        }
        Ok(Listing { entries })
    }
}
