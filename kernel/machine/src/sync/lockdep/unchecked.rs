//! Stubs for a kernel without checks.

/// The class of a lock: the source line that created it.
pub struct Class(());

/// Holds a lock until dropped.
pub struct Held(());

/// A section in which the CPU must not sleep, until dropped.
pub struct NoSleep(());

/// The sleeping locks held by a thread; a field of the thread.
pub struct Sleeping(());

impl Class {
    /// The class of locks that the caller's line creates.
    #[inline(always)]
    pub const fn of_caller() -> Self {
        Class(())
    }

    /// Called before a spin lock of this class is taken.
    #[inline(always)]
    pub fn spin(&self) -> Held {
        Held(())
    }

    /// Called after a spin lock of this class was taken without spinning, so that its order is not
    /// checked.
    #[inline(always)]
    pub fn tried(&self) -> Held {
        Held(())
    }

    /// Called before a sleeping lock of this class is taken.
    #[inline(always)]
    pub fn sleep(&self) -> Held {
        Held(())
    }

    /// Called after a sleeping lock of this class was taken without waiting.
    #[inline(always)]
    pub fn slept(&self) -> Held {
        Held(())
    }
}

impl NoSleep {
    /// Begins a section.
    #[inline(always)]
    pub fn begin() -> Self {
        NoSleep(())
    }

    /// Calls `f`.
    #[inline(always)]
    pub fn lift<T>(f: impl FnOnce() -> T) -> T {
        f()
    }
}

impl Sleeping {
    /// No locks.
    pub const fn new() -> Self {
        Sleeping(())
    }
}

/// Checks nothing.
#[inline(always)]
pub fn might_sleep() {}
