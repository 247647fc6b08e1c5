//! System V IPC: shared memory, message queues and sets of semaphores, found by key; POSIX message
//! queues; keys; results of asynchronous I/O.

mod handover;
pub mod mqueue;
pub mod registry;
pub mod sysv_msg;
pub mod sysv_sem;
pub mod sysv_shm;

pub use registry::{Header, Object, Owner, PLACES, Registry};
