//! System V IPC: shared memory, message queues and sets of semaphores, found by key; and POSIX message queues.

pub mod message;
pub mod queue;
pub mod registry;
pub mod semaphore;
pub mod shared;

pub use registry::{Header, Object, Registry};
