//! The hardware state of a thread, and context switches.

use alloc::boxed::Box;
use core::arch::{asm, naked_asm};
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

use super::branch::is_taken;
use super::cpu::{self, Cpu};
use super::entry;
use super::fp::{self, FpState};
use super::frame::{Frame, StackTop, pstate};
use super::pauth::{self, Authentication};
use super::points::{self, Points};
use super::sve::{self, Image, Lengths};
use super::sysreg::{read, write};
use super::tags::{self, Control};
use crate::arch::branch::Key;
use crate::arch::owner::Owner;
use crate::arch::task;
use crate::errno::Result;
use crate::mm::fault_inject::FailNth;
use crate::mm::vmalloc::KernelStack;
use crate::sync::lockdep;
use crate::upcall;

pub use crate::arch::work;

/// The state of a thread's program that a context switch saves and restores, as bits of
/// `ThreadState::moved`: if no bit is set, the thread pointers and V0 to V31.
mod moved {
    /// V0 to V31.
    pub const FP: u8 = 0;
    /// Not V0 to V31. Without other bits nothing, because the thread has no program.
    pub const NOT_FP: u8 = 1;
    /// The SVE registers.
    pub const SVE: u8 = NOT_FP | 1 << 1;
    /// Also the keys of pointer authentication, which need not be saved.
    pub const KEYS: u8 = 1 << 2;
    /// Also the tag check mode, which must be reset when switching away: hence combined with
    /// `NOT_FP`.
    pub const TAGS: u8 = 1 << 3;

    /// Whether `moved` includes the SVE registers.
    pub const fn has_sve(moved: u8) -> bool {
        moved & SVE == SVE
    }

    /// Whether `moved` includes the tag check mode.
    pub const fn has_tags(moved: u8) -> bool {
        moved & TAGS != 0
    }

    /// `moved` without the SVE registers.
    pub const fn without_sve(moved: u8) -> u8 {
        let not_fp = if has_tags(moved) { NOT_FP } else { 0 };
        moved & !SVE | not_fp
    }

    /// `moved` with or without the tag check mode.
    pub const fn with_tags(moved: u8, on: bool) -> u8 {
        match on {
            true => moved | NOT_FP | TAGS,
            false if has_sve(moved) => moved & !TAGS,
            false => moved & !(NOT_FP | TAGS),
        }
    }
}

/// The saved context of a thread that is switched out: the registers that a call preserves
/// (AAPCS64, section 6.1.1).
#[repr(C)]
struct Context {
    /// x19 to x29.
    x: [usize; 11],
    lr: usize,
    sp: usize,
}

/// The hardware's part of a thread: the first field of the kernel's [`Task`](task::Task).
#[repr(C)]
pub struct ThreadState {
    /// Reasons why the thread must not return to its program yet: bits of [`work`]. Anybody may set
    /// them.
    pub work: AtomicU32,
    pub(in crate::arch) owner: Owner,
    /// Bits of [`moved`].
    moved: AtomicU8,
    context: UnsafeCell<Context>,
    /// Address of the thread's `StackTop`.
    top: usize,
    /// TPIDR_EL0 while switched out.
    tls: AtomicUsize,
    /// TPIDRRO_EL0, which only the kernel can write: the thread pointer of a 32-bit program.
    compat_tls: AtomicUsize,
    /// The CPU on which FP/SIMD registers were last loaded for this thread.
    fp_cpu: AtomicUsize,
    /// The SVE registers, including V0 to V31, while the thread uses SVE.
    sve: UnsafeCell<Image>,
    sve_lengths: Cell<Lengths>,
    /// The breakpoints and watchpoints that a tracer set.
    points: UnsafeCell<Option<Box<Points>>>,
    /// Address and syndrome of the last fault that raised a signal.
    fault: Cell<(usize, usize)>,
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

const NO_CPU: usize = usize::MAX;

impl ThreadState {
    fn at(stack: Option<KernelStack>, top: usize, lr: usize, x19: usize, x20: usize) -> Self {
        let mut x = [0; 11];
        (x[0], x[1]) = (x19, x20);
        ThreadState {
            work: AtomicU32::new(0),
            owner: Owner::nobody(),
            moved: AtomicU8::new(moved::NOT_FP),
            context: UnsafeCell::new(Context { x, lr, sp: top }),
            top,
            tls: AtomicUsize::new(0),
            compat_tls: AtomicUsize::new(0),
            fp_cpu: AtomicUsize::new(NO_CPU),
            sve: UnsafeCell::new(Image::NONE),
            sve_lengths: Cell::new(Lengths::default()),
            points: UnsafeCell::new(None),
            fault: Cell::new((0, 0)),
            held: lockdep::Sleeping::new(),
            fail_nth: FailNth::new(),
            _stack: stack,
        }
    }

    /// Creates a kernel thread that will call `entry(argument)` when it is first switched to.
    pub fn new(stack: KernelStack, entry: fn(usize) -> !, argument: usize) -> Self {
        let top = stack_top(stack.top());
        Self::at(
            Some(stack),
            top,
            start as *const () as usize,
            entry as usize,
            argument,
        )
    }

    /// Creates a thread that will return to its program with a copy of `frame`, modified by
    /// `change`: a child of the current thread, with a copy of its FP/SIMD registers and thread
    /// pointer. It inherits the SVE vector lengths, the pointer authentication keys and the tag
    /// check mode, but not the SVE registers.
    #[inline(always)]
    pub fn new_user(stack: KernelStack, frame: &Frame, change: impl FnOnce(&mut Frame)) -> Self {
        let top = stack_top(stack.top());
        let to_user = entry::to_user as *const () as usize;
        let mut state = Self::at(Some(stack), top, start as *const () as usize, to_user, 0);
        // SAFETY: `top` lies in the new stack, which nothing else uses yet.
        change(unsafe {
            let own = &raw mut (*(top as *mut StackTop)).frame;
            own.write(frame.clone());
            &mut *own
        });
        *state.moved.get_mut() = moved::FP;
        *state.tls.get_mut() = read!("tpidr_el0");
        *state.compat_tls.get_mut() = read!("tpidrro_el0");
        // SAFETY: as above; any bytes are valid registers.
        fp::save(unsafe { &mut *state.fp() });
        if is_taken::<{ Key::MoreState as u32 }>() {
            state.inherit(task::state());
        }
        state
    }

    #[cold]
    #[inline(never)]
    fn inherit(&mut self, parent: &ThreadState) {
        self.sve_lengths = Cell::new(parent.sve_lengths());
        if pauth::present() {
            // SAFETY: the parent is the current thread, and only it changes its own state; the
            // child's lies in the new stack, which nothing else uses yet.
            unsafe { *self.authentication() = (*parent.authentication()).clone() };
            *self.moved.get_mut() = moved::FP | moved::KEYS;
        }
        if tags::has_tags() {
            let control = parent.tag_control();
            // SAFETY: the child's state lies in the new stack, which nothing else uses yet.
            unsafe { *self.tags() = control };
            let moved = *self.moved.get_mut();
            *self.moved.get_mut() = moved::with_tags(moved, control != Control::NONE);
        }
    }

    /// Creates the state of the thread that this CPU has been running since it started, on its
    /// initial stack. Once per CPU.
    pub fn adopt_cpu() -> Self {
        let mut state = Self::at(None, stack_top(cpu::this().start_stack.get()), 0, 0, 0);
        state.owner = Owner::runs();
        state
    }

    /// The saved FP and SIMD registers, behind the frame.
    fn fp(&self) -> *mut FpState {
        // SAFETY: inside the thread's stack, which lives as long as the thread.
        unsafe { &raw mut (*(self.top as *mut StackTop)).fp }
    }

    /// The keys of pointer authentication; any bytes are valid keys.
    fn authentication(&self) -> *mut Authentication {
        // SAFETY: inside the thread's stack, which lives as long as the thread.
        unsafe { &raw mut (*(self.top as *mut StackTop)).authentication }
    }

    /// Calls `f` with the current thread's pointer authentication state.
    pub(super) fn own_authentication<R>(&self, f: impl FnOnce(&mut Authentication) -> R) -> R {
        assert!(self.is_current());
        // SAFETY: belongs to the current thread; a tracer borrows it only while the thread is
        // stopped, and `f` cannot reach it a second time.
        f(unsafe { &mut *self.authentication() })
    }

    /// As [`ThreadState::with_stopped_frame`], with the pointer authentication state, which the
    /// next switch to the thread loads.
    pub(super) fn with_stopped_authentication<R>(
        &self,
        f: impl FnOnce(&mut Authentication) -> R,
    ) -> R {
        // SAFETY: inside the thread's stack; as in `with_stopped_frame`.
        self.owner
            .look(|| f(unsafe { &mut *self.authentication() }))
    }

    /// The saved tag check mode; any bytes are a valid mode.
    fn tags(&self) -> *mut Control {
        // SAFETY: inside the thread's stack, which lives as long as the thread.
        unsafe { &raw mut (*(self.top as *mut StackTop)).tags }
    }

    /// The tag check mode of a stopped thread, or of the current one.
    pub(super) fn tag_control(&self) -> Control {
        // SAFETY: as in `own_authentication`, and in `with_stopped_frame`.
        let read = || unsafe { *self.tags() };
        match self.is_current() {
            true => read(),
            false => self.owner.look(read),
        }
    }

    /// Changes the tag check mode of a stopped thread, or of the current one.
    pub(super) fn set_tag_control(&self, control: Control) {
        let change = || {
            // SAFETY: as in `tag_control`.
            unsafe { *self.tags() = control };
            let moved = self.moved.load(Relaxed);
            self.moved
                .store(moved::with_tags(moved, control != Control::NONE), Relaxed);
        };
        if self.is_current() {
            change();
            control.load();
        } else {
            self.owner.look(change);
        }
    }

    /// Reloads the current thread's pointer authentication state after another one was in this CPU.
    pub(super) fn load_authentication(&self) {
        if self.moved.load(Relaxed) & moved::KEYS != 0 {
            self.own_authentication(|own| own.load());
        }
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
        (context.lr, context.sp..self.top)
    }

    /// The thread pointer of a thread that is not running, or of the current one.
    pub fn tls(&self) -> usize {
        if self.is_current() {
            read!("tpidr_el0")
        } else {
            self.tls.load(Relaxed)
        }
    }

    /// Sets the thread pointer of a thread that is not running yet, or of the current one.
    pub fn set_tls(&self, tls: usize) {
        if self.is_compat() {
            self.set_compat_tls(tls);
        } else {
            self.set_native_tls(tls);
        }
    }

    /// Whether a thread that is not running, or the current one, runs a 32-bit program.
    pub fn is_compat(&self) -> bool {
        assert!(self.is_current() || !self.is_running());
        // SAFETY: the frame lies at the top of the stack. A single word is copied, whose width bit
        // changes only on exec.
        let pstate = unsafe { (&raw const (*(self.top as *const StackTop)).frame.pstate).read() };
        pstate & pstate::AARCH32 != 0
    }

    /// The thread pointer of a 32-bit program.
    pub fn compat_tls(&self) -> u32 {
        self.compat_tls.load(Relaxed) as u32
    }

    fn set_native_tls(&self, tls: usize) {
        self.tls.store(tls, Relaxed);
        if self.is_current() {
            // SAFETY: the register belongs to the program.
            unsafe { write!("tpidr_el0", tls) };
        }
    }

    fn set_compat_tls(&self, tls: usize) {
        self.compat_tls.store(tls, Relaxed);
        if self.is_current() {
            // SAFETY: the register belongs to the program.
            unsafe { write!("tpidrro_el0", tls) };
        }
    }

    /// Resets the program state that the current thread's `Frame` does not contain: FP/SIMD
    /// registers, thread pointers, breakpoints and watchpoints.
    pub fn reset_user(&self) {
        assert!(self.is_current());
        self.set_native_tls(0);
        self.set_compat_tls(0);
        // SAFETY: a cell of the current thread, which a tracer borrows only while the thread is
        // stopped.
        unsafe { *self.points.get() = None };
        if is_taken::<{ Key::MoreState as u32 }>() {
            self.reset_more();
        }
        fp::load(&FpState::new());
    }

    /// Ends SVE use, and generates new keys, for another program.
    #[cold]
    #[inline(never)]
    fn reset_more(&self) {
        self.end_sve();
        self.set_sve_lengths(self.sve_lengths().after_exec());
        if pauth::present() {
            self.own_authentication(|own| {
                *own = Authentication::random();
                own.load();
            });
        }
        if tags::has_tags() {
            self.set_tag_control(Control::NONE);
        }
    }

    /// Begins SVE use of the current thread, with the values of V0 to V31 and zero elsewhere. False
    /// if programs cannot use SVE.
    ///
    /// # Errors
    /// ENOMEM
    pub(super) fn begin_sve(&self) -> Result<bool> {
        if !sve::present() {
            return Ok(false);
        }
        let mut image = Image::zero(self.sve_lengths().now())?;
        let mut fp = FpState::new();
        fp::save(&mut fp);
        image.set_low(&fp.v);
        self.load_sve(image);
        Ok(true)
    }

    /// Loads `image`, which has the current thread's vector length, into this CPU as the current
    /// thread's.
    pub(super) fn load_sve(&self, image: Image) {
        image.load();
        self.own_sve(|own| *own = image);
        // A context switch always reloads them.
        self.fp_cpu.store(NO_CPU, Relaxed);
        let moved = self.moved.load(Relaxed);
        self.moved.store(moved | moved::SVE, Relaxed);
        if !moved::has_sve(moved) {
            upcall::syscalls_changed();
        }
    }

    /// Whether a thread that is not running, or the current one, uses SVE.
    pub fn uses_sve(&self) -> bool {
        moved::has_sve(self.moved.load(Relaxed))
    }

    /// Ends SVE use of the current thread: only V0 to V31 remain.
    pub(super) fn end_sve(&self) {
        if self.uses_sve() {
            self.own_sve(Image::drop_live);
            self.moved
                .store(moved::without_sve(self.moved.load(Relaxed)), Relaxed);
            upcall::syscalls_changed();
        }
    }

    /// Enables debugging before the current thread's program runs: it stops at its points, and
    /// after each instruction if it `steps`.
    pub fn enter_debug(&self, steps: bool) {
        assert!(self.is_current());
        // SAFETY: a cell of the current thread, which a tracer borrows only while the thread is
        // stopped.
        let points = unsafe { &*self.points.get() };
        points::enter(points.as_deref().filter(|points| points.are_on()), steps);
    }

    /// Whether a tracer has set enabled points for a stopped thread.
    pub fn has_points(&self) -> bool {
        self.with_stopped_points(|points| points.as_ref().is_some_and(|points| points.are_on()))
    }

    /// As [`ThreadState::with_stopped_frame`], with the points that a tracer set.
    pub(super) fn with_stopped_points<R>(
        &self,
        f: impl FnOnce(&mut Option<Box<Points>>) -> R,
    ) -> R {
        // SAFETY: as in `with_stopped_frame`.
        self.owner.look(|| f(unsafe { &mut *self.points.get() }))
    }

    /// Calls `f` with the current thread's SVE image, whose registers are in this CPU. `f` must not
    /// access program memory.
    pub(super) fn own_sve<R>(&self, f: impl FnOnce(&mut Image) -> R) -> R {
        assert!(self.is_current());
        // SAFETY: a cell of the current thread, which only this and the context switch borrow.
        f(unsafe { &mut *self.sve.get() })
    }

    /// The vector lengths requested by a thread that is not running, or by the current one.
    pub(super) fn sve_lengths(&self) -> Lengths {
        assert!(self.is_current() || !self.is_running());
        self.sve_lengths.get()
    }

    /// Sets the requested vector lengths.
    pub(super) fn set_sve_lengths(&self, lengths: Lengths) {
        assert!(self.is_current() || !self.is_running());
        self.sve_lengths.set(lengths);
    }

    /// Records the address and the syndrome that a fault signal will report.
    pub(super) fn set_fault(&self, address: usize, syndrome: usize) {
        assert!(self.is_current());
        self.fault.set((address, syndrome));
    }

    /// Address and syndrome of the current thread's last fault that raised a signal.
    pub(super) fn fault(&self) -> (usize, usize) {
        assert!(self.is_current());
        self.fault.get()
    }

    /// As [`ThreadState::with_stopped_frame`], with the floating-point registers, which the next
    /// switch to the thread loads.
    pub(super) fn with_stopped_fp<R>(&self, f: impl FnOnce(&mut FpState) -> R) -> R {
        self.owner.look(|| {
            self.fp_cpu.store(NO_CPU, Relaxed);
            // SAFETY: as in `with_stopped_frame`.
            let (fp, image) = unsafe { (&mut *self.fp(), &mut *self.sve.get()) };
            if image.is_none() {
                return f(fp);
            }
            image.low(&mut fp.v);
            let result = f(fp);
            image.set_low(&fp.v);
            result
        })
    }

    /// As [`ThreadState::with_stopped_frame`], with the SVE registers: the thread uses SVE from now
    /// on if the image is not empty.
    pub(super) fn with_stopped_sve<R>(&self, f: impl FnOnce(&mut Image) -> R) -> R {
        self.owner.look(|| {
            // SAFETY: as in `with_stopped_frame`.
            let image = unsafe { &mut *self.sve.get() };
            let result = f(image);
            let sve = if image.is_none() { 0 } else { moved::SVE };
            self.moved
                .store(moved::without_sve(self.moved.load(Relaxed)) | sve, Relaxed);
            result
        })
    }

    /// Saves the program's registers in this CPU, before a switch away from the thread.
    #[inline(always)]
    fn leave(&self) {
        if self.moved.load(Relaxed) & moved::NOT_FP == 0 {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: belongs to the thread that this CPU runs.
            fp::save(unsafe { &mut *self.fp() });
        } else {
            self.leave_more();
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_more(&self) {
        let moved = self.moved.load(Relaxed);
        if moved::has_tags(moved) {
            // SAFETY: belongs to the thread that this CPU runs.
            unsafe { *self.tags() }.unload();
        }
        if moved::has_sve(moved) {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: belongs to the thread that this CPU runs.
            let (fp, image) = unsafe { (&mut *self.fp(), &mut *self.sve.get()) };
            fp::save_control(fp);
            image.leave();
        } else if moved::has_tags(moved) {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: belongs to the thread that this CPU runs.
            fp::save(unsafe { &mut *self.fp() });
        }
    }

    /// Makes this the thread that `cpu`, which is this CPU, runs, and loads what
    /// [`ThreadState::leave`] saved, except FP and SIMD registers that this CPU still has.
    #[inline(always)]
    fn enter(&self, cpu: &'static Cpu) {
        let top = self.top as *mut StackTop;
        // SAFETY: inside the thread's stack, above its used part.
        unsafe { (*top).cpu = cpu };
        if self.moved.load(Relaxed) == moved::FP {
            self.load_fp(cpu);
        } else {
            self.enter_with_more(cpu);
        }
    }

    #[inline(always)]
    fn load_fp(&self, cpu: &'static Cpu) {
        self.load_tls();
        if !core::ptr::eq(cpu.fp_owner.get(), self) || self.fp_cpu.load(Relaxed) != cpu.index() {
            // SAFETY: only this CPU runs the thread from now on.
            fp::load(unsafe { &*self.fp() });
            cpu.fp_owner.set(self);
            self.fp_cpu.store(cpu.index(), Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_with_more(&self, cpu: &'static Cpu) {
        let moved = self.moved.load(Relaxed);
        if moved & moved::KEYS != 0 {
            // SAFETY: only this CPU runs the thread from now on.
            unsafe { &*self.authentication() }.load();
        }
        if moved & moved::NOT_FP == 0 {
            self.load_fp(cpu);
        } else {
            self.enter_with_most(cpu, moved);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_with_most(&self, cpu: &'static Cpu, moved: u8) {
        if moved::has_tags(moved) {
            // SAFETY: only this CPU runs the thread from now on.
            unsafe { *self.tags() }.load();
        }
        if moved::has_sve(moved) {
            self.load_tls();
            // SAFETY: only this CPU runs the thread from now on.
            let (fp, image) = unsafe { (&*self.fp(), &*self.sve.get()) };
            fp::load_control(fp);
            image.load();
            cpu.fp_owner.set(core::ptr::null());
        } else if moved::has_tags(moved) {
            self.load_fp(cpu);
        }
    }

    #[inline(always)]
    fn load_tls(&self) {
        const { assert!(offset_of!(Self, compat_tls) == offset_of!(Self, tls) + 8) };
        // SAFETY: the registers belong to the program; nobody else writes these two words of the
        // thread while it is switched to.
        unsafe {
            asm!(
                "ldp {wide}, {compat}, [{state}, {tls}]",
                "msr tpidr_el0, {wide}",
                "msr tpidrro_el0, {compat}",
                state = in(reg) self,
                tls = const offset_of!(Self, tls),
                wide = out(reg) _,
                compat = out(reg) _,
                options(nostack, preserves_flags, readonly),
            )
        };
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
    cpu.current.set(state);
    thread.enter(cpu);
}

/// Saves the current thread's state in this CPU, and switches to `to`; returns when something
/// switches back.
///
/// # Safety
/// Both are complete [`Task`](task::Task)s of the kernel, which live until the switch is complete.
#[inline(always)]
pub(in crate::arch) unsafe fn switch(to: *const ThreadState) {
    let cpu = cpu::this();
    let previous = cpu.current.get();
    assert!(!previous.is_null());
    cpu.previous.set(previous);
    // SAFETY: the CPU still owns its reference to the former, and the caller guarantees the latter.
    let (previous, next) = unsafe { (&*previous, &*to) };
    next.owner.run();
    previous.leave();
    cpu.current.set(to);
    next.enter(cpu);
    // SAFETY: both contexts belong to this CPU now, and `next`'s was made by `at` or by an earlier
    // call of this function.
    unsafe { switch_context(previous.context.get(), next.context.get(), &previous.owner) }
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
        "mov x9, sp",
        "stp x19, x20, [x0, {x}]",
        "stp x21, x22, [x0, {x} + 16]",
        "stp x23, x24, [x0, {x} + 32]",
        "stp x25, x26, [x0, {x} + 48]",
        "stp x27, x28, [x0, {x} + 64]",
        "stp x29, x30, [x0, {x} + 80]",
        "str x9, [x0, {sp}]",
        "ldp x19, x20, [x1, {x}]",
        "ldp x21, x22, [x1, {x} + 16]",
        "ldp x23, x24, [x1, {x} + 32]",
        "ldp x25, x26, [x1, {x} + 48]",
        "ldp x27, x28, [x1, {x} + 64]",
        "ldp x29, x30, [x1, {x} + 80]",
        "ldr x9, [x1, {sp}]",
        "mov sp, x9",
        "stlr wzr, [x2]",
        "ret",
        x = const offset_of!(Context, x),
        sp = const offset_of!(Context, sp),
    )
}

const _: () = assert!(offset_of!(Context, lr) == offset_of!(Context, x) + 88);

/// First instructions of a thread: calls `x19(x20)` after the scheduler was notified that the
/// switch is complete.
#[unsafe(naked)]
unsafe extern "C" fn start() {
    naked_asm!(
        "mov x29, xzr",
        "bl {switched}",
        "mov x0, x20",
        "mov x30, xzr",
        "br x19",
        switched = sym switched,
    )
}

extern "C" fn switched() {
    upcall::switched(task::take_previous());
}

/// Runs the current thread's program from `frame` on. Discards the thread's stack below its top.
pub fn enter_user(frame: &Frame) -> ! {
    let state = task::state();
    let keys = if pauth::present() { moved::KEYS } else { 0 };
    state.moved.store(moved::FP | keys, Relaxed);
    state.with_frame(|own| *own = frame.clone());
    // SAFETY: the frame at the top is complete.
    unsafe { entry::leave_to_user(state.top) }
}
