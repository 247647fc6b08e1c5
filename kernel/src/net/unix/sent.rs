//! The datagrams that a socket has sent and that are not received yet, which SO_SNDBUF limits.

use crate::fs::poll::WaitSource;
use crate::net::channel::OVERHEAD;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// The bytes that a socket has sent.
pub struct Sent {
    bytes: AtomicUsize,
    /// Notified when there is room.
    writable: Arc<WaitSource>,
}

/// A message's share of these bytes, until this is dropped.
pub struct Charge {
    sent: Arc<Sent>,
    bytes: usize,
}

impl Sent {
    /// No bytes.
    pub fn new(writable: &Arc<WaitSource>) -> Self {
        Sent {
            bytes: AtomicUsize::new(0),
            writable: writable.clone(),
        }
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Acquire)
    }

    /// Charges a message of `len` bytes.
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
