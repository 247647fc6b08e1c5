//! Locks. Interrupts are masked whenever the kernel runs, so a spin lock's holder is never interrupted by its own CPU.

mod counter;
mod mutex;
mod order;
mod sleep;

pub use counter::Counter;
pub use mutex::{Mutex, MutexGuard};
pub use order::{Rank, assert_none_held};
#[allow(unused_imports, reason = "for architectures with guests")]
pub use sleep::{SleepMutex, SleepMutexGuard};
pub use spin::Once;
