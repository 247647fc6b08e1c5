//! Threads, on stacks that this program maps.

use crate::arch;
use crate::region::Region;
use crate::sys::{self, Result};
use core::sync::atomic::{AtomicU32, Ordering};

/// The size of a thread's stack in pages.
const STACK_PAGES: usize = 16;

/// A stack, and the word that is set while a thread runs on it.
pub struct Place {
    stack: Region,
    running: AtomicU32,
}

impl Place {
    /// A place for one thread after another, with a populated stack.
    pub fn new() -> Result<Self> {
        let stack = Region::anonymous(STACK_PAGES)?;
        stack.write();
        Ok(Self {
            stack,
            running: AtomicU32::new(0),
        })
    }

    /// Starts a thread here; none may be running.
    #[inline(always)]
    pub fn start(&self, entry: extern "C" fn(usize), argument: usize) -> Result<()> {
        self.running.store(1, Ordering::Relaxed);
        let thread = arch::Thread {
            flags: sys::CLONE_OF_THREAD,
            stack: self.stack.end(),
            ended: self.running.as_ptr() as usize,
            entry,
            argument,
        };
        // SAFETY: no other thread uses the stack, and `join` comes before it is unmapped.
        sys::checked(unsafe { arch::start(&thread) }).map(drop)
    }

    /// Waits until the kernel reports that the thread has ended.
    #[inline(always)]
    pub fn join(&self) {
        while self.running.load(Ordering::Acquire) != 0 {
            // The kernel's wake-up at a thread's end is not a private one.
            sys::futex_wait(&self.running, 1, 0);
        }
    }
}
