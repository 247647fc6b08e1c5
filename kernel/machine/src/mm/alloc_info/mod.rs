//! Counts of what is allocated (Linux's CONFIG_MEM_ALLOC_PROFILING), by which tests find leaks. A
//! kernel with debug assertions has them; others pay nothing.

#[cfg(debug_assertions)]
mod counted;
#[cfg(not(debug_assertions))]
mod uncounted;

#[cfg(debug_assertions)]
pub use counted::{Count, FRAMES, HEAP};
#[cfg(not(debug_assertions))]
pub(super) use uncounted::{FRAMES, HEAP};
