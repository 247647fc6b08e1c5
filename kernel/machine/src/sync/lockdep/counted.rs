//! Sleep checks without lock-order checks: per-CPU counts of the reasons that forbid sleeping.

use super::no_sleep::{NoSleep, is_atomic};

/// The class of a lock: the source line that created it.
pub struct Class(());

/// Holds a lock until dropped; a spin lock forbids sleeping.
pub struct Held(#[allow(dead_code, reason = "its end counts")] Option<NoSleep>);

/// The sleeping locks held by a thread; a field of the thread.
pub struct Sleeping(());

impl Class {
    /// The class of locks that the caller's line creates.
    pub const fn of_caller() -> Self {
        Class(())
    }

    /// Called before a spin lock of this class is taken.
    pub fn spin(&self) -> Held {
        Held(Some(NoSleep::begin()))
    }

    /// Called after a spin lock of this class was taken without spinning, so that its order is not
    /// checked.
    pub fn tried(&self) -> Held {
        self.spin()
    }

    /// Called before a sleeping lock of this class is taken.
    pub fn sleep(&self) -> Held {
        might_sleep();
        self.slept()
    }

    /// Called after a sleeping lock of this class was taken without waiting.
    pub fn slept(&self) -> Held {
        Held(None)
    }
}

impl Sleeping {
    /// No locks.
    pub const fn new() -> Self {
        Sleeping(())
    }
}

/// Panics if the thread must not give up its CPU: under a spin lock, in an interrupt, or while it
/// borrows per-CPU data.
#[track_caller]
pub fn might_sleep() {
    assert!(
        !is_atomic(),
        "sleeps under a spin lock, in an interrupt, or while it borrows what is its CPU's"
    );
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn sleep_is_refused_under_a_spin_lock_and_a_borrow() {
        assert!(!is_atomic());
        let class = Class::of_caller();
        let held = class.spin();
        assert!(is_atomic());
        drop(held);
        let sleeping = class.sleep();
        assert!(!is_atomic());
        drop(sleeping);
        let borrow = NoSleep::begin();
        assert!(is_atomic());
        drop(borrow);
        assert!(!is_atomic());
    }
}
