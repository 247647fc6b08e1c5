//! Threads, each on one of the host's, and switching from one to another.

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
use crate::mm::vmalloc::KernelStack;
use crate::sync::lockdep;
use crate::upcall;

pub use crate::arch::work;

/// What a thread does when it is first switched to.
#[derive(Clone, Copy)]
enum Start {
    /// It has begun.
    Begun,
    Kernel(fn(usize) -> !, usize),
    Program,
}

/// The hardware's part of a thread: the first field of the kernel's [`Task`](task::Task).
#[repr(C)]
pub struct ThreadState {
    /// Why the thread must not return to its program yet: bits of [`work`]. Anybody may set them.
    pub work: AtomicU32,
    pub(in crate::arch) owner: Owner,
    start: Cell<Start>,
    baton: Arc<Baton>,
    frame: UnsafeCell<Frame>,
    /// The sleeping locks that it holds.
    pub held: lockdep::Sleeping,
    /// Counted as on other machines.
    _stack: Option<KernelStack>,
}

// SAFETY: the cells are touched by the host's thread that has the CPU, or through `&mut`.
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
            _stack: stack,
        }
    }

    /// A thread of the kernel that will call `entry(argument)` when it is first switched to.
    pub fn new(stack: KernelStack, entry: fn(usize) -> !, argument: usize) -> Self {
        Self::with(Some(stack), Start::Kernel(entry, argument))
    }

    /// A thread that will return to its program with a copy of `frame` as `change` leaves it.
    pub fn new_user(stack: KernelStack, frame: &Frame, change: impl FnOnce(&mut Frame)) -> Self {
        let mut state = Self::with(Some(stack), Start::Program);
        *state.frame.get_mut() = frame.clone();
        change(state.frame.get_mut());
        state
    }

    /// The thread that this CPU has been running since it started. Once.
    pub fn adopt_cpu() -> Self {
        let mut state = Self::with(None, Start::Begun);
        state.owner = Owner::runs();
        state
    }

    /// Never asked for: see [`Frame::set_single_step`].
    pub fn enter_debug(&self, _steps: bool) {}

    /// Whether a tracer set breakpoints of the hardware: there are none.
    pub fn has_points(&self) -> bool {
        false
    }

    /// Calls keep what it has in vector registers.
    pub fn drop_vectors(&self) {}

    /// Whether it uses Arm's vectors: there are none.
    pub fn uses_sve(&self) -> bool {
        false
    }

    /// Whether the program has 32 bits: there are none.
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

    /// Zeroes the current thread's registers that a `Frame` does not hold: there are none.
    pub fn reset_user(&self) {}

    /// The return addresses on its stack, which the host's debugger knows: none.
    pub fn callers(&self, _room: &mut [usize]) -> usize {
        0
    }

    /// Where the user registers are kept.
    pub(in crate::arch) fn frame_place(&self) -> *mut Frame {
        self.frame.get()
    }

    pub(in crate::arch) fn is_current(&self) -> bool {
        core::ptr::eq(self, cpu::this().current.get())
    }
}

/// Makes the thread whose state this is, from [`ThreadState::adopt_cpu`], the current one of this
/// CPU.
///
/// # Safety
/// It is one of the kernel's [`Task`](task::Task)s, whole, which lives until the CPU leaves it.
pub(in crate::arch) unsafe fn adopt(state: *const ThreadState) {
    // SAFETY: the caller's promise.
    assert!(unsafe { &*state }.is_running());
    cpu::this().current.set(state);
}

/// Goes on as `to`; returns when something switches back.
///
/// # Safety
/// Both are the kernel's [`Task`](task::Task)s, whole, which live until the switch is complete.
pub(in crate::arch) unsafe fn switch(to: *const ThreadState) {
    let cpu = cpu::this();
    let previous = task::state();
    // SAFETY: the caller's promise.
    let next = unsafe { &*to };
    next.owner.run();
    cpu.previous.set(cpu.current.replace(to));
    // The thread may end before this call returns, or without that.
    let own = previous.baton.clone();
    previous.owner.leave();
    match next.start.replace(Start::Begun) {
        Start::Begun => next.baton.give(),
        start => host_thread(move || begin(start)),
    }
    own.wait();
}

/// Bytes of a host thread's stack: frames of code that is not optimised are large.
const STACK: usize = 4 << 20;

/// Starts a thread of the host. One that a thread of the kernel ended on stays, and waits.
pub(super) fn host_thread(f: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().stack_size(STACK).spawn(f);
    started.expect("the host has another thread");
}

/// What a thread does first.
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
