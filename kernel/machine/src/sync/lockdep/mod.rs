//! The order of locks, which a kernel with debug assertions learns and checks as Linux's lockdep
//! does (Documentation/locking/lockdep-design.rst): the class of a lock is the line that made it,
//! and a class that was once taken after another is never taken before it, not even by way of a
//! third one. Other kernels pay nothing.

#[cfg(debug_assertions)]
mod graph;
#[cfg(debug_assertions)]
mod held;
#[cfg(all(debug_assertions, feature = "selftest"))]
mod selftests;
#[cfg(not(debug_assertions))]
mod unchecked;

#[cfg(debug_assertions)]
pub use graph::each_order;
#[cfg(debug_assertions)]
pub use held::{Class, Held, NoSleep, Sleeping, might_sleep};
#[cfg(not(debug_assertions))]
pub use unchecked::{Class, Held, NoSleep, Sleeping, might_sleep};
