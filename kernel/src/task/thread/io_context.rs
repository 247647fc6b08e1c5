//! The I/O context of a thread (ioprio_set(2), CLONE_IO).

use super::Thread;
use crate::errno::Result;
use crate::mm::heap::try_arc;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// An I/O context: a priority (ioprio_set(2)).
pub struct IoContext(AtomicU32);

impl Thread {
    /// The context, which threads cloned with CLONE_IO share.
    pub fn io_context(&self) -> Option<&Arc<IoContext>> {
        self.io.get()
    }

    /// The I/O priority (ioprio_set(2)), which has no effect; 0 for none.
    pub fn io_priority(&self) -> u32 {
        self.io_context().map_or(0, |io| io.0.load(Relaxed))
    }

    /// Sets the I/O priority of all threads that share the context.
    pub fn set_io_priority(&self, priority: u32) -> Result<()> {
        let fresh = match self.io_context() {
            Some(_) => None,
            None => Some(try_arc(IoContext(AtomicU32::new(priority)))?),
        };
        if let Some(fresh) = fresh {
            self.io.call_once(|| fresh);
        }
        if let Some(io) = self.io_context() {
            io.0.store(priority, Relaxed);
        }
        Ok(())
    }

    /// Inherits the context of its parent: the same one (CLONE_IO), or a new one with the same
    /// priority.
    pub fn copy_io(&self, parent: &Thread, shares: bool) -> Result<()> {
        match parent.io_context() {
            Some(io) if shares => {
                self.io.call_once(|| io.clone());
                Ok(())
            }
            Some(io) => self.set_io_priority(io.0.load(Relaxed)),
            None => Ok(()),
        }
    }
}
