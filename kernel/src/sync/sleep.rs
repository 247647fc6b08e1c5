//! The lock that may be held across a sleep or an access to a program's memory.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering::*};

use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::task::wait::WaitQueue;

/// A lock whose waiters sleep.
pub struct SleepMutex<T: ?Sized> {
    locked: AtomicBool,
    waiters: WaitQueue,
    /// Free whenever `locked` was won: it is here to lend the value out.
    value: SpinMutex<T>,
}

/// The lock is held while this lives.
pub struct SleepMutexGuard<'a, T: ?Sized> {
    lock: &'a SleepMutex<T>,
    value: Option<SpinMutexGuard<'a, T>>,
}

impl<T> SleepMutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        SleepMutex {
            locked: AtomicBool::new(false),
            waiters: WaitQueue::new(),
            value: SpinMutex::new(value),
        }
    }
}

impl<T: ?Sized> SleepMutex<T> {
    /// Takes the lock, asleep until it is free.
    #[inline]
    pub fn lock(&self) -> SleepMutexGuard<'_, T> {
        if !self.acquire() {
            self.waiters.wait(|| self.acquire());
        }
        self.lend()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<SleepMutexGuard<'_, T>> {
        self.acquire().then(|| self.lend())
    }

    #[inline]
    fn lend(&self) -> SleepMutexGuard<'_, T> {
        SleepMutexGuard {
            lock: self,
            value: Some(self.value.lock()),
        }
    }

    #[inline]
    fn acquire(&self) -> bool {
        !self.locked.swap(true, Acquire)
    }
}

impl<T: ?Sized> Drop for SleepMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.value = None;
        self.lock.locked.store(false, Release);
        self.lock.waiters.wake_one();
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
