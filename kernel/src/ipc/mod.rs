//! System V IPC: shared memory, message queues and sets of semaphores, found by key; POSIX message queues; keys; results of
//! asynchronous I/O.

pub mod aio;
pub mod key;
pub mod message;
pub mod queue;
pub mod registry;
pub mod semaphore;
pub mod shared;

pub use registry::{Header, Object, Registry};
