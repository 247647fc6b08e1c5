//! Advisory locks: flock(2), and fcntl(2)'s record locks of a process or of an open file.

mod context;
mod list;
mod waiting;

use super::file::File;
use super::inode::Key;
use crate::errno::{Errno, Result};
use context::Context;

pub use list::open as open_list;

/// The owner of a lock. Locks of flock and of fcntl do not conflict with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// flock: an open file, by its address.
    Flock(usize),
    /// fcntl: an open file (`F_OFD_`), by its address.
    OpenFile(usize),
    /// fcntl: a process, by the address of its descriptor table.
    Process(usize),
}

impl Owner {
    /// flock's owner.
    pub fn flock(file: &File) -> Self {
        Owner::Flock(file.address())
    }

    /// The owner of `F_OFD_` locks.
    pub fn open_file(file: &File) -> Self {
        Owner::OpenFile(file.address())
    }

    /// A lock on all bytes, with this owner.
    fn everything(self) -> Lock {
        Lock {
            owner: self,
            process: 0,
            exclusive: false,
            first: 0,
            last: u64::MAX,
        }
    }
}

/// A lock on some bytes.
pub type Lock = locks::Lock<Owner>;

fn key(file: &File) -> Key {
    file.dentry().inode().key()
}

/// The first lock that conflicts with `wanted`.
pub fn conflict(file: &File, wanted: &Lock) -> Option<Lock> {
    Context::find(key(file))?.conflict(wanted)
}

/// The first lock that the owner of `range` holds in it.
pub fn own(file: &File, range: &Lock) -> Option<Lock> {
    Context::find(key(file))?.own(range)
}

/// Takes `wanted`; if it conflicts, waits for the others or returns EAGAIN.
pub fn acquire(file: &File, wanted: Lock, wait: bool) -> Result<()> {
    let context = Context::get(file.dentry().inode())?;
    while context.take(wanted)?.is_some() {
        if !wait {
            return Err(Errno::EAGAIN);
        }
        waiting::wait(&context, wanted)?;
    }
    Ok(())
}

/// Releases the range of `lock`.
pub fn release(file: &File, lock: &Lock) -> Result<()> {
    match Context::find(key(file)) {
        Some(context) => context.release(lock),
        None => Ok(()),
    }
}

/// Releases the locks of an open file when its last descriptor is closed.
pub fn release_file(file: &File) {
    if context::any() {
        release_found(file, &[Owner::flock(file), Owner::open_file(file)]);
    }
}

/// Releases the locks of a process (identified by its descriptor table) that closed a descriptor of
/// the file.
pub fn release_process(file: &File, descriptors: usize) {
    if context::any() {
        release_found(file, &[Owner::Process(descriptors)]);
    }
}

#[cold]
#[inline(never)]
fn release_found(file: &File, owners: &[Owner]) {
    if let Some(context) = Context::find(key(file)) {
        for owner in owners {
            context.release_all(*owner);
        }
    }
}

/// The memory of the locks that a process (identified by its descriptor table) has through an open
/// file. Called when memory is short.
pub fn memory(file: &File, descriptors: usize) -> usize {
    if !context::any() {
        return 0;
    }
    let owners = [
        Owner::flock(file),
        Owner::open_file(file),
        Owner::Process(descriptors),
    ];
    Context::find(key(file)).map_or(0, |context| context.memory(owners))
}
