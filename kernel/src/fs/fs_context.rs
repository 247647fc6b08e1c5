//! A process's view of the file tree: its root, its current directory and its umask.

use super::path::Path;
use crate::errno::{Errno, Result};
use crate::mm::heap::{Room, try_arc};
use crate::sync::Mutex;
use crate::task::Thread;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::*};

struct Places {
    root: Path,
    directory: Path,
}

struct State {
    /// Shared with a forked child until one of them changes it.
    places: Arc<Places>,
    /// The number of threads that share the context.
    users: usize,
    /// Whether one of them is in execve(2), so that no other may start to share the context
    /// (Linux's `in_exec`).
    executing: bool,
}

/// The root, directory and umask of a process, or of several that share them.
pub struct FsContext {
    state: Mutex<State>,
    umask: AtomicU32,
}

impl FsContext {
    fn with(places: Arc<Places>, umask: u32) -> Result<FsShare> {
        let context = FsContext {
            state: Mutex::new(State {
                places,
                users: 1,
                executing: false,
            }),
            umask: AtomicU32::new(umask),
        };
        Ok(FsShare(try_arc(context)?))
    }

    /// A copy for fork.
    pub fn fork(&self) -> Result<FsShare> {
        let places = self.state.lock().places.clone();
        Self::with(places, self.umask())
    }

    /// Whether several threads share it.
    pub fn is_shared(&self) -> bool {
        self.state.lock().users > 1
    }

    /// The root.
    pub fn root(&self) -> Path {
        self.state.lock().places.root.clone()
    }

    /// The current directory.
    pub fn directory(&self) -> Path {
        self.state.lock().places.directory.clone()
    }

    /// Whether `path` is the root, at which `..` ends.
    pub fn is_root(&self, path: &Path) -> bool {
        self.state.lock().places.root.is(path)
    }

    /// Changes the root.
    pub fn set_root(&self, root: Path) -> Result<()> {
        self.change(|places| Places {
            root,
            directory: places.directory.clone(),
        })
    }

    /// Changes the current directory.
    pub fn set_directory(&self, directory: Path) -> Result<()> {
        self.change(|places| Places {
            root: places.root.clone(),
            directory,
        })
    }

    /// Changes the root or the directory, while another thread may change the other.
    fn change(&self, changed: impl FnOnce(&Places) -> Places) -> Result<()> {
        let room = Room::new()?;
        let mut state = self.state.lock();
        let places = room.fill(changed(&state.places));
        let old = core::mem::replace(&mut state.places, places);
        drop(state);
        drop(old);
        Ok(())
    }

    /// The umask: permissions that new files do not get.
    pub fn umask(&self) -> u32 {
        self.umask.load(Relaxed)
    }

    /// Changes the umask and returns the old one.
    pub fn set_umask(&self, umask: u32) -> u32 {
        self.umask.swap(umask & 0o777, Relaxed)
    }
}

/// A thread's reference to a context, which other threads may share.
pub struct FsShare(Arc<FsContext>);

impl FsShare {
    /// A context whose directory is the root `root`.
    pub fn new(root: Path) -> Result<Self> {
        let directory = root.clone();
        FsContext::with(try_arc(Places { root, directory })?, 0o022)
    }

    /// The context.
    pub fn context(&self) -> &Arc<FsContext> {
        &self.0
    }

    /// Shares the context with another thread (CLONE_FS).
    ///
    /// # Errors
    /// EAGAIN: a thread that shares it is in exec.
    pub fn share(&self) -> Result<Self> {
        let mut state = self.0.state.lock();
        if state.executing {
            return Err(Errno::EAGAIN);
        }
        state.users += 1;
        Ok(FsShare(self.0.clone()))
    }
}

impl Drop for FsShare {
    fn drop(&mut self) {
        self.0.state.lock().users -= 1;
    }
}

/// As long as this lives, a context that only one process has cannot be shared with others.
pub struct Executing(Arc<FsContext>);

impl Executing {
    /// Marks the context of `thread`, which is in exec; `None` if another process shares it.
    pub fn begin(thread: &Thread) -> Option<Self> {
        let executing = Executing(thread.fs());
        let mut users = executing.count_users();
        loop {
            let has_it = |other: &&Arc<Thread>| other.has_fs(&executing.0);
            let own = thread.process().threads().iter().filter(has_it).count();
            if users <= own {
                return Some(executing);
            }
            // A user may have ended in between, but none can be added.
            let before = core::mem::replace(&mut users, executing.count_users());
            if users == before {
                return None;
            }
        }
    }

    /// The number of threads that share it, which cannot increase from now on.
    fn count_users(&self) -> usize {
        let mut state = self.0.state.lock();
        state.executing = true;
        state.users
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.0.state.lock().executing = false;
    }
}
