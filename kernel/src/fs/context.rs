//! What a process has of the file tree: its root, its directory, its umask.

use super::entry::Entry;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::Thread;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::*};

struct Places {
    root: Arc<Entry>,
    directory: Arc<Entry>,
    /// Threads that have the context.
    users: usize,
    /// One of them begins a program, whose directory no other is to share.
    executing: bool,
}

/// The root, directory and umask of a process, or of several that share them.
pub struct FsContext {
    places: Mutex<Places>,
    umask: AtomicU32,
}

impl FsContext {
    fn with(root: Arc<Entry>, directory: Arc<Entry>, umask: u32) -> Result<FsShare> {
        let context = FsContext {
            places: Mutex::new(Places {
                root,
                directory,
                users: 1,
                executing: false,
            }),
            umask: AtomicU32::new(umask),
        };
        Ok(FsShare(try_arc(context)?))
    }

    /// A copy, as fork makes it.
    pub fn fork(&self) -> Result<FsShare> {
        let places = self.places.lock();
        let (root, directory) = (places.root.clone(), places.directory.clone());
        drop(places);
        Self::with(root, directory, self.umask())
    }

    /// Whether several threads have it.
    pub fn is_shared(&self) -> bool {
        self.places.lock().users > 1
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

/// What a thread has of a context: others may have it too.
pub struct FsShare(Arc<FsContext>);

impl FsShare {
    /// A context whose directory is the root `root`.
    pub fn new(root: Arc<Entry>) -> Result<Self> {
        FsContext::with(root.clone(), root, 0o022)
    }

    /// The context.
    pub fn context(&self) -> &Arc<FsContext> {
        &self.0
    }

    /// The same for another thread (CLONE_FS).
    ///
    /// # Errors
    /// EAGAIN: a thread that has it begins a program.
    pub fn share(&self) -> Result<Self> {
        let mut places = self.0.places.lock();
        if places.executing {
            return Err(Errno::EAGAIN);
        }
        places.users += 1;
        Ok(FsShare(self.0.clone()))
    }
}

impl Drop for FsShare {
    fn drop(&mut self) {
        self.0.places.lock().users -= 1;
    }
}

/// While this lives, a context that one process alone has is not shared with others.
pub struct Executing(Arc<FsContext>);

impl Executing {
    /// Of the context of `thread`, which begins a program; none if another process has it too.
    pub fn begin(thread: &Thread) -> Option<Self> {
        let context = thread.fs();
        let mut places = context.places.lock();
        places.executing = true;
        let users = places.users;
        drop(places);
        let is_same = |other: &Arc<FsContext>| Arc::ptr_eq(other, &context);
        let has_it = |other: &&Arc<Thread>| other.try_fs().as_ref().is_some_and(is_same);
        let own = thread.process().threads().iter().filter(has_it).count();
        let executing = Executing(context);
        (users <= own).then_some(executing)
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.0.places.lock().executing = false;
    }
}
