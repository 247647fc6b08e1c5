//! Which CPU may touch what the hardware's part of a thread holds, and who borrows its frame.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::{Frame, ThreadState};
use crate::sync::lockdep::NoSleep;

const NOBODY: u32 = 0;
const RUNS: u32 = 1;
const LOOKS: u32 = 2;

/// Taken by the CPU that runs a thread, from the switch to it until its context is saved, or by one
/// that looks into a thread that none runs.
#[repr(C)]
pub struct Owner {
    /// First, since a switch writes it in assembly.
    state: AtomicU32,
    /// Whether the thread borrows its frame, maybe while it waits.
    frame_lent: Cell<bool>,
}

impl Owner {
    const fn new(state: u32) -> Self {
        Owner {
            state: AtomicU32::new(state),
            frame_lent: Cell::new(false),
        }
    }

    /// Of a thread that no CPU runs.
    pub const fn nobody() -> Self {
        Self::new(NOBODY)
    }

    /// Of a thread that a CPU has run since it started.
    pub const fn runs() -> Self {
        Self::new(RUNS)
    }

    /// This CPU runs the thread from now on. Waits for the one that ran it last, which may still
    /// be saving it, and for one that looks into it.
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

    /// This CPU, which ran the thread, has saved it.
    #[cfg(not(target_os = "none"))]
    pub fn leave(&self) {
        self.state.store(NOBODY, Release);
    }

    /// Calls `f`, during which no CPU runs the thread, and nobody else looks into it.
    ///
    /// # Panics
    /// If a CPU runs it, or looks into it already.
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

    /// Calls `f` with the current thread's user registers. They must be whole: in a system call
    /// entered by `full_frame_stub!`, in `task::exit_work`, or before the thread's first program.
    ///
    /// # Panics
    /// If it borrows them already.
    pub fn with_frame<R>(&self, f: impl FnOnce(&mut Frame) -> R) -> R {
        assert!(self.is_current() && !self.owner.frame_lent.replace(true));
        // SAFETY: the frame is the current thread's alone. The flag refuses a second reference: to
        // `f`, and to a CPU that looks into the thread while `f` waits.
        let result = f(unsafe { &mut *self.frame_place() });
        self.owner.frame_lent.set(false);
        result
    }

    /// Calls `f` with the user registers of a thread that is stopped.
    ///
    /// # Panics
    /// If a CPU runs it or looks into it, or it borrows them.
    pub fn with_stopped_frame<R>(&self, f: impl FnOnce(&mut Frame) -> R) -> R {
        self.owner.look(|| {
            assert!(!self.owner.frame_lent.get());
            // SAFETY: no CPU runs the thread, which has lent its frame to nobody, and nobody else
            // looks into it.
            f(unsafe { &mut *self.frame_place() })
        })
    }

    /// The user registers of the current thread, or of one that no CPU runs, as far as its way into
    /// the kernel saved them: what a call keeps is of no meaning.
    ///
    /// # Panics
    /// If a CPU runs it or looks into it.
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
