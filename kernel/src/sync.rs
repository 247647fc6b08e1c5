//! Locks: spin locks, and those that sleep.

pub use crate::task::sleep_mutex::{SleepMutex, SleepMutexGuard};
pub use crate::task::sleep_rwlock::SleepRwLock;
pub use machine::sync::*;
