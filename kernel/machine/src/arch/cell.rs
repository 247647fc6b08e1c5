//! Data that only its owner accesses: one CPU, or one thread. No lock, no atomic; a wrong owner or
//! a second borrow panics.

use core::cell::{Cell, UnsafeCell};

use super::cpu;
use crate::sync::lockdep::NoSleep;

/// A value that one owner borrows for the length of a closure.
struct Borrowed<T> {
    busy: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> Borrowed<T> {
    const fn new(value: T) -> Self {
        Borrowed {
            busy: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// # Safety
    /// No other CPU uses the cell during the call.
    #[inline(always)]
    unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.busy.replace(true), "an owner's cell borrowed twice");
        // SAFETY: the flag excludes this CPU's other borrows, and the caller those of all other
        // CPUs.
        let result = f(unsafe { &mut *self.value.get() });
        self.busy.set(false);
        result
    }
}

/// Data of one CPU: a field of its [`cpu::Cpu`].
pub struct CpuLocal<T>(Borrowed<T>);

// SAFETY: `with` rejects all CPUs except the one that the value belongs to, and a thread does not
// migrate in between, since no closure switches: only this crate calls it. `might_sleep`, which
// every switch calls, checks this in kernels with debug assertions.
unsafe impl<T: Send> Sync for CpuLocal<T> {}

impl<T> CpuLocal<T> {
    /// Creates a value for the CPU of which it becomes a field.
    pub const fn new(value: T) -> Self {
        CpuLocal(Borrowed::new(value))
    }

    /// Borrows the value. The closure must not sleep: hence only this crate can call this.
    ///
    /// # Panics
    /// If the value belongs to another CPU, or is already borrowed.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let offset =
            (self as *const Self as usize).wrapping_sub(cpu::this() as *const cpu::Cpu as usize);
        assert!(offset < size_of::<cpu::Cpu>(), "another CPU's data");
        let _no_sleep = NoSleep::begin();
        // SAFETY: the value lies inside this CPU's own data, from which only this CPU may borrow.
        unsafe { self.0.with(f) }
    }
}

/// Data of one thread: a field of its [`Task`](super::task::Task).
pub struct ThreadLocal<T>(Borrowed<T>);

// SAFETY: `with` rejects all threads except the one that the value belongs to, and a thread runs on
// one CPU at a time.
unsafe impl<T: Send> Sync for ThreadLocal<T> {}

impl<T> ThreadLocal<T> {
    /// Creates a value for the thread of which it becomes a field.
    pub const fn new(value: T) -> Self {
        ThreadLocal(Borrowed::new(value))
    }

    /// Borrows the value.
    ///
    /// # Panics
    /// If the value belongs to another thread, or is already borrowed.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let offset = (self as *const Self as usize).wrapping_sub(cpu::this().current_address());
        assert!(
            offset < crate::upcall::thread_size(),
            "another thread's data"
        );
        // SAFETY: the value lies inside the thread that runs here.
        unsafe { self.0.with(f) }
    }
}
