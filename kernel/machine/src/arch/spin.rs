//! A word-sized lock, which every architecture can exchange in one instruction: on RISC-V a byte
//! takes ten instructions, and a compare-and-exchange a loop. The word names the thread that holds
//! the lock ([`lock_word`]), by its stack pointer, which costs no more to store than any other.

use core::any::type_name;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lock_api::{GuardSend, RawMutex};
pub use lock_word::Waiter;
use lock_word::{LockWord, Seen};

use super::cpu::lock_holder;
use super::{LOCK_HOLDER_SIZE, text, time};
use crate::backtrace;

/// The lock without the data that it protects. The holder of a spin lock stays on its CPU, so the
/// word names its thread and its CPU at once.
pub struct Word(LockWord<LOCK_HOLDER_SIZE>);

/// The number of seconds that a CPU spins before this is logged, as by Linux's soft lockup
/// detector.
const LONG: u64 = 20;

impl Word {
    /// Spins until this CPU has the lock, which protects an `of`.
    ///
    /// # Panics
    /// If the CPU waits for itself, which would otherwise hang silently.
    #[cold]
    #[inline(never)]
    fn spin(&self, mut waiter: Waiter, of: fn() -> &'static str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let end = time::now_ticks() + time::ns_to_ticks(LONG * 1_000_000_000);
        loop {
            for _ in 0..1 << 16 {
                if self.look(&mut waiter, of) {
                    return;
                }
                core::hint::spin_loop();
            }
            backtrace::answer();
            if time::now_ticks() >= end && !SAID.swap(true, Relaxed) {
                crate::log!("the lock of a {} was not to be had for {LONG} s", of());
                text::log_callers_here();
            }
        }
    }

    /// Tries once to take the lock, which protects an `of`; true if the caller has it now.
    fn look(&self, waiter: &mut Waiter, of: fn() -> &'static str) -> bool {
        match self.0.look(lock_holder(), waiter) {
            Seen::Taken => true,
            Seen::Held => false,
            Seen::Own => panic!("self-deadlock: holds the lock of a {} that it takes", of()),
        }
    }
}

// SAFETY: the CPU that replaces 0 by another value holds the lock exclusively until 0 is stored;
// the acquire sees everything before the release.
unsafe impl RawMutex for Word {
    const INIT: Self = Word(LockWord::new());

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        if let Err(waiter) = self.0.take(lock_holder()) {
            self.spin(waiter, type_name::<Self>);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_take(lock_holder())
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.release();
    }
}

/// A lock without lock-order checks, from which other locks are built: it spins, or its caller
/// decides how to wait.
pub struct SpinMutex<T: ?Sized>(lock_api::Mutex<Word, T>);
/// Holds such a lock until dropped.
pub type SpinMutexGuard<'a, T> = lock_api::MutexGuard<'a, Word, T>;

impl<T> SpinMutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        SpinMutex(lock_api::Mutex::new(value))
    }
}

impl<T: ?Sized> SpinMutex<T> {
    #[inline(always)]
    fn word(&self) -> &Word {
        // SAFETY: this file releases a lock by its guard only.
        unsafe { self.0.raw() }
    }

    /// The guard for the caller, which has just taken the lock.
    #[inline(always)]
    fn guard(&self) -> SpinMutexGuard<'_, T> {
        // SAFETY: the callers, all in this file, create one guard each time that they take the
        // word.
        unsafe { self.0.make_guard_unchecked() }
    }

    /// Takes the lock, spinning until it is free.
    ///
    /// # Panics
    /// If this CPU holds it.
    #[inline]
    pub fn lock(&self) -> SpinMutexGuard<'_, T> {
        if let Err(waiter) = self.word().0.take(lock_holder()) {
            self.word().spin(waiter, type_name::<T>);
        }
        self.guard()
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// Takes the lock if it is free; otherwise the caller waits for it, and calls
    /// [`take_again`](Self::take_again).
    #[inline]
    pub fn take(&self) -> Result<SpinMutexGuard<'_, T>, Waiter> {
        self.word().0.take(lock_holder()).map(|()| self.guard())
    }

    /// Takes the lock for a waiter, if it is free.
    ///
    /// # Panics
    /// If the current thread holds it.
    pub fn take_again(&self, waiter: &mut Waiter) -> Option<SpinMutexGuard<'_, T>> {
        let taken = self.word().look(waiter, type_name::<T>);
        taken.then(|| self.guard())
    }

    /// Ends a wait; returns a guard if the waiter got the lock.
    pub fn give_up(&self, waiter: Waiter) -> Option<SpinMutexGuard<'_, T>> {
        let taken = self.word().0.give_up(lock_holder(), waiter);
        taken.then(|| self.guard())
    }

    /// Whether the current thread is known to hold the lock.
    pub fn is_own(&self) -> bool {
        self.word().0.is_held_by(lock_holder())
    }

    /// The value, through an exclusive reference to the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
