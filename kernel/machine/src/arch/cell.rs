//! Data that only its owner touches: one CPU, or one thread. No lock, no atomic; a wrong owner or a
//! second borrow is a panic.

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
    /// No other CPU uses the cell meanwhile.
    #[inline(always)]
    unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.busy.replace(true), "an owner's cell borrowed twice");
        // SAFETY: the flag keeps this CPU's other borrows out, the caller those of all other CPUs.
        let result = f(unsafe { &mut *self.value.get() });
        self.busy.set(false);
        result
    }
}

/// Data of one CPU: a field of its [`cpu::Cpu`].
pub struct CpuLocal<T>(Borrowed<T>);

// SAFETY: `with` refuses all CPUs but the one that the value is a part of, and a thread does not
// change its CPU in between, since no closure switches: they are this crate's alone. `might_sleep`,
// which every switch calls, checks it in kernels with debug assertions.
unsafe impl<T: Send> Sync for CpuLocal<T> {}

impl<T> CpuLocal<T> {
    /// A value for the CPU that it is made a field of.
    pub const fn new(value: T) -> Self {
        CpuLocal(Borrowed::new(value))
    }

    /// Borrows the value. The closure must not block: only this crate can call this.
    ///
    /// # Panics
    /// If the value is another CPU's, or borrowed already.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let offset =
            (self as *const Self as usize).wrapping_sub(cpu::this() as *const cpu::Cpu as usize);
        assert!(offset < size_of::<cpu::Cpu>(), "another CPU's data");
        let _no_sleep = NoSleep::begin();
        // SAFETY: the value lies inside this CPU's own data, which only this CPU may borrow from.
        unsafe { self.0.with(f) }
    }
}

/// Data of one thread: a field of its [`Task`](super::task::Task).
pub struct ThreadLocal<T>(Borrowed<T>);

// SAFETY: `with` refuses all threads but the one that the value is a part of, and a thread runs on
// one CPU at a time.
unsafe impl<T: Send> Sync for ThreadLocal<T> {}

impl<T> ThreadLocal<T> {
    /// A value for the thread that it is made a field of.
    pub const fn new(value: T) -> Self {
        ThreadLocal(Borrowed::new(value))
    }

    /// Borrows the value.
    ///
    /// # Panics
    /// If the value is another thread's, or borrowed already.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let offset = (self as *const Self as usize).wrapping_sub(cpu::this().current_address());
        assert!(
            offset < crate::upcall::thread_size(),
            "another thread's data"
        );
        // SAFETY: the value lies inside the thread that runs here, and nowhere else.
        unsafe { self.0.with(f) }
    }
}
