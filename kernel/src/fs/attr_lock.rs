//! One change of an inode's attributes at a time: who may make it, and what else changes with it,
//! depends on the owner and the mode that it finds (Linux's inode_lock in chmod_common,
//! chown_common and their like).
//!
//! A write takes set-id bits and capabilities away without this lock: a file system does that
//! under its own lock, by what it finds there.

use alloc::sync::Arc;

use super::inode::{Inode, Key};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::wait_queue::WaitQueue;

/// The inodes whose attributes are being changed: few, and none of them stops another, though a
/// change may take long (of a file in an overlay, or on a server).
static CHANGED: Mutex<HashMap<Key, Arc<Turn>>> = Mutex::new(hash::new());

/// Whose turn it is to change an inode.
struct Turn {
    taken: Mutex<bool>,
    over: WaitQueue,
}

/// A place among those who change an inode, or wait for it.
struct Waiting {
    key: Key,
    turn: Arc<Turn>,
}

/// While it lives, no other thread changes the inode's attributes.
pub struct AttrLock(Waiting);

impl Waiting {
    fn new(key: Key) -> Result<Self> {
        let new = try_arc(Turn {
            taken: Mutex::new(false),
            over: WaitQueue::new(),
        })?;
        let mut changed = CHANGED.lock();
        let turn = match changed.get(&key) {
            Some(turn) => turn.clone(),
            None => {
                changed.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                changed.insert(key, new.clone());
                new
            }
        };
        Ok(Waiting { key, turn })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut changed = CHANGED.lock();
        // The table's own, and this one.
        if Arc::strong_count(&self.turn) == 2 {
            changed.remove(&self.key);
        }
    }
}

impl Drop for AttrLock {
    fn drop(&mut self) {
        let turn = &self.0.turn;
        *turn.taken.lock() = false;
        turn.over.wake_one();
    }
}

/// Waits until no other thread changes the attributes of `inode`, and lets none do it while the
/// result lives. A thread has one of them at a time.
///
/// # Errors
/// ENOMEM; EINTR: a signal kills the process.
pub fn lock(inode: &dyn Inode) -> Result<AttrLock> {
    let waiting = Waiting::new(inode.key())?;
    let turn = &waiting.turn;
    let is_free = || !core::mem::replace(&mut *turn.taken.lock(), true);
    if turn.over.wait_killable(is_free).is_err() {
        // It may have been told that the turn is its own.
        turn.over.wake_one();
        return Err(Errno::EINTR);
    }
    Ok(AttrLock(waiting))
}
