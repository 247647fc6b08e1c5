//! Failure injection: a thread's n-th allocation fails, as with Linux's `/proc/<pid>/fail-nth`
//! (Documentation/fault-injection/fault-injection.rst). A kernel with debug assertions has it;
//! others pay nothing.

#[cfg(debug_assertions)]
mod fail_nth;
#[cfg(not(debug_assertions))]
mod never;

#[cfg(debug_assertions)]
pub use fail_nth::{FailNth, NoFail};
#[cfg(not(debug_assertions))]
pub use never::{FailNth, NoFail};

#[cfg(debug_assertions)]
pub(super) use fail_nth::should_fail;
#[cfg(not(debug_assertions))]
pub(super) use never::should_fail;
