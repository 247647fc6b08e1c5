//! The resources that a thread may share with others: memory, descriptors, root and directory, and
//! semaphore adjustments (SEM_UNDO).

use super::Thread;
use crate::errno::Result;
use crate::fs::file::File;
use crate::fs::fs_context::FsShare;
use crate::fs::{FdShare, FdTable, FsContext};
use crate::ipc::sysv_sem::{self, UndoList};
use crate::mm::heap::try_arc;
use crate::mm::{AddressSpace, SpaceUser};
use crate::task::sched;
use alloc::sync::Arc;

/// The resources that a thread may share with others.
#[derive(Default)]
pub struct Resources {
    /// Memory.
    pub space: Option<SpaceUser>,
    /// Descriptors.
    pub files: Option<FdShare>,
    /// Root, directory, umask.
    pub fs: Option<FsShare>,
    /// Semaphore adjustments, which are applied when the last user ends.
    pub undo_list: Option<Arc<UndoList>>,
}

impl Thread {
    /// The address space; `None` for kernel threads and ended ones.
    #[inline]
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        let resources = self.resources.lock();
        resources.space.as_ref().map(|space| Arc::clone(space))
    }

    /// Whether the thread has an address space: kernel threads and ended threads have none.
    pub fn has_space(&self) -> bool {
        self.resources.lock().space.is_some()
    }

    /// A share of the address space for another thread (CLONE_VM).
    pub(in crate::task) fn share_space(&self) -> Option<SpaceUser> {
        let resources = self.resources.lock();
        resources.space.as_ref().map(SpaceUser::share)
    }

    /// The descriptors.
    ///
    /// # Panics
    /// If the thread is the kernel's own or has ended.
    #[inline]
    pub fn files(&self) -> Arc<FdTable> {
        self.try_files().expect("a thread with a program")
    }

    /// The descriptors, unless it has ended.
    #[inline]
    pub fn try_files(&self) -> Option<Arc<FdTable>> {
        let resources = self.resources.lock();
        resources.files.as_ref().map(|share| share.table().clone())
    }

    /// A share of the descriptors for another thread (CLONE_FILES).
    pub(in crate::task) fn share_files(&self) -> Option<FdShare> {
        self.resources.lock().files.as_ref().map(FdShare::share)
    }

    /// The file of a descriptor.
    ///
    /// # Panics
    /// As [`Thread::files`].
    #[inline]
    pub fn file(&self, fd: i32) -> Result<Arc<File>> {
        let resources = self.resources.lock();
        let files = resources.files.as_ref();
        files.expect("a thread with a program").table().get(fd)
    }

    /// Root, directory and umask.
    ///
    /// # Panics
    /// As [`Thread::files`].
    #[inline]
    pub fn fs(&self) -> Arc<FsContext> {
        self.try_fs().expect("a thread with a program")
    }

    /// Root, directory and umask, unless it has ended.
    #[inline]
    pub fn try_fs(&self) -> Option<Arc<FsContext>> {
        let resources = self.resources.lock();
        resources.fs.as_ref().map(|share| share.context().clone())
    }

    /// Whether the thread has exactly this root, directory and umask.
    pub fn has_fs(&self, context: &Arc<FsContext>) -> bool {
        let resources = self.resources.lock();
        let share = resources.fs.as_ref();
        share.is_some_and(|share| Arc::ptr_eq(share.context(), context))
    }

    /// A share of root, directory and umask for another thread (CLONE_FS).
    ///
    /// # Errors
    /// EAGAIN: a thread that shares them is in exec.
    pub(in crate::task) fn share_fs(&self) -> Result<Option<FsShare>> {
        let resources = self.resources.lock();
        resources.fs.as_ref().map(FsShare::share).transpose()
    }

    /// Gives the current thread descriptors of its own, if it shares them.
    pub fn unshare_files(&self) -> Result<()> {
        let shared = |files: &FdShare| files.is_shared();
        if self.resources.lock().files.as_ref().is_some_and(shared) {
            let own = self.files().fork()?;
            let old = self.resources.lock().files.replace(own);
            drop(old);
        }
        Ok(())
    }

    /// Gives the current thread a root, directory and umask of its own, if it shares them.
    pub fn unshare_fs(&self) -> Result<()> {
        let fs = self.fs();
        if fs.is_shared() {
            let own = fs.fork()?;
            let old = self.resources.lock().fs.replace(own);
            drop(old);
        }
        Ok(())
    }

    /// The semaphore adjustments that are applied when the current thread, and the threads that
    /// share the list, have ended.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn undo_list(&self) -> Result<Arc<UndoList>> {
        if let Some(list) = &self.resources.lock().undo_list {
            return Ok(list.clone());
        }
        let list = try_arc(UndoList::new())?;
        self.resources.lock().undo_list = Some(list.clone());
        Ok(list)
    }

    /// The address of that list for kcmp(2); 0 for none. The caller gets no reference.
    pub fn undo_address(&self) -> usize {
        let resources = self.resources.lock();
        let list = resources.undo_list.as_ref();
        list.map_or(0, |list| Arc::as_ptr(list).addr())
    }

    /// Applies now the semaphore adjustments of the end of the current thread.
    pub fn unshare_semaphores(&self) {
        let list = self.resources.lock().undo_list.take();
        if let Some(list) = list {
            sysv_sem::leave(list);
        }
    }

    /// Gives the current thread another address space; returns the old one, which is no longer
    /// active.
    pub(in crate::task) fn replace_space(&self, space: Option<SpaceUser>) -> Option<SpaceUser> {
        self.sched.set_space(address_of(&space));
        let old = core::mem::replace(&mut self.resources.lock().space, space);
        sched::reload_space();
        old
    }

    /// Drops semaphore adjustments, descriptors, root and directory.
    pub(in crate::task) fn drop_files(&self) {
        let mut resources = self.resources.lock();
        let undo_list = resources.undo_list.take();
        let files = resources.files.take();
        let fs = resources.fs.as_ref().map(|share| share.context().clone());
        // Another thread finds either that this one has the context, or that the context has one
        // user less. The context itself is dropped later.
        drop(resources.fs.take());
        drop(resources);
        if let Some(list) = undo_list {
            sysv_sem::leave(list);
        }
        drop((files, fs));
    }
}

/// The address by which the scheduler identifies a space; 0 for none.
pub(super) fn address_of(space: &Option<SpaceUser>) -> usize {
    space.as_ref().map_or(0, |space| Arc::as_ptr(space).addr())
}
