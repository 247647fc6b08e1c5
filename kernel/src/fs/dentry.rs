//! Dentries: names in directories (Linux's dentries).
//!
//! A file system returns them from `lookup` and keeps them as it likes: tmpfs stores them as its
//! directories' content, procfs makes one at each look-up. A dentry knows its directory, so `..`
//! and the path of an open file need no search, and a rename changes them in place. A directory has
//! one dentry, however many mounts show it: see [`super::path::Path`].

use super::inode::{Inode, Kind};
use super::mount::Mount;
use super::path;
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_bytes};
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering::*};

/// Something is mounted here.
const COVERED: u8 = 1;
/// The name was removed.
const REMOVED: u8 = 2;

/// The position of a dentry in the tree.
struct Place {
    name: Arc<[u8]>,
    parent: Option<Arc<Dentry>>,
}

/// A name in a directory, the root of a file system, or the only name of an inode without a
/// directory.
pub struct Dentry {
    inode: Arc<dyn Inode>,
    kind: Kind,
    state: AtomicU8,
    place: Mutex<Place>,
    /// Mounts on this dentry, by the number of the mount in which each is visible, ascending.
    mounted: Mutex<Vec<(u32, Arc<Mount>)>>,
}

impl Dentry {
    /// The dentry of `inode` in directory `parent`, or the root of a file system (no parent, no
    /// name), or an inode in no directory (no parent, and a name to show).
    pub fn new(
        inode: Arc<dyn Inode>,
        parent: Option<Arc<Dentry>>,
        name: Arc<[u8]>,
    ) -> Result<Arc<Self>> {
        try_arc(Dentry {
            kind: inode.kind(),
            inode,
            state: AtomicU8::new(0),
            place: Mutex::new(Place { name, parent }),
            mounted: Mutex::new(Vec::new()),
        })
    }

    /// A dentry with a copy of `name`.
    pub fn named(
        inode: Arc<dyn Inode>,
        parent: Option<Arc<Dentry>>,
        name: &[u8],
    ) -> Result<Arc<Self>> {
        Self::new(inode, parent, try_bytes(name)?)
    }

    /// The inode.
    pub fn inode(&self) -> &Arc<dyn Inode> {
        &self.inode
    }

    /// The inode's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its directory; `None` for a file system's root.
    pub fn parent(&self) -> Option<Arc<Dentry>> {
        self.place.lock().parent.clone()
    }

    /// The last component of its path.
    pub fn name(&self) -> Arc<[u8]> {
        self.place.lock().name.clone()
    }

    /// Changes its name or directory.
    pub fn moved(&self, parent: &Arc<Dentry>, name: Arc<[u8]>) {
        path::tree_changes();
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

    /// Sets `mark`, or fails with `error` if `other` is set, since the two exclude each other.
    fn mark(&self, mark: u8, other: u8, error: Errno) -> Result<()> {
        let change = |state: u8| (state & other == 0).then_some(state | mark);
        let done = self.state.fetch_update(AcqRel, Acquire, change);
        done.map(|_| ()).map_err(|_| error)
    }

    /// Whether this dentry is `directory`, or below it in the same file system. Reschedules, since
    /// programs choose the depth.
    pub fn is_within(self: &Arc<Self>, directory: &Arc<Dentry>) -> bool {
        let mut here = Some(self.clone());
        while let Some(dentry) = here {
            if Arc::ptr_eq(&dentry, directory) {
                return true;
            }
            here = dentry.parent();
            cond_resched();
        }
        false
    }

    /// Whether the name was removed.
    pub fn is_removed(&self) -> bool {
        self.state.load(Relaxed) & REMOVED != 0
    }

    /// Whether something is mounted on it, in any mount.
    #[inline]
    pub fn is_covered(&self) -> bool {
        self.state.load(Acquire) & COVERED != 0
    }

    /// The mount on it that is visible in mount `id`.
    pub fn mounted_on(&self, id: u32) -> Option<Arc<Mount>> {
        let mounted = self.mounted.lock();
        let at = mounted.binary_search_by_key(&id, |(above, _)| *above);
        Some(mounted[at.ok()?].1.clone())
    }

    /// Mounts `mount` on it, visible in mount `id`, if nothing is mounted there yet; ENOENT if the
    /// name was removed.
    pub fn mount(&self, id: u32, mount: Arc<Mount>) -> Result<()> {
        let mut mounted = self.mounted.lock();
        mounted.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.mark(COVERED, REMOVED, Errno::ENOENT)?;
        let at = mounted.partition_point(|(above, _)| *above < id);
        mounted.insert(at, (id, mount));
        Ok(())
    }

    /// Removes the mount on it that is visible in mount `id`.
    pub fn unmount(&self, id: u32) {
        let mut mounted = self.mounted.lock();
        let at = mounted.binary_search_by_key(&id, |(above, _)| *above);
        let gone = at.ok().map(|at| mounted.remove(at));
        if mounted.is_empty() {
            self.state.fetch_and(!COVERED, Release);
        }
        drop(mounted);
        drop(gone);
    }
}

impl Drop for Dentry {
    /// Drops the ancestors that are no longer referenced in a loop: there may be as many removed
    /// ones as a program likes. May sleep.
    fn drop(&mut self) {
        let mut above = self.place.get_mut().parent.take();
        while let Some(mut dentry) = above.and_then(Arc::into_inner) {
            above = dentry.place.get_mut().parent.take();
            drop(dentry);
            cond_resched();
        }
    }
}
