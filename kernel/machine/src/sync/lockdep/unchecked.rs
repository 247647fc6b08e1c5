//! A kernel that checks nothing.

/// The class of a lock: the line that made it.
pub struct Class(());

/// A lock is held while this lives.
pub struct Held(());

/// The CPU must not sleep while this lives.
pub struct NoSleep(());

/// The sleeping locks that a thread holds: a part of the thread.
pub struct Sleeping(());

impl Class {
    /// The class of locks that the caller makes.
    #[inline(always)]
    pub const fn of_caller() -> Self {
        Class(())
    }

    /// A spin lock of this class is about to be taken, after all that are held.
    #[inline(always)]
    pub fn spin(&self) -> Held {
        Held(())
    }

    /// A spin lock of this class was taken at the first try: nobody waits for it.
    #[inline(always)]
    pub fn tried(&self) -> Held {
        Held(())
    }

    /// A sleeping lock of this class is about to be taken, after all that are held.
    #[inline(always)]
    pub fn sleep(&self) -> Held {
        Held(())
    }

    /// A sleeping lock of this class was taken at the first try.
    #[inline(always)]
    pub fn slept(&self) -> Held {
        Held(())
    }
}

impl NoSleep {
    /// From here on.
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
    /// None.
    pub const fn new() -> Self {
        Sleeping(())
    }
}

/// Nothing is checked.
#[inline(always)]
pub fn might_sleep() {}
