//! What a process has of the file tree: its root, its directory, its umask.

use super::entry::Entry;
use crate::errno::Result;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::*};

struct Places {
    root: Arc<Entry>,
    directory: Arc<Entry>,
}

/// The root, directory and umask of a process, or of several that share them.
pub struct FsContext {
    places: Mutex<Places>,
    umask: AtomicU32,
}

impl FsContext {
    /// A context whose directory is the root `root`.
    pub fn new(root: Arc<Entry>) -> Result<Arc<Self>> {
        try_arc(FsContext {
            places: Mutex::new(Places {
                directory: root.clone(),
                root,
            }),
            umask: AtomicU32::new(0o022),
        })
    }

    /// A copy, as fork makes it.
    pub fn fork(&self) -> Result<Arc<Self>> {
        let places = self.places.lock();
        let copy = Places {
            root: places.root.clone(),
            directory: places.directory.clone(),
        };
        drop(places);
        try_arc(FsContext {
            places: Mutex::new(copy),
            umask: AtomicU32::new(self.umask()),
        })
    }

    /// The root.
    pub fn root(&self) -> Arc<Entry> {
        self.places.lock().root.clone()
    }

    /// The current directory.
    pub fn directory(&self) -> Arc<Entry> {
        self.places.lock().directory.clone()
    }

    /// True when `entry` is the root: `..` ends there.
    pub fn is_root(&self, entry: &Arc<Entry>) -> bool {
        Arc::ptr_eq(&self.places.lock().root, entry)
    }

    /// Changes the root.
    pub fn set_root(&self, root: Arc<Entry>) {
        let old = core::mem::replace(&mut self.places.lock().root, root);
        drop(old);
    }

    /// Changes the current directory.
    pub fn set_directory(&self, directory: Arc<Entry>) {
        let old = core::mem::replace(&mut self.places.lock().directory, directory);
        drop(old);
    }

    /// Permissions that new files do not get.
    pub fn umask(&self) -> u32 {
        self.umask.load(Relaxed)
    }

    /// Changes the umask and returns the old one.
    pub fn set_umask(&self, umask: u32) -> u32 {
        self.umask.swap(umask & 0o777, Relaxed)
    }
}
