//! Entries: names in directories (Linux's dentries).
//!
//! A file system hands them out in `lookup` and keeps them as it likes: tmpfs has them for its directories'
//! content, procfs makes one at each look-up. An entry knows its directory, so that `..` and the path of
//! an open file need no search, and a rename changes them in place.

use super::inode::{Inode, Kind};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering::*};

/// A file system is mounted here.
const COVERED: u8 = 1;
/// The name was removed.
const REMOVED: u8 = 2;

/// Where an entry is.
struct Place {
    name: Arc<[u8]>,
    parent: Option<Arc<Entry>>,
}

/// A name in a directory, the root of a file system, or the only name of an inode without a directory.
pub struct Entry {
    inode: Arc<dyn Inode>,
    kind: Kind,
    state: AtomicU8,
    place: Mutex<Place>,
    /// The root of the file system that is mounted here.
    mounted: Mutex<Option<Arc<Entry>>>,
}

impl Entry {
    /// The entry of `inode` in directory `parent`, or the root of a file system (no parent, no name), or
    /// an inode in no directory (no parent, and a name to show).
    pub fn new(
        inode: Arc<dyn Inode>,
        parent: Option<Arc<Entry>>,
        name: Arc<[u8]>,
    ) -> Result<Arc<Self>> {
        try_arc(Entry {
            kind: inode.kind(),
            inode,
            state: AtomicU8::new(0),
            place: Mutex::new(Place { name, parent }),
            mounted: Mutex::new(None),
        })
    }

    /// The inode.
    pub fn inode(&self) -> &Arc<dyn Inode> {
        &self.inode
    }

    /// What the inode is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The directory it is in; a file system's root is in the directory that it covers.
    pub fn parent(&self) -> Option<Arc<Entry>> {
        self.place.lock().parent.clone()
    }

    /// The last part of its path.
    pub fn name(&self) -> Arc<[u8]> {
        self.place.lock().name.clone()
    }

    /// Gives it another name or directory.
    pub fn moved(&self, parent: &Arc<Entry>, name: Arc<[u8]>) {
        let place = Place {
            name,
            parent: Some(parent.clone()),
        };
        let old = core::mem::replace(&mut *self.place.lock(), place);
        drop(old);
    }

    /// Marks the name as removed; EBUSY while something is mounted here.
    pub fn remove(&self) -> Result<()> {
        self.mark(REMOVED, COVERED, Errno::EBUSY)
    }

    /// Sets `mark`, or fails with `error` where `other` is set: of both there is one at most.
    fn mark(&self, mark: u8, other: u8, error: Errno) -> Result<()> {
        let change = |state: u8| (state & other == 0).then_some(state | mark);
        let done = self.state.fetch_update(AcqRel, Acquire, change);
        done.map(|_| ()).map_err(|_| error)
    }

    /// Whether it is `directory`, or below it in the same file system.
    pub fn is_within(self: &Arc<Self>, directory: &Arc<Entry>) -> bool {
        let mut here = Some(self.clone());
        while let Some(entry) = here {
            if Arc::ptr_eq(&entry, directory) {
                return true;
            }
            here = entry.parent();
        }
        false
    }

    /// True when the name was removed while somebody held it.
    pub fn is_removed(&self) -> bool {
        self.state.load(Relaxed) & REMOVED != 0
    }

    /// The entry that a walk which comes here goes on with: the root of what is mounted here, or itself.
    pub fn covering(self: Arc<Self>) -> Arc<Self> {
        let mut entry = self;
        while entry.state.load(Acquire) & COVERED != 0 {
            let Some(root) = entry.mounted.lock().clone() else {
                break;
            };
            entry = root;
        }
        entry
    }

    /// True when a file system is mounted here.
    pub fn is_covered(&self) -> bool {
        self.state.load(Acquire) & COVERED != 0
    }

    /// Mounts the file system whose root is `root` here, or ends that; returns what was mounted.
    pub fn cover(self: &Arc<Self>, root: Option<Arc<Entry>>) -> Result<()> {
        let mut mounted = self.mounted.lock();
        match &root {
            Some(root) => {
                self.mark(COVERED, REMOVED, Errno::ENOENT)?;
                root.moved(self, self.name());
            }
            None => _ = self.state.fetch_and(!COVERED, Release),
        }
        let old = core::mem::replace(&mut *mounted, root);
        drop(mounted);
        drop(old);
        Ok(())
    }

    /// True when the entry, in whatever directory, is a file system's root.
    pub fn is_root_of_fs(self: &Arc<Self>) -> bool {
        match self.parent() {
            None => true,
            Some(parent) => parent
                .mounted
                .lock()
                .as_ref()
                .is_some_and(|root| Arc::ptr_eq(root, self)),
        }
    }

    /// The directory of `..`, mounts considered.
    pub fn above(self: &Arc<Self>) -> Arc<Self> {
        let Some(mut parent) = self.parent() else {
            return self.clone();
        };
        let mut here = self.clone();
        // The entry that a file system's root covers counts as the root itself.
        while parent
            .mounted
            .lock()
            .as_ref()
            .is_some_and(|root| Arc::ptr_eq(root, &here))
        {
            here = parent;
            match here.parent() {
                Some(above) => parent = above,
                None => return here,
            }
        }
        parent
    }

    /// Whether `..` leads from here to `root`, or this is it.
    pub fn is_below(self: &Arc<Self>, root: &Arc<Entry>) -> bool {
        let mut here = self.clone();
        while !Arc::ptr_eq(&here, root) {
            let above = here.above();
            if Arc::ptr_eq(&above, &here) {
                return false;
            }
            here = above;
        }
        true
    }

    /// The path from `root` on. An entry that `root` does not contain gets its path from the top of its own
    /// file system, one in no directory just its name; a removed one is marked as on Linux.
    pub fn path(self: &Arc<Self>, root: &Arc<Entry>) -> Vec<u8> {
        let mut path = Vec::new();
        let mut here = self.clone();
        while !Arc::ptr_eq(&here, root) {
            let above = here.above();
            if Arc::ptr_eq(&above, &here) {
                break;
            }
            // A covered entry has the same name as the root that covers it.
            let name = here.name();
            path.extend(name.iter().rev());
            path.push(b'/');
            here = above;
        }
        if path.is_empty() {
            match &*self.name() {
                _ if Arc::ptr_eq(self, root) => path.push(b'/'),
                b"" => path.push(b'/'),
                name => path.extend(name.iter().rev()),
            }
        }
        path.reverse();
        if self.is_removed() {
            path.extend(b" (deleted)");
        }
        path
    }
}

impl Drop for Entry {
    /// Drops the directories above that nobody else holds, one after the other: removed ones, as many as a program likes.
    fn drop(&mut self) {
        let mut above = self.place.get_mut().parent.take();
        while let Some(mut entry) = above.and_then(Arc::into_inner) {
            above = entry.place.get_mut().parent.take();
        }
    }
}
