//! The lock that may be held across a sleep or an access to a program's memory.

use core::ops::{Deref, DerefMut};

use crate::arch::spin::{SpinMutex, SpinMutexGuard, Waiter};
use crate::errno::{Errno, Result};
use crate::sync::lockdep::{Class, Held};
use crate::task::wait_queue::WaitQueue;

/// A lock whose waiters sleep.
pub struct SleepMutex<T: ?Sized> {
    class: Class,
    waiters: WaitQueue,
    /// No thread spins for it.
    value: SpinMutex<T>,
}

/// Holds the lock while it lives.
pub struct SleepMutexGuard<'a, T: ?Sized> {
    waiters: &'a WaitQueue,
    /// `None` only while it is dropped.
    value: Option<SpinMutexGuard<'a, T>>,
    _held: Held,
}

impl<T> SleepMutex<T> {
    /// A free lock, of the lock class of the caller's line.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        SleepMutex {
            class: Class::of_caller(),
            waiters: WaitQueue::new(),
            value: SpinMutex::new(value),
        }
    }
}

impl<T: ?Sized> SleepMutex<T> {
    /// Takes the lock, sleeping until it is free. Not to be used in a system call if a holder may
    /// access a program's memory: the access may wait for memory, and thus for the end of the
    /// caller's process.
    ///
    /// # Panics
    /// If the thread holds it.
    #[inline]
    pub fn lock(&self) -> SleepMutexGuard<'_, T> {
        let held = self.class.sleep();
        let value = self.value.take().unwrap_or_else(|waiter| self.wait(waiter));
        self.lend(value, held)
    }

    /// The value, by exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Takes the lock, sleeping until it is free.
    ///
    /// # Errors
    /// EINTR: a signal kills the process.
    ///
    /// # Panics
    /// If the thread holds it.
    #[inline]
    pub fn lock_killable(&self) -> Result<SleepMutexGuard<'_, T>> {
        let held = self.class.sleep();
        let value = match self.value.take() {
            Err(waiter) => self.wait_killable(waiter)?,
            Ok(value) => value,
        };
        Ok(self.lend(value, held))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<SleepMutexGuard<'_, T>> {
        let value = self.value.try_lock()?;
        Some(self.lend(value, self.class.slept()))
    }

    #[inline]
    fn lend<'a>(&'a self, value: SpinMutexGuard<'a, T>, held: Held) -> SleepMutexGuard<'a, T> {
        SleepMutexGuard {
            waiters: &self.waiters,
            value: Some(value),
            _held: held,
        }
    }

    #[cold]
    fn wait(&self, mut waiter: Waiter) -> SpinMutexGuard<'_, T> {
        let mut value = None;
        self.waiters.wait(|| {
            value = self.value.take_again(&mut waiter);
            value.is_some()
        });
        value.expect("nothing else ends the wait")
    }

    #[cold]
    fn wait_killable(&self, mut waiter: Waiter) -> Result<SpinMutexGuard<'_, T>> {
        let mut value = None;
        let waited = self.waiters.wait_killable(|| {
            value = self.value.take_again(&mut waiter);
            value.is_some()
        });
        if waited.is_err() {
            value = self.value.give_up(waiter);
            // The killed waiter may have consumed a wake-up that another waiter needs.
            self.waiters.wake_one();
        }
        value.ok_or(Errno::EINTR)
    }
}

impl<T: ?Sized> Drop for SleepMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.value = None;
        self.waiters.wake_one();
    }
}

impl<T: ?Sized> Deref for SleepMutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("taken only by drop")
    }
}

impl<T: ?Sized> DerefMut for SleepMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("taken only by drop")
    }
}
