//! The spin lock.

use core::ops::{Deref, DerefMut};

use super::lockdep::{Class, Held};
use crate::arch::spin::{SpinMutex, SpinMutexGuard};

/// A spin lock: never held across a sleep, a context switch or the return to a program. Builds with
/// debug assertions check that, and the order in which locks are taken
/// ([`lockdep`](super::lockdep)).
pub struct Mutex<T: ?Sized> {
    class: Class,
    inner: SpinMutex<T>,
}

/// Holds the lock until dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    inner: SpinMutexGuard<'a, T>,
    _held: Held,
}

impl<T> Mutex<T> {
    /// Creates an unlocked lock, whose class is the caller's line.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Mutex {
            class: Class::of_caller(),
            inner: SpinMutex::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, spinning until it is free.
    ///
    /// # Panics
    /// If this CPU holds it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let _held = self.class.spin();
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
            _held: self.class.tried(),
        })
    }

    /// Whether this CPU is known to hold the lock.
    pub fn is_own(&self) -> bool {
        self.inner.is_own()
    }

    /// The value, through an exclusive reference to the lock.
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
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}
