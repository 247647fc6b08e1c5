//! The lock of an address space: faults on different CPUs share no line that either writes; what
//! changes VMAs waits for all faults under way and keeps new ones out.

extern crate alloc;

use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use percpu_rwlock::{self as rwlock, Handshake};

use crate::arch::{self, MAX_CPUS};
use crate::errno::{Errno, Result};
use crate::sync::lockdep::{Class, Held};
use crate::sync::{Mutex, MutexGuard};

/// What a CPU keeps in its own line of a lock.
pub struct Own {
    /// A number that the CPU keeps for its next read.
    pub hint: AtomicUsize,
    /// What the CPU counted.
    count: AtomicUsize,
}

/// A CPU's own line in a lock.
pub type Slot = rwlock::Slot<Own>;

impl Own {
    /// A counter at zero.
    pub const fn new() -> Self {
        Own {
            hint: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Counts `number` more, which wraps. For the CPU itself.
    #[inline(always)]
    pub fn add(&self, number: usize) {
        self.count.store(self.count().wrapping_add(number), Relaxed);
    }

    /// What was counted.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

/// What a lock guards.
pub trait OnUnlock {
    /// Called before the writer releases the lock; `counted` is the sum of all CPUs' counts.
    fn on_unlock(&mut self, counted: impl FnOnce() -> usize);
}

/// A value that CPUs read side by side, each writing to its own line only, and that one changes
/// alone.
///
/// Kernel code is neither interrupted nor preempted, so a CPU holds a read not for long. It holds
/// one at most: another, or a write within a read, panics.
pub struct SpaceLock<T: OnUnlock> {
    writer: Mutex<()>,
    handshake: Handshake<Own, { MAX_CPUS.div_ceil(64) }>,
    value: UnsafeCell<T>,
    class: Class,
}

// SAFETY: `write` excludes all others, `read` all writers; what is read side by side is shared, so
// must be `Sync`.
unsafe impl<T: OnUnlock + Send + Sync> Sync for SpaceLock<T> {}

impl<T: OnUnlock> SpaceLock<T> {
    /// A free lock.
    #[track_caller]
    pub fn new(value: T) -> Result<Self> {
        let mut slots = Vec::new();
        slots
            .try_reserve_exact(arch::cpu::possible())
            .map_err(|_| Errno::ENOMEM)?;
        slots.extend((0..arch::cpu::possible()).map(|_| Slot::new(Own::new())));
        Ok(SpaceLock {
            writer: Mutex::new(()),
            handshake: Handshake::new(slots.into_boxed_slice()),
            value: UnsafeCell::new(value),
            class: Class::of_caller(),
        })
    }

    /// Reads beside other CPUs.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = self.class.spin();
        ReadGuard {
            lock: self,
            slot: self.handshake.read(arch::cpu::this().index()),
            _held: held,
        }
    }

    /// Changes alone.
    #[inline(always)]
    pub fn write(&self) -> WriteGuard<'_, T> {
        let held = self.class.spin();
        let guard = self.writer.lock();
        self.handshake.exclude(arch::cpu::this().index());
        WriteGuard {
            lock: self,
            _writer: guard,
            _held: held,
        }
    }

    fn counted(&self) -> usize {
        let counts = self.handshake.slots().iter().map(|slot| slot.data.count());
        counts.fold(0, usize::wrapping_add)
    }
}

impl<T: OnUnlock> Drop for SpaceLock<T> {
    fn drop(&mut self) {
        // No guard outlives a lock that it borrows, but what `mm::active` borrows from the CPU's
        // own count, safe code that is called meanwhile could have the CPU give back.
        assert!(!self.handshake.is_held(), "a lock ends while it is held");
    }
}

/// This CPU reads while it lives.
pub struct ReadGuard<'a, T: OnUnlock> {
    lock: &'a SpaceLock<T>,
    slot: &'a Slot,
    _held: Held,
}

impl<T: OnUnlock> ReadGuard<'_, T> {
    /// What all CPUs counted.
    pub fn counted(&self) -> usize {
        self.lock.counted()
    }

    /// This CPU's line.
    #[inline]
    pub fn slot(&self) -> &Slot {
        self.slot
    }
}

impl<T: OnUnlock> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no writer runs while this CPU's slot is held, which this guard alone holds.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: OnUnlock> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.release();
    }
}

/// This CPU changes the value while it lives.
pub struct WriteGuard<'a, T: OnUnlock> {
    lock: &'a SpaceLock<T>,
    _writer: MutexGuard<'a, ()>,
    _held: Held,
}

impl<T: OnUnlock> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the writers' lock is held, and `write` has waited for all readers.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: OnUnlock> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: OnUnlock> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        let lock = self.lock;
        self.on_unlock(|| lock.counted());
        lock.handshake.admit();
    }
}
