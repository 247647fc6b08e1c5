//! The timeout of a call on a socket.

use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::poll::WaitSource;
use alloc::sync::Arc;

/// Whether a call may wait, and until when.
#[derive(Clone, Copy)]
pub struct Wait {
    /// Whether to fail with EAGAIN instead of waiting.
    pub nonblocking: bool,
    /// In ticks; `None` for ever.
    pub deadline: Option<u64>,
}

impl Wait {
    /// Does not wait.
    pub const NEVER: Wait = Wait {
        nonblocking: true,
        deadline: None,
    };

    /// Waits for up to `timeout` nanoseconds (0: for ever), or not at all.
    pub fn new(nonblocking: bool, timeout: u64) -> Self {
        let until = || time::now_ticks().saturating_add(time::ns_to_ticks(timeout));
        Wait {
            nonblocking,
            deadline: (timeout != 0 && !nonblocking).then(until),
        }
    }

    /// Waits at `source` until `ready`. EAGAIN if it may not wait, or not for so long; a signal
    /// ends the wait with ERESTARTSYS, or EINTR if there is a timeout.
    pub fn until(&self, source: &Arc<WaitSource>, mut ready: impl FnMut() -> bool) -> Result<()> {
        if self.nonblocking {
            return if ready() { Ok(()) } else { Err(Errno::EAGAIN) };
        }
        match source.wait_until(ready, self.deadline) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Errno::EAGAIN),
            Err(_) if self.deadline.is_some() => Err(Errno::EINTR),
            Err(error) => Err(error),
        }
    }
}
