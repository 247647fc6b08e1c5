//! Open files in flight from one process to another (SCM_RIGHTS).
//!
//! A file in flight may be a socket in which further files wait, so releasing one must not recurse
//! along such a chain. Released files therefore go on a list of the thread that releases them,
//! which the thread empties before it continues.

use super::channel::Channel;
use super::unix::inflight;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::hash::{self, HashMap};
use crate::mm::heap::try_box;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use crate::task::{can, current, rlimit};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::{CAP_SYS_ADMIN, CAP_SYS_RESOURCE, RLIMIT_NOFILE};

/// The maximum number of files in one message (`SCM_MAX_FD`).
pub const MAX_FILES: usize = 253;

/// The number of files that each user has in flight.
static COUNTS: Mutex<HashMap<u32, usize>> = Mutex::new(hash::new());

struct Batch {
    files: Vec<Arc<File>>,
    /// The user to which the files are charged; `None` for copies of a peek.
    user: Option<u32>,
    /// The number of the socket in which they wait, if there are Unix sockets among them.
    holder: Option<u64>,
    next: Option<Box<Batch>>,
}

/// The files of one message.
pub struct Rights(Option<Box<Batch>>);

/// The files that a thread has released, and whether it is dropping them.
#[derive(Default)]
pub struct Discarded {
    first: Option<Box<Batch>>,
    busy: bool,
}

impl Rights {
    /// Charges files that are in flight from now on. ETOOMANYREFS if the user then has more in
    /// flight than a process may have open.
    pub fn new(files: Vec<Arc<File>>) -> Result<Self> {
        let user = current().with_credentials(|who| who.uid);
        let mut rights = Self::of(files)?;
        inflight::await_room(rights.files(), sent(user))?;
        // Some may be garbage, which is otherwise not collected until a socket is closed.
        count(user, rights.files().len()).inspect_err(|_| inflight::collect())?;
        if let Some(batch) = &mut rights.0 {
            batch.user = Some(user);
        }
        Ok(rights)
    }

    fn of(files: Vec<Arc<File>>) -> Result<Self> {
        Ok(Rights(Some(try_box(Batch {
            files,
            user: None,
            holder: None,
            next: None,
        })?)))
    }

    /// Enters the files into `channel`.
    pub fn enter(&mut self, channel: &Channel) -> Result<()> {
        if let Some(batch) = &mut self.0
            && inflight::enter(&batch.files, channel)?
        {
            batch.holder = Some(channel.owner());
        }
        Ok(())
    }

    /// A copy of the files, for MSG_PEEK.
    pub fn copy(&self) -> Result<Self> {
        Self::of(inflight::copy(self.files())?)
    }

    /// The files.
    pub fn files(&self) -> &[Arc<File>] {
        self.0.as_ref().map_or(&[], |batch| &batch.files)
    }
}

/// The number of files that a user has in flight.
fn sent(user: u32) -> usize {
    COUNTS.lock().get(&user).copied().unwrap_or(0)
}

/// Counts `more` files of a user.
fn count(user: u32, more: usize) -> Result<()> {
    let most = rlimit(RLIMIT_NOFILE);
    let may = can(CAP_SYS_RESOURCE) || can(CAP_SYS_ADMIN);
    let mut counts = COUNTS.lock();
    counts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let known = counts.get(&user).copied().unwrap_or(0);
    if known > most && !may {
        return Err(Errno::ETOOMANYREFS);
    }
    counts.insert(user, known + more);
    Ok(())
}

/// Counts `fewer` files of a user.
fn uncount(user: u32, fewer: usize) {
    let mut counts = COUNTS.lock();
    if let Some(count) = counts.get_mut(&user) {
        *count -= fewer;
        if *count == 0 {
            counts.remove(&user);
        }
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        let Some(mut batch) = self.0.take() else {
            return;
        };
        if let Some(user) = batch.user {
            uncount(user, batch.files.len());
        }
        if let Some(holder) = batch.holder {
            inflight::leave(&batch.files, holder);
        }
        let thread = current();
        let mut discarded = thread.discarded.lock();
        batch.next = discarded.first.take();
        discarded.first = Some(batch);
        if core::mem::replace(&mut discarded.busy, true) {
            return;
        }
        while let Some(mut batch) = discarded.first.take() {
            discarded.first = batch.next.take();
            drop(discarded);
            for file in batch.files.drain(..) {
                drop(file);
                cond_resched();
            }
            discarded = thread.discarded.lock();
        }
        discarded.busy = false;
    }
}
