//! Spin locks. The kernel runs with interrupts masked, so the holder of a spin lock is never
//! interrupted on its own CPU.

mod counter;
pub mod lockdep;
mod mutex;

pub use counter::Counter;
pub use lockdep::might_sleep;
pub use mutex::{Mutex, MutexGuard};
pub use spin::Once;
