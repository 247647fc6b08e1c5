//! One change of an inode's attributes at a time: who may make it, and what else changes with it,
//! depends on the owner and the mode that it finds (Linux's inode_lock in chmod_common,
//! chown_common and their like).
//!
//! A write takes set-id bits and capabilities away without this lock: a file system does that
//! under its own lock, by what it finds there.

use super::inode::Inode;
use crate::errno::Result;
use crate::task::sleep_mutex::{SleepMutex, SleepMutexGuard};

/// The number of locks that all inodes share: changes are rare and short.
const COUNT: usize = 64;

/// The locks, by the inode's number.
static LOCKS: [SleepMutex<()>; COUNT] = [const { SleepMutex::new(()) }; COUNT];

/// Waits until no other thread changes the attributes of `inode`, and lets none do it while the
/// guard lives. A thread has one guard at a time.
///
/// # Errors
/// EINTR: a signal kills the process.
pub fn lock(inode: &dyn Inode) -> Result<SleepMutexGuard<'static, ()>> {
    let (_, number) = inode.key();
    LOCKS[number as usize % COUNT].lock_killable()
}
