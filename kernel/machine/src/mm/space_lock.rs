//! The lock of an address space: faults on different CPUs share no cache line that either of them
//! writes; a writer waits for all faults in progress and blocks new ones.

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

/// How often a writer looks whether readers still wait, before it writes again.
const GIVE_WAY: usize = 10_000;

/// The data in a CPU's slot of a lock.
pub struct Own {
    /// A number that the CPU caches for its next read.
    pub hint: AtomicUsize,
    /// The CPU's counter.
    count: AtomicUsize,
}

/// A CPU's slot, a cache line of its own, in a lock.
pub type Slot = rwlock::Slot<Own>;

impl Own {
    /// Creates a slot with a counter of zero.
    pub const fn new() -> Self {
        Own {
            hint: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Adds `number` to the counter, which wraps. Only the CPU itself calls this.
    #[inline(always)]
    pub fn add(&self, number: usize) {
        self.count.store(self.count().wrapping_add(number), Relaxed);
    }

    /// The counter's value.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

/// A value guarded by a [`SpaceLock`].
pub trait OnUnlock {
    /// Called before the writer releases the lock; `counted` returns the sum of all CPUs' counters.
    fn on_unlock(&mut self, counted: impl FnOnce() -> usize);
}

/// The data of the writers' lock: the right to write.
struct Writer;

/// A value that CPUs read concurrently, each writing only to its own slot, and that a writer
/// changes exclusively.
///
/// Kernel code is neither interrupted nor preempted, so a CPU holds a read lock only briefly. It
/// holds at most one: a second one, a write lock within a read lock or the reverse, panics.
pub struct SpaceLock<T: OnUnlock> {
    writer: Mutex<Writer>,
    handshake: Handshake<Own, { MAX_CPUS.div_ceil(64) }>,
    value: UnsafeCell<T>,
    class: Class,
}

// SAFETY: `write` excludes all others, `read` all writers; the value is shared by concurrent
// readers, so it must be `Sync`.
unsafe impl<T: OnUnlock + Send + Sync> Sync for SpaceLock<T> {}

impl<T: OnUnlock> SpaceLock<T> {
    /// Creates an unlocked lock.
    #[track_caller]
    pub fn new(value: T) -> Result<Self> {
        let mut slots = Vec::new();
        slots
            .try_reserve_exact(arch::cpu::possible())
            .map_err(|_| Errno::ENOMEM)?;
        slots.extend((0..arch::cpu::possible()).map(|_| Slot::new(Own::new())));
        Ok(SpaceLock {
            writer: Mutex::new(Writer),
            handshake: Handshake::new(slots.into_boxed_slice()),
            value: UnsafeCell::new(value),
            class: Class::of_caller(),
        })
    }

    /// Locks for reading, concurrently with other CPUs.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = self.class.spin();
        ReadGuard {
            lock: self,
            slot: self
                .handshake
                .read(arch::cpu::this().index(), || self.blocked()),
            _held: held,
        }
    }

    /// Locks exclusively.
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

    /// Lets CPUs in that wait to read, between two writes of a series. Gives up after a while: a
    /// CPU of a virtual machine may be stopped.
    pub fn give_way(&self) {
        _ = self.handshake.give_way(GIVE_WAY);
    }

    /// Called when a reader has to wait for the writer.
    #[cold]
    #[inline(never)]
    fn blocked(&self) {
        assert!(
            !self.writer.is_own(),
            "self-deadlock: a CPU reads while it writes"
        );
    }

    fn counted(&self) -> usize {
        let counts = self.handshake.slots().iter().map(|slot| slot.data.count());
        counts.fold(0, usize::wrapping_add)
    }
}

impl<T: OnUnlock> Drop for SpaceLock<T> {
    fn drop(&mut self) {
        // A guard cannot outlive a lock that it borrows. But `mm::active` borrows from the CPU's
        // own reference, which safe code that is called meanwhile could make the CPU drop.
        assert!(!self.handshake.is_held(), "a lock ends while it is held");
    }
}

/// Holds the lock for reading on this CPU.
pub struct ReadGuard<'a, T: OnUnlock> {
    lock: &'a SpaceLock<T>,
    slot: &'a Slot,
    _held: Held,
}

impl<T: OnUnlock> ReadGuard<'_, T> {
    /// The sum of all CPUs' counters.
    pub fn counted(&self) -> usize {
        self.lock.counted()
    }

    /// This CPU's slot.
    #[inline]
    pub fn slot(&self) -> &Slot {
        self.slot
    }
}

impl<T: OnUnlock> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no writer runs while this CPU's slot is held, and only this guard holds it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: OnUnlock> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.release();
    }
}

/// Holds the lock exclusively.
pub struct WriteGuard<'a, T: OnUnlock> {
    lock: &'a SpaceLock<T>,
    _writer: MutexGuard<'a, Writer>,
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
