//! The word of a lock that names its holder: a thread that waits for a lock that it holds itself is
//! detected, and taking a free lock is one exchange, as without a name.
//!
//! An exchange that finds the lock held has written a name that is not the holder's. Its thread
//! puts the found name back, as long as the word is still its own name. Meanwhile another thread
//! may have found that name, and may put it back later; the first thread puts the found name back
//! again when it sees its own in the word. No exchange and no restoration is lost: each depends on
//! the word as the previous one left it, and a release is a store of 0, after which none succeeds.
//!
//! So a name that its owner has taken out once comes back for one reason only: it is the holder. A
//! name that its owner tried with, or gave up with, is marked, and no thread puts it back.
#![no_std]
#![forbid(unsafe_code)]

use atomics::{AtomicUsize, Ordering::*, const_fn};

/// In a name: its writer took the lock, or tried to, and does not wait.
const TRIED: usize = 1;
/// In a name: the holder is unknown until the lock is released.
const UNKNOWN: usize = 2;
/// The bits that must be clear in a name.
pub const RESERVED: usize = TRIED | UNKNOWN;

/// A lock's word, which is 0 while the lock is free. A name is a number in which the bits
/// [`RESERVED`] are clear; numbers that differ only below `SIZE`, a power of two, name the same
/// thread.
#[derive(Debug)]
pub struct LockWord<const SIZE: usize>(AtomicUsize);

/// A waiter, which has found the lock held.
#[derive(Debug)]
pub struct Waiter {
    found: usize,
    /// Whether the word no longer contains the name that the waiter wrote.
    put_away: bool,
}

/// What a waiter finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The lock was free, and the waiter has it now.
    Taken,
    /// Another thread holds it.
    Held,
    /// The waiter itself holds it, and would wait forever.
    Own,
}

impl<const SIZE: usize> LockWord<SIZE> {
    const_fn! {
        /// The word of a free lock.
        pub fn new() -> Self {
            LockWord(AtomicUsize::new(0))
        }
    }

    fn names(word: usize, own: usize) -> bool {
        (word ^ own) & !(SIZE - 1) == 0
    }

    /// Takes the lock for `own`.
    ///
    /// # Errors
    /// The lock is held, by `own` or another, and `own` waits: it [looks](Self::look) until it has
    /// the lock, or [gives up](Self::give_up).
    #[inline(always)]
    pub fn take(&self, own: usize) -> Result<(), Waiter> {
        match self.0.swap(own, Acquire) {
            0 => Ok(()),
            found => Err(Waiter {
                found,
                put_away: false,
            }),
        }
    }

    /// Takes the lock for `own` if it is free.
    #[inline(always)]
    pub fn try_take(&self, own: usize) -> bool {
        let found = self.0.swap(own | TRIED, Acquire);
        if found != 0 {
            self.put_back(own | TRIED, found);
        }
        found == 0
    }

    /// Replaces the caller's `name` by the name that it `found`, if the word still is `name`.
    #[cold]
    #[inline(never)]
    fn put_back(&self, name: usize, found: usize) -> bool {
        let back = match found & RESERVED {
            0 => found,
            _ => name & !TRIED | UNKNOWN,
        };
        self.0
            .compare_exchange(name, back, Relaxed, Relaxed)
            .is_ok()
    }

    /// Checks once whether `own`, which waits, can have the lock.
    #[inline]
    pub fn look(&self, own: usize, waiter: &mut Waiter) -> Seen {
        if waiter.found & UNKNOWN == 0 && Self::names(waiter.found, own) {
            return Seen::Own;
        }
        let mut word = self.0.load(Relaxed);
        if word == 0 {
            match self.take(own) {
                Ok(()) => return Seen::Taken,
                Err(again) => *waiter = again,
            }
            word = own;
        }
        if word & UNKNOWN == 0 && Self::names(word, own) {
            if waiter.put_away {
                return Seen::Own;
            }
            waiter.put_away = self.put_back(word, waiter.found);
        }
        Seen::Held
    }

    /// Ends the wait of `own`; true if it has the lock by now.
    pub fn give_up(&self, own: usize, waiter: Waiter) -> bool {
        // Otherwise another thread may still put the name back.
        !waiter.put_away && self.0.swap(own | UNKNOWN, Acquire) == 0
    }

    /// Whether `own`, which does not wait for the lock, is known to hold it.
    pub fn is_held_by(&self, own: usize) -> bool {
        let word = self.0.load(Relaxed);
        word != 0 && word & UNKNOWN == 0 && Self::names(word, own)
    }

    /// Releases the lock.
    #[inline(always)]
    pub fn release(&self) {
        // loom lets a store overwrite earlier exchanges, which the memory model forbids: each
        // exchange is next to the value that it replaced, and so is the store after the first of
        // them.
        #[cfg(loom)]
        self.0.swap(0, Release);
        #[cfg(not(loom))]
        self.0.store(0, Release);
    }
}

impl<const SIZE: usize> Default for LockWord<SIZE> {
    fn default() -> Self {
        Self::new()
    }
}
