//! Spin locks. Interrupts are masked whenever the kernel runs, so a spin lock's holder is never
//! interrupted by its own CPU.

mod counter;
pub mod lockdep;
mod mutex;

pub use counter::Counter;
pub use lockdep::might_sleep;
pub use mutex::{Mutex, MutexGuard};
pub use spin::Once;
