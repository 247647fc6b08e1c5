//! The spin lock.

use core::ops::{Deref, DerefMut};

use super::order::{Held, Rank};
use crate::arch::lock::Word;

/// A spin lock: never held across a sleep, a switch of threads or the return to a program. Locks with a rank are taken in
/// ascending order, which debug builds check.
pub struct Mutex<T: ?Sized> {
    rank: Rank,
    inner: lock_api::Mutex<Word, T>,
}

/// The lock is held while this lives.
pub struct MutexGuard<'a, T: ?Sized> {
    inner: lock_api::MutexGuard<'a, Word, T>,
    _held: Held,
}

impl<T> Mutex<T> {
    /// A free lock that may be taken in any order.
    pub const fn new(value: T) -> Self {
        Self::ranked(Rank::Any, value)
    }

    /// A free lock with a place in the order.
    pub const fn ranked(rank: Rank, value: T) -> Self {
        Mutex {
            rank,
            inner: lock_api::Mutex::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, spinning until it is free.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let _held = Held::before(self.rank);
        MutexGuard {
            inner: self.inner.lock(),
            _held,
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        Some(MutexGuard {
            inner,
            _held: Held::new(self.rank),
        })
    }

    /// The value, by the only reference to the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
