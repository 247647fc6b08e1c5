//! Ownership of the hardware's part of a thread, and of its frame.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::{Frame, ThreadState};
use crate::sync::lockdep::NoSleep;

const NOBODY: u32 = 0;
const RUNS: u32 = 1;
const LOOKS: u32 = 2;

/// Held by the CPU that runs a thread, from the switch to it until its context is saved, or by one
/// that inspects a thread that no CPU runs.
#[repr(C)]
pub struct Owner {
    /// First, since the context switch writes it in assembly.
    state: AtomicU32,
    /// Whether the thread has borrowed its frame, possibly while it sleeps.
    frame_lent: Cell<bool>,
}

impl Owner {
    const fn new(state: u32) -> Self {
        Owner {
            state: AtomicU32::new(state),
            frame_lent: Cell::new(false),
        }
    }

    /// The owner of a thread that no CPU runs.
    pub const fn nobody() -> Self {
        Self::new(NOBODY)
    }

    /// The owner of a thread that a CPU has run since it started.
    pub const fn runs() -> Self {
        Self::new(RUNS)
    }

    /// Makes this CPU the owner, which runs the thread from now on. Waits for the CPU that ran it
    /// last, which may still be saving its context, and for one that inspects it.
    #[inline(always)]
    pub fn run(&self) {
        let take = || {
            self.state
                .compare_exchange_weak(NOBODY, RUNS, Acquire, Relaxed)
        };
        while take().is_err() {
            core::hint::spin_loop();
        }
    }

    /// Releases ownership after this CPU, which ran the thread, has saved it.
    #[cfg(not(target_os = "none"))]
    pub fn leave(&self) {
        self.state.store(NOBODY, Release);
    }

    /// Calls `f`, during which no CPU runs the thread, and nobody else inspects it.
    ///
    /// # Panics
    /// If a CPU runs it, or already inspects it.
    pub fn look<R>(&self, f: impl FnOnce() -> R) -> R {
        let _no_sleep = NoSleep::begin();
        let taken = self.state.compare_exchange(NOBODY, LOOKS, Acquire, Relaxed);
        assert!(taken.is_ok(), "looks into a thread that has an owner");
        let result = f();
        self.state.store(NOBODY, Release);
        result
    }
}

impl ThreadState {
    /// Whether a CPU runs the thread, or has not saved its context yet.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.owner.state.load(Acquire) == RUNS
    }

    /// Calls `f` with the current thread's user registers. They must be complete: in a system call
    /// entered by `full_frame_stub!`, in `task::exit_work`, or before the thread's first program.
    ///
    /// # Panics
    /// If it has already borrowed them.
    pub fn with_frame<R>(&self, f: impl FnOnce(&mut Frame) -> R) -> R {
        assert!(self.is_current() && !self.owner.frame_lent.replace(true));
        // SAFETY: the frame belongs to the current thread. The flag prevents a second reference: by
        // `f`, and by a CPU that inspects the thread while `f` sleeps.
        let result = f(unsafe { &mut *self.frame_place() });
        self.owner.frame_lent.set(false);
        result
    }

    /// Calls `f` with the user registers of a stopped thread.
    ///
    /// # Panics
    /// If a CPU runs it or inspects it, or it has borrowed them.
    pub fn with_stopped_frame<R>(&self, f: impl FnOnce(&mut Frame) -> R) -> R {
        self.owner.look(|| {
            assert!(!self.owner.frame_lent.get());
            // SAFETY: no CPU runs the thread, which has not lent its frame, and nobody else
            // inspects it.
            f(unsafe { &mut *self.frame_place() })
        })
    }

    /// Copies the user registers of the current thread, or of one that no CPU runs, as far as its
    /// entry into the kernel saved them: the registers that a call preserves are undefined.
    ///
    /// # Panics
    /// If a CPU runs it or inspects it.
    pub fn saved_frame(&self) -> Frame {
        // SAFETY: nothing writes the frame meanwhile: the thread is here, or no CPU runs it. A copy
        // borrows nothing.
        let copy = || unsafe { self.frame_place().read() };
        match self.is_current() {
            true => copy(),
            false => self.owner.look(copy),
        }
    }
}
