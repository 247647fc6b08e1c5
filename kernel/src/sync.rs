//! Locks: spin locks, and one that sleeps.

pub use crate::task::sleep_mutex::{SleepMutex, SleepMutexGuard};
pub use machine::sync::*;
