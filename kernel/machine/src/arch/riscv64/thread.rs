//! The hardware state of a thread, and context switches.

extern crate alloc;

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::AtomicU32;

use super::cpu::{self, Cpu};
use super::frame::{Frame, StackTop};
use super::{entry, units};
use crate::arch::owner::Owner;
use crate::arch::task;
use crate::mm::fault_inject::FailNth;
use crate::mm::vmalloc::KernelStack;
use crate::sync::lockdep::{self, NoSleep};
use crate::upcall;

pub use crate::arch::work;

/// The saved context of a thread that is switched out: the registers that a call preserves (RISC-V
/// ELF psABI, section 2.1).
#[repr(C)]
struct Context {
    ra: usize,
    sp: usize,
    /// The program's: the kernel does not use it, and the fast entry and exit paths leave it in
    /// place.
    gp: usize,
    s: [usize; 12],
}

/// The hardware's part of a thread: the first field of the kernel's [`Task`](task::Task).
#[repr(C)]
pub struct ThreadState {
    /// Reasons why the thread must not return to its program yet: bits of [`work`]. Anybody may set
    /// them.
    pub work: AtomicU32,
    pub(in crate::arch) owner: Owner,
    context: UnsafeCell<Context>,
    /// Address of the thread's `StackTop`.
    top: usize,
    units: UnsafeCell<units::State>,
    /// The sleeping locks that the thread holds.
    pub held: lockdep::Sleeping,
    /// Which of the thread's allocations fails.
    pub fail_nth: FailNth,
    /// Owns the stack for the lifetime of the thread.
    _stack: Option<KernelStack>,
}

// SAFETY: the cells are accessed by the CPU that runs the thread, of which `owner` permits one at a
// time, by one that inspects the thread while no CPU runs it, or through `&mut`.
unsafe impl Sync for ThreadState {}
// SAFETY: as above; nothing in it belongs to a CPU.
unsafe impl Send for ThreadState {}

impl ThreadState {
    fn with(stack: Option<KernelStack>, end: usize, entry: usize, argument: usize) -> Self {
        let top = stack_top(end);
        let mut s = [0; 12];
        (s[1], s[2]) = (entry, argument);
        ThreadState {
            work: AtomicU32::new(0),
            owner: Owner::nobody(),
            context: UnsafeCell::new(Context {
                ra: start as *const () as usize,
                sp: top,
                gp: 0,
                s,
            }),
            top,
            units: UnsafeCell::new(units::State::new()),
            held: lockdep::Sleeping::new(),
            fail_nth: FailNth::new(),
            _stack: stack,
        }
    }

    /// Creates a kernel thread that will call `entry(argument)` when it is first switched to.
    pub fn new(stack: KernelStack, entry: fn(usize) -> !, argument: usize) -> Self {
        let end = stack.top();
        Self::with(Some(stack), end, entry as usize, argument)
    }

    /// Creates a thread that will return to its program with a copy of `frame`, modified by
    /// `change`: a child of the current thread, with a copy of its floating-point registers.
    #[inline(always)]
    pub fn new_user(stack: KernelStack, frame: &Frame, change: impl FnOnce(&mut Frame)) -> Self {
        let end = stack.top();
        let mut state = Self::with(
            Some(stack),
            end,
            entry::return_full as *const () as usize,
            0,
        );
        // SAFETY: `top` lies in the new stack, which nothing else uses yet.
        change(unsafe {
            let own = &raw mut (*(state.top as *mut StackTop)).frame;
            own.write(frame.clone());
            &mut *own
        });
        let units = state.units.get_mut();
        cpu::this().thread().own_units(|own| own.fork(units));
        state
    }

    /// Creates the state of the thread that this CPU has been running since it started, on its
    /// initial stack. Once per CPU.
    pub fn adopt_cpu() -> Self {
        let mut state = Self::with(None, cpu::this().start_stack.get(), 0, 0);
        state.owner = Owner::runs();
        state
    }

    /// Never called: see [`Frame::set_single_step`].
    pub fn enter_debug(&self, _steps: bool) {}

    /// Whether a tracer has set hardware breakpoints: there are none.
    pub fn has_points(&self) -> bool {
        false
    }

    /// Does nothing: calls preserve vector registers.
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

    /// Resets the current thread's registers that a `Frame` does not contain: for execve.
    pub fn reset_user(&self) {
        self.own_units(units::State::reset);
    }

    /// As [`ThreadState::with_stopped_frame`], with the state of units, which the next switch to
    /// the thread loads.
    pub(super) fn with_stopped_units<R>(&self, f: impl FnOnce(&mut units::State) -> R) -> R {
        // SAFETY: as in `with_stopped_frame`.
        self.owner.look(|| f(unsafe { &mut *self.units.get() }))
    }

    /// Calls `f` with the saved state of the current thread's units. `f` must not call this again.
    pub(super) fn own_units<R>(&self, f: impl FnOnce(&mut units::State) -> R) -> R {
        assert!(self.is_current());
        let _no_sleep = NoSleep::begin();
        // SAFETY: a cell of the current thread, which only this and the context switch borrow, and
        // the callers' closures neither switch nor sleep.
        f(unsafe { &mut *self.units.get() })
    }

    /// The saved user registers: at the top of the thread's stack.
    pub(in crate::arch) fn frame_place(&self) -> *mut Frame {
        // SAFETY: inside the thread's stack, which lives as long as the thread.
        unsafe { &raw mut (*(self.top as *mut StackTop)).frame }
    }

    /// The address at which the thread continues, and the used part of its stack.
    ///
    /// # Safety
    /// No CPU runs it: inside [`Owner::look`].
    pub(in crate::arch) unsafe fn place_in_kernel(&self) -> (usize, Range<usize>) {
        // SAFETY: only a switch of this thread writes the context.
        let context = unsafe { &*self.context.get() };
        (context.ra, context.sp..self.top)
    }

    /// Makes this the thread that `cpu`, which is this CPU, runs.
    fn enter(&self, cpu: &'static Cpu) {
        // SAFETY: `top` is inside the thread's stack, above its used part. If this hart has not
        // seen the stack's mapping yet, this access recovers from that, before the entry from a
        // program relies on it.
        unsafe { (*(self.top as *mut StackTop)).cpu = cpu };
    }

    #[inline(always)]
    pub(in crate::arch) fn is_current(&self) -> bool {
        core::ptr::eq(self, cpu::this().current.get())
    }
}

fn stack_top(end: usize) -> usize {
    end - size_of::<StackTop>()
}

/// Makes a thread from [`ThreadState::adopt_cpu`] the current one of this CPU.
///
/// # Safety
/// It is a complete [`Task`](task::Task) of the kernel, which lives until the CPU switches away
/// from it.
pub(in crate::arch) unsafe fn adopt(state: *const ThreadState) {
    let cpu = cpu::this();
    // SAFETY: guaranteed by the caller.
    let thread = unsafe { &*state };
    assert!(thread.is_running() && thread.top == stack_top(cpu.start_stack.get()));
    thread.enter(cpu);
    cpu.current.set(state);
}

/// Saves the current thread's state in this hart, and switches to `to`; returns when something
/// switches back.
///
/// # Safety
/// Both are complete [`Task`](task::Task)s of the kernel, which live until the switch is complete.
#[inline(always)]
pub(in crate::arch) unsafe fn switch(to: *const ThreadState) {
    let cpu = cpu::this();
    cpu.previous.set(cpu.current.get());
    let previous = task::state();
    // SAFETY: guaranteed by the caller.
    let next = unsafe { &*to };
    next.owner.run();
    // SAFETY: `previous` runs here, and only this CPU runs `next` from now on.
    unsafe {
        (*previous.units.get()).leave();
        (*next.units.get()).enter();
    }
    next.enter(cpu);
    cpu.current.set(to);
    // SAFETY: both contexts belong to this CPU now, and `next`'s was made by `with` or by an
    // earlier call of this function.
    unsafe { switch_context(previous.context.get(), next.context.get(), &previous.owner) };
}

/// Stores (`sd`) or loads (`ld`) a context at `$base`.
macro_rules! context {
    ($op:literal, $base:literal) => {
        context!($op, $base: 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($op:literal, $base:literal: $($n:literal)*) => {
        concat!(
            $op, " ra, {ra}(", $base, ")\n", $op, " sp, {sp}(", $base, ")\n",
            $op, " gp, {gp}(", $base, ")\n",
            $($op, " s", $n, ", {s} + 8 * ", $n, "(", $base, ")\n"),*
        )
    };
}

/// Saves the registers that a call preserves, loads those of `next`, and lets others switch to the
/// previous thread, whose stack is no longer in use.
#[unsafe(naked)]
unsafe extern "C" fn switch_context(
    previous: *mut Context,
    next: *const Context,
    owner: *const Owner,
) {
    naked_asm!(
        ".option push",
        ".option arch, +a",
        context!("sd", "a0"),
        // A reservation of `previous` must not remain valid for `next`: this ends it, whether or
        // not it stores.
        "addi t0, a0, {ra}",
        "sc.d t1, ra, (t0)",
        context!("ld", "a1"),
        "fence rw, w",
        "sw zero, (a2)",
        "ret",
        ".option pop",
        ra = const offset_of!(Context, ra),
        sp = const offset_of!(Context, sp),
        gp = const offset_of!(Context, gp),
        s = const offset_of!(Context, s),
    )
}

/// First instructions of a thread: calls `s1(s2)` after the scheduler was notified that the switch
/// is complete.
#[unsafe(naked)]
unsafe extern "C" fn start() {
    naked_asm!(
        "mv s0, zero",
        "call {switched}",
        "mv a0, s2",
        "mv ra, zero",
        "jr s1",
        switched = sym switched,
    )
}

extern "C" fn switched() {
    upcall::switched(task::take_previous());
}

/// Runs the current thread's program from `frame` on. Discards the thread's stack below its top.
pub fn enter_user(frame: &Frame) -> ! {
    let state = task::state();
    state.with_frame(|own| *own = frame.clone());
    // SAFETY: the frame at the top is complete.
    unsafe { entry::leave_to_user(state.top) }
}
