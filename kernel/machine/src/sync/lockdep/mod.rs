//! Lock-order checks. A kernel with debug assertions learns and checks the order of locks as
//! Linux's lockdep does (Documentation/locking/lockdep-design.rst): the class of a lock is the
//! source line that created it, and a class that was once taken after another must never be taken
//! before it, not even through a third one. With only the feature `atomic-sleep`, a kernel checks
//! that nothing sleeps in an atomic section (Linux's DEBUG_ATOMIC_SLEEP). Other kernels pay
//! nothing.

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
