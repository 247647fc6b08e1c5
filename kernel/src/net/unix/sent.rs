//! The datagrams that a socket has sent and that are not received yet, which SO_SNDBUF limits.

use crate::fs::poll::WaitSource;
use crate::net::channel::OVERHEAD;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// The bytes of a socket.
pub struct Sent {
    bytes: AtomicUsize,
    /// Told when there is room.
    writable: Arc<WaitSource>,
}

/// A message's part of them, until this goes.
pub struct Charge {
    sent: Arc<Sent>,
    bytes: usize,
}

impl Sent {
    /// Nothing.
    pub fn new(writable: &Arc<WaitSource>) -> Self {
        Sent {
            bytes: AtomicUsize::new(0),
            writable: writable.clone(),
        }
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Acquire)
    }

    /// A message of `len` bytes is sent.
    pub fn charge(self: &Arc<Self>, len: usize) -> Charge {
        let bytes = len + OVERHEAD;
        self.bytes.fetch_add(bytes, AcqRel);
        Charge {
            sent: self.clone(),
            bytes,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.sent.bytes.fetch_sub(self.bytes, AcqRel);
        self.sent.writable.notify();
    }
}
