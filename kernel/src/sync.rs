//! Locks: those that spin, and one that sleeps.

pub use crate::task::sleep::{SleepMutex, SleepMutexGuard};
pub use machine::sync::*;
