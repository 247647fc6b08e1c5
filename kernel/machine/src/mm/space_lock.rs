//! The lock of an address space: faults on different CPUs share no line that either writes; what
//! changes VMAs waits for all faults under way and keeps new ones out.

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};

use crate::arch::{self, MAX_CPUS};
use crate::errno::{Errno, Result};
use crate::sync::lockdep::{Class, Held};
use crate::sync::{Mutex, MutexGuard};

/// A CPU's own line in a lock.
#[repr(align(128))]
pub struct Slot {
    /// The CPU reads.
    held: AtomicBool,
    /// The CPU is among those that ever read.
    known: AtomicBool,
    /// A number that the CPU keeps for its next read.
    pub hint: AtomicUsize,
    /// What the CPU counted.
    count: AtomicUsize,
}

impl Slot {
    /// A free one.
    pub const fn new() -> Self {
        Slot {
            held: AtomicBool::new(false),
            known: AtomicBool::new(false),
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
    /// Whoever changed it lets go; `counted` sums up what all CPUs counted.
    fn on_unlock(&mut self, counted: impl FnOnce() -> usize);
}

/// A set of CPUs that only grows.
struct CpuSet([AtomicU64; MAX_CPUS.div_ceil(64)]);

impl CpuSet {
    /// None.
    const fn new() -> Self {
        CpuSet([const { AtomicU64::new(0) }; MAX_CPUS.div_ceil(64)])
    }

    /// Adds a CPU. What it does afterwards is seen by whoever does not find it here.
    fn insert(&self, cpu: usize) {
        if !self.contains(cpu) {
            self.0[cpu / 64].fetch_or(1 << (cpu % 64), SeqCst);
        }
    }

    fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(Relaxed) >> (cpu % 64) & 1 != 0
    }

    /// Those that are in it now, but `own`. A loop within a loop, as chained iterators cost more
    /// than they find.
    fn each_other(&self, own: usize, mut act: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut left = word.load(Relaxed);
            if own / 64 == index {
                left &= !(1 << (own % 64));
            }
            while left != 0 {
                act(index * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

/// A value that CPUs read side by side, each writing to its own line only, and that one changes
/// alone.
///
/// Kernel code is neither interrupted nor preempted, so a CPU holds at most one read, and not for
/// long.
pub struct SpaceLock<T: OnUnlock> {
    writer: Mutex<()>,
    writing: AtomicBool,
    /// CPUs that ever read: only their slots are waited for.
    readers: CpuSet,
    slots: Box<[Slot]>,
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
        slots.extend((0..arch::cpu::possible()).map(|_| Slot::new()));
        Ok(SpaceLock {
            writer: Mutex::new(()),
            writing: AtomicBool::new(false),
            readers: CpuSet::new(),
            slots: slots.into_boxed_slice(),
            value: UnsafeCell::new(value),
            class: Class::of_caller(),
        })
    }

    /// Reads beside other CPUs.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = self.class.spin();
        let cpu = arch::cpu::this().index();
        let slot = &self.slots[cpu];
        if !slot.known.load(Relaxed) {
            self.know(cpu);
        }
        loop {
            debug_assert!(!slot.held.load(Relaxed), "a CPU reads twice");
            slot.held.store(true, Relaxed);
            // Pairs with the writer's: either it sees `held` and the set, or this sees `writing`.
            fence(SeqCst);
            if !self.writing.load(Acquire) {
                return ReadGuard {
                    lock: self,
                    slot,
                    _held: held,
                };
            }
            slot.held.store(false, Release);
            while self.writing.load(Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn know(&self, cpu: usize) {
        self.readers.insert(cpu);
        self.slots[cpu].known.store(true, Relaxed);
    }

    /// Changes alone.
    pub fn write(&self) -> WriteGuard<'_, T> {
        let held = self.class.spin();
        let guard = self.writer.lock();
        self.writing.store(true, Relaxed);
        fence(SeqCst);
        // This CPU reads nothing meanwhile.
        self.readers.each_other(arch::cpu::this().index(), |cpu| {
            while self.slots[cpu].held.load(Acquire) {
                core::hint::spin_loop();
            }
        });
        WriteGuard {
            lock: self,
            _writer: guard,
            _held: held,
        }
    }

    fn counted(&self) -> usize {
        let counts = self.slots.iter().map(Slot::count);
        counts.fold(0, usize::wrapping_add)
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
        // SAFETY: no writer runs while this CPU's slot is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: OnUnlock> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.held.store(false, Release);
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
        lock.writing.store(false, Release);
    }
}
