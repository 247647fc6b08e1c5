//! The order of locks, which a kernel with debug assertions learns and checks as Linux's lockdep
//! does (Documentation/locking/lockdep-design.rst): the class of a lock is the line that made it,
//! and a class that was once taken after another is never taken before it, not even by way of a
//! third one. With the feature `atomic-sleep` alone, a kernel checks only that nothing sleeps where
//! it must not (Linux's DEBUG_ATOMIC_SLEEP). Other kernels pay nothing.

#[cfg(all(not(debug_assertions), feature = "atomic-sleep"))]
mod counted;
#[cfg(debug_assertions)]
mod graph;
#[cfg(debug_assertions)]
mod held;
#[cfg(any(debug_assertions, feature = "atomic-sleep"))]
mod no_sleep;
#[cfg(all(debug_assertions, feature = "selftest"))]
mod selftests;
#[cfg(not(any(debug_assertions, feature = "atomic-sleep")))]
mod unchecked;

#[cfg(all(not(debug_assertions), feature = "atomic-sleep"))]
pub use counted::{Class, Held, Sleeping, might_sleep};
#[cfg(debug_assertions)]
pub use graph::{each_class, each_order};
#[cfg(debug_assertions)]
pub use held::{Class, Held, Sleeping, might_sleep};
#[cfg(any(debug_assertions, feature = "atomic-sleep"))]
pub use no_sleep::NoSleep;
#[cfg(not(any(debug_assertions, feature = "atomic-sleep")))]
pub use unchecked::{Class, Held, NoSleep, Sleeping, might_sleep};
