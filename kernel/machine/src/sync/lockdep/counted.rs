//! In a kernel that learns no order of locks, but finds sleeps where none is allowed: counts of
//! what forbids them.

use super::no_sleep::{NoSleep, is_atomic};

/// The class of a lock: the line that made it.
pub struct Class(());

/// A lock is held while this lives: a spin lock forbids to sleep.
pub struct Held(#[allow(dead_code, reason = "its end counts")] Option<NoSleep>);

/// The sleeping locks that a thread holds: a part of the thread.
pub struct Sleeping(());

impl Class {
    /// The class of locks that the caller makes.
    pub const fn of_caller() -> Self {
        Class(())
    }

    /// A spin lock of this class is about to be taken.
    pub fn spin(&self) -> Held {
        Held(Some(NoSleep::begin()))
    }

    /// A spin lock of this class was taken at the first try.
    pub fn tried(&self) -> Held {
        self.spin()
    }

    /// A sleeping lock of this class is about to be taken.
    pub fn sleep(&self) -> Held {
        might_sleep();
        self.slept()
    }

    /// A sleeping lock of this class was taken at the first try.
    pub fn slept(&self) -> Held {
        Held(None)
    }
}

impl Sleeping {
    /// None.
    pub const fn new() -> Self {
        Sleeping(())
    }
}

/// Panics where the thread must not give its CPU away: under a spin lock, in an interrupt, or while
/// it borrows what is its CPU's.
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
