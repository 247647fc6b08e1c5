//! Spin locks. Interrupts are masked whenever the kernel runs, so a spin lock's holder is never interrupted by its own CPU.

mod counter;
mod mutex;
mod order;

pub use counter::Counter;
pub use mutex::{Mutex, MutexGuard};
pub use order::{Rank, assert_none_held};
pub use spin::Once;
