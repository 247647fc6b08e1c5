//! Threads, each on a host thread, and context switches.

extern crate std;

extern crate alloc;

use alloc::sync::Arc;
use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::AtomicU32;

use super::baton::{Baton, NoUnwind};
use super::cpu;
use super::frame::Frame;
use super::program;
use crate::arch::owner::Owner;
use crate::arch::task;
use crate::mm::fault_inject::FailNth;
use crate::mm::vmalloc::KernelStack;
use crate::sync::lockdep;
use crate::upcall;

pub use crate::arch::work;

/// The function of a thread when it is first switched to.
#[derive(Clone, Copy)]
enum Start {
    /// It has already started.
    Begun,
    Kernel(fn(usize) -> !, usize),
    Program,
}

/// The hardware's part of a thread: the first field of the kernel's [`Task`](task::Task).
#[repr(C)]
pub struct ThreadState {
    /// Reasons why the thread must not return to its program yet: bits of [`work`]. Anybody may set
    /// them.
    pub work: AtomicU32,
    pub(in crate::arch) owner: Owner,
    start: Cell<Start>,
    baton: Arc<Baton>,
    frame: UnsafeCell<Frame>,
    /// The sleeping locks that the thread holds.
    pub held: lockdep::Sleeping,
    /// Which of the thread's allocations fails.
    pub fail_nth: FailNth,
    /// Counted as on other architectures.
    _stack: Option<KernelStack>,
}

// SAFETY: the cells are accessed by the host thread that has the CPU, or through `&mut`.
unsafe impl Sync for ThreadState {}
// SAFETY: as above; nothing in it belongs to a CPU.
unsafe impl Send for ThreadState {}

impl ThreadState {
    fn with(stack: Option<KernelStack>, start: Start) -> Self {
        ThreadState {
            work: AtomicU32::new(0),
            owner: Owner::nobody(),
            start: Cell::new(start),
            baton: Arc::new(Baton::new()),
            frame: UnsafeCell::new(Frame::user(0, 0, 0)),
            held: lockdep::Sleeping::new(),
            fail_nth: FailNth::new(),
            _stack: stack,
        }
    }

    /// Creates a kernel thread that will call `entry(argument)` when it is first switched to.
    pub fn new(stack: KernelStack, entry: fn(usize) -> !, argument: usize) -> Self {
        Self::with(Some(stack), Start::Kernel(entry, argument))
    }

    /// Creates a thread that will return to its program with a copy of `frame`, modified by
    /// `change`.
    pub fn new_user(stack: KernelStack, frame: &Frame, change: impl FnOnce(&mut Frame)) -> Self {
        let mut state = Self::with(Some(stack), Start::Program);
        *state.frame.get_mut() = frame.clone();
        change(state.frame.get_mut());
        state
    }

    /// Creates the state of the thread that this CPU has been running since it started. Once.
    pub fn adopt_cpu() -> Self {
        let mut state = Self::with(None, Start::Begun);
        state.owner = Owner::runs();
        state
    }

    /// Never called: see [`Frame::set_single_step`].
    pub fn enter_debug(&self, _steps: bool) {}

    /// Whether a tracer has set hardware breakpoints: there are none.
    pub fn has_points(&self) -> bool {
        false
    }

    /// Does nothing: there are no vector registers.
    pub fn drop_vectors(&self) {}

    /// Whether it uses Arm's SVE: never.
    pub fn uses_sve(&self) -> bool {
        false
    }

    /// Whether it runs a 32-bit program: there are none.
    pub fn is_compat(&self) -> bool {
        false
    }

    /// Sets the thread pointer of a thread that is not running yet, or of the current one.
    pub fn set_tls(&self, tls: usize) {
        match self.is_current() {
            true => self.with_frame(|frame| frame.set_tls(tls)),
            false => self.with_stopped_frame(|frame| frame.set_tls(tls)),
        }
    }

    /// Resets the current thread's registers that a `Frame` does not contain: there are none.
    pub fn reset_user(&self) {}

    /// Stores the return addresses on its stack, which only the host's debugger knows: none.
    pub fn callers(&self, _room: &mut [usize]) -> usize {
        0
    }

    /// The saved user registers.
    pub(in crate::arch) fn frame_place(&self) -> *mut Frame {
        self.frame.get()
    }

    pub(in crate::arch) fn is_current(&self) -> bool {
        core::ptr::eq(self, cpu::this().current.get())
    }
}

/// Makes a thread from [`ThreadState::adopt_cpu`] the current one of this CPU.
///
/// # Safety
/// It is a complete [`Task`](task::Task) of the kernel, which lives until the CPU switches away
/// from it.
pub(in crate::arch) unsafe fn adopt(state: *const ThreadState) {
    // SAFETY: guaranteed by the caller.
    assert!(unsafe { &*state }.is_running());
    cpu::this().current.set(state);
}

/// Switches to `to`; returns when something switches back.
///
/// # Safety
/// Both are complete [`Task`](task::Task)s of the kernel, which live until the switch is complete.
pub(in crate::arch) unsafe fn switch(to: *const ThreadState) {
    let cpu = cpu::this();
    let previous = task::state();
    // SAFETY: guaranteed by the caller.
    let next = unsafe { &*to };
    next.owner.run();
    cpu.previous.set(cpu.current.replace(to));
    // Cloned, because the thread may be dropped before this call returns, or instead of its return.
    let own = previous.baton.clone();
    previous.owner.leave();
    match next.start.replace(Start::Begun) {
        Start::Begun => next.baton.give(),
        start => host_thread(move || begin(start)),
    }
    own.wait();
}

/// Stack size of a host thread in bytes: frames of unoptimized code are large.
const STACK: usize = 4 << 20;

/// Starts a host thread. One on which a kernel thread ended is left waiting.
pub(super) fn host_thread(f: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().stack_size(STACK).spawn(f);
    started.expect("the host has another thread");
}

/// The first code of a thread.
fn begin(start: Start) {
    let _no_unwind = NoUnwind;
    upcall::switched(task::take_previous());
    match start {
        Start::Kernel(entry, argument) => entry(argument),
        _ => program::run(),
    }
}

/// Runs the current thread's program from `frame` on.
pub fn enter_user(frame: &Frame) -> ! {
    task::state().with_frame(|own| *own = frame.clone());
    program::run()
}
