//! How a thread that falls asleep and one that wakes it do not miss each other.
//!
//! The sleeper stores that it sleeps, and then loads the condition. The waker stores the condition,
//! and then loads whether a thread sleeps. Each executes a full fence between its store and its
//! load, so at least one sees the other's store (Linux: `set_current_state`, and
//! `smp_mb__after_spinlock` in `try_to_wake_up`). [`Sleeper`] is the state of one thread that a
//! waker loads; [`Waiters`] that of a list of threads.
#![no_std]
#![forbid(unsafe_code)]

mod sleeper;
mod waiters;

pub use sleeper::{RUNNABLE, Sleeper, Wake};
pub use waiters::Waiters;
