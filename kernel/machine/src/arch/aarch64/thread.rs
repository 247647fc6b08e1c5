//! What the hardware holds for a thread, and switching from one to another.

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
use crate::mm::vmalloc::KernelStack;
use crate::sync::lockdep;
use crate::upcall;

pub use crate::arch::work;

/// What a switch moves of a thread's program, as bits of `ThreadState::moved`: where none is set
/// its thread pointers with V0 to V31.
mod moved {
    /// V0 to V31.
    pub const FP: u8 = 0;
    /// Not V0 to V31; with no other bit nothing, because it has no program.
    pub const NOT_FP: u8 = 1;
    /// SVE's registers.
    pub const SVE: u8 = NOT_FP | 1 << 1;
    /// Also the keys of pointer authentication, which need not be saved.
    pub const KEYS: u8 = 1 << 2;
    /// Also how its tags are checked, which ends when it is left: so this goes with `NOT_FP`.
    pub const TAGS: u8 = 1 << 3;

    /// Whether it is SVE's registers.
    pub const fn has_sve(moved: u8) -> bool {
        moved & SVE == SVE
    }

    /// Whether it is how its tags are checked.
    pub const fn has_tags(moved: u8) -> bool {
        moved & TAGS != 0
    }

    /// `moved` without SVE's registers.
    pub const fn without_sve(moved: u8) -> u8 {
        let not_fp = if has_tags(moved) { NOT_FP } else { 0 };
        moved & !SVE | not_fp
    }

    /// `moved` with how tags are checked, or without.
    pub const fn with_tags(moved: u8, on: bool) -> u8 {
        match on {
            true => moved | NOT_FP | TAGS,
            false if has_sve(moved) => moved & !TAGS,
            false => moved & !(NOT_FP | TAGS),
        }
    }
}

/// Where a thread that is switched out goes on: what a call keeps (AAPCS64, section 6.1.1).
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
    /// Why the thread must not return to its program yet: bits of [`work`]. Anybody may set them.
    pub work: AtomicU32,
    pub(in crate::arch) owner: Owner,
    /// Bits of [`moved`].
    moved: AtomicU8,
    context: UnsafeCell<Context>,
    /// Address of the `StackTop`.
    top: usize,
    /// TPIDR_EL0 while switched out.
    tls: AtomicUsize,
    /// TPIDRRO_EL0, which only the kernel writes: the thread pointer of a 32-bit program.
    compat_tls: AtomicUsize,
    /// The CPU whose FP/SIMD registers were loaded for this thread last.
    fp_cpu: AtomicUsize,
    /// While it uses SVE; V0 to V31 are in it then.
    sve: UnsafeCell<Image>,
    sve_lengths: Cell<Lengths>,
    /// Breakpoints and watchpoints that a tracer set.
    points: UnsafeCell<Option<Box<Points>>>,
    /// Address and syndrome of the last fault that earned a signal.
    fault: Cell<(usize, usize)>,
    /// The sleeping locks that it holds.
    pub held: lockdep::Sleeping,
    /// Keeps the stack for as long as the thread.
    _stack: Option<KernelStack>,
}

// SAFETY: the cells are touched by the CPU that runs the thread, which `owner` makes one at a
// time, by one that looks into it while none does, or through `&mut`.
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
            _stack: stack,
        }
    }

    /// A thread of the kernel that will call `entry(argument)` when it is first switched to.
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

    /// A thread that will return to its program with a copy of `frame` as `change` leaves it: a
    /// child of the current thread, with a copy of its FP/SIMD registers and thread pointer. It
    /// inherits the SVE vector lengths but not the SVE registers, and what signs addresses.
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
        // SAFETY: as above; any bytes are registers.
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
            // SAFETY: the parent is the current thread, which alone changes its own; the child's
            // lies in the new stack, which nothing else uses yet.
            unsafe { *self.authentication() = (*parent.authentication()).clone() };
            *self.moved.get_mut() = moved::FP | moved::KEYS;
        }
        if tags::has_tags() {
            let control = parent.tag_control();
            // SAFETY: the child's lies in the new stack, which nothing else uses yet.
            unsafe { *self.tags() = control };
            let moved = *self.moved.get_mut();
            *self.moved.get_mut() = moved::with_tags(moved, control != Control::NONE);
        }
    }

    /// The thread that this CPU has been running since it started, on the stack that it started on.
    /// Once per CPU.
    pub fn adopt_cpu() -> Self {
        let mut state = Self::at(None, stack_top(cpu::this().start_stack.get()), 0, 0, 0);
        state.owner = Owner::runs();
        state
    }

    /// Where FP and SIMD registers are kept, behind the frame.
    fn fp(&self) -> *mut FpState {
        // SAFETY: inside the thread's stack, which lives as long as it.
        unsafe { &raw mut (*(self.top as *mut StackTop)).fp }
    }

    /// Where the keys of pointer authentication are kept; any bytes are keys.
    fn authentication(&self) -> *mut Authentication {
        // SAFETY: inside the thread's stack, which lives as long as it.
        unsafe { &raw mut (*(self.top as *mut StackTop)).authentication }
    }

    /// Calls `f` with what the current thread signs with.
    pub(super) fn own_authentication<R>(&self, f: impl FnOnce(&mut Authentication) -> R) -> R {
        assert!(self.is_current());
        // SAFETY: the current thread's own, which a tracer borrows while the thread is stopped, and
        // which `f` cannot reach a second time.
        f(unsafe { &mut *self.authentication() })
    }

    /// As [`ThreadState::with_stopped_frame`], with what it signs with, which its next switch
    /// loads.
    pub(super) fn with_stopped_authentication<R>(
        &self,
        f: impl FnOnce(&mut Authentication) -> R,
    ) -> R {
        // SAFETY: inside the thread's stack; as in `with_stopped_frame`.
        self.owner
            .look(|| f(unsafe { &mut *self.authentication() }))
    }

    /// Where it is kept how tags are checked; any bytes say how.
    fn tags(&self) -> *mut Control {
        // SAFETY: inside the thread's stack, which lives as long as it.
        unsafe { &raw mut (*(self.top as *mut StackTop)).tags }
    }

    /// How the tags of a thread are checked that is stopped, or the current one.
    pub(super) fn tag_control(&self) -> Control {
        // SAFETY: as in `own_authentication`, and in `with_stopped_frame`.
        let read = || unsafe { *self.tags() };
        match self.is_current() {
            true => read(),
            false => self.owner.look(read),
        }
    }

    /// Changes that.
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

    /// Loads what the current thread signs with after somebody else's keys were in this CPU.
    pub(super) fn load_authentication(&self) {
        if self.moved.load(Relaxed) & moved::KEYS != 0 {
            self.own_authentication(|own| own.load());
        }
    }

    /// Where the user registers are kept: at the top of the thread's stack, above all that is in
    /// use.
    pub(in crate::arch) fn frame_place(&self) -> *mut Frame {
        // SAFETY: inside the thread's stack, which lives as long as it.
        unsafe { &raw mut (*(self.top as *mut StackTop)).frame }
    }

    /// Where the thread goes on, and the part of its stack that is in use.
    ///
    /// # Safety
    /// No CPU runs it: inside [`Owner::look`].
    pub(in crate::arch) unsafe fn place_in_kernel(&self) -> (usize, Range<usize>) {
        // SAFETY: only its switch writes the context.
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

    /// Whether the program of a thread that does not run, or of the current one, has 32 bits.
    pub fn is_compat(&self) -> bool {
        assert!(self.is_current() || !self.is_running());
        // SAFETY: the frame lies at the top of the stack. One word is copied, which changes its
        // width with another program only.
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
            // SAFETY: the program's own register.
            unsafe { write!("tpidr_el0", tls) };
        }
    }

    fn set_compat_tls(&self, tls: usize) {
        self.compat_tls.store(tls, Relaxed);
        if self.is_current() {
            // SAFETY: the program's own register.
            unsafe { write!("tpidrro_el0", tls) };
        }
    }

    /// Zeroes what the current thread's `Frame` does not hold of its program: FP/SIMD registers,
    /// thread pointer.
    pub fn reset_user(&self) {
        assert!(self.is_current());
        self.set_native_tls(0);
        self.set_compat_tls(0);
        // SAFETY: the current thread's own cell, which a tracer borrows while the thread is
        // stopped.
        unsafe { *self.points.get() = None };
        if is_taken::<{ Key::MoreState as u32 }>() {
            self.reset_more();
        }
        fp::load(&FpState::new());
    }

    /// Another program begins without SVE's registers, and with keys of its own.
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

    /// The current thread uses SVE from now on, with what V0 to V31 hold and zero elsewhere. False
    /// if programs have none.
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

    /// Loads `image`, which is of the current thread's length, into this CPU as the current
    /// thread's.
    pub(super) fn load_sve(&self, image: Image) {
        image.load();
        self.own_sve(|own| *own = image);
        // At each switch they are loaded anew.
        self.fp_cpu.store(NO_CPU, Relaxed);
        let moved = self.moved.load(Relaxed);
        self.moved.store(moved | moved::SVE, Relaxed);
        if !moved::has_sve(moved) {
            upcall::syscalls_changed();
        }
    }

    /// Whether a thread that does not run, or the current one, uses SVE.
    pub fn uses_sve(&self) -> bool {
        moved::has_sve(self.moved.load(Relaxed))
    }

    /// The current thread uses SVE no more: only V0 to V31 stay.
    pub(super) fn end_sve(&self) {
        if self.uses_sve() {
            self.own_sve(Image::drop_live);
            self.moved
                .store(moved::without_sve(self.moved.load(Relaxed)), Relaxed);
            upcall::syscalls_changed();
        }
    }

    /// The current thread's program goes on, debugged: it stops at its points, and after each
    /// instruction if it `steps`.
    pub fn enter_debug(&self, steps: bool) {
        assert!(self.is_current());
        // SAFETY: the current thread's own cell, which a tracer borrows while the thread is
        // stopped.
        let points = unsafe { &*self.points.get() };
        points::enter(points.as_deref().filter(|points| points.are_on()), steps);
    }

    /// Whether a tracer set points that are on for a thread that is stopped.
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

    /// Calls `f` with the current thread's image, whose registers are in this CPU. It must not
    /// touch a program's memory.
    pub(super) fn own_sve<R>(&self, f: impl FnOnce(&mut Image) -> R) -> R {
        assert!(self.is_current());
        // SAFETY: the current thread's own cell, which only this and the switch borrow.
        f(unsafe { &mut *self.sve.get() })
    }

    /// The lengths that a thread that does not run, or the current one, asked for.
    pub(super) fn sve_lengths(&self) -> Lengths {
        assert!(self.is_current() || !self.is_running());
        self.sve_lengths.get()
    }

    /// Sets them.
    pub(super) fn set_sve_lengths(&self, lengths: Lengths) {
        assert!(self.is_current() || !self.is_running());
        self.sve_lengths.set(lengths);
    }

    /// Remembers what a fault signal will report: the address and the syndrome.
    pub(super) fn set_fault(&self, address: usize, syndrome: usize) {
        assert!(self.is_current());
        self.fault.set((address, syndrome));
    }

    /// Address and syndrome of the current thread's last fault that earned a signal.
    pub(super) fn fault(&self) -> (usize, usize) {
        assert!(self.is_current());
        self.fault.get()
    }

    /// As [`ThreadState::with_stopped_frame`], with the floating-point registers, which its next
    /// switch loads.
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

    /// As [`ThreadState::with_stopped_frame`], with the registers of SVE: it uses them from now on
    /// if there are any.
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

    /// Saves what the program has in this CPU, which the thread leaves.
    #[inline(always)]
    fn leave(&self) {
        if self.moved.load(Relaxed) & moved::NOT_FP == 0 {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: the CPU's own thread's.
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
            // SAFETY: the CPU's own thread's.
            unsafe { *self.tags() }.unload();
        }
        if moved::has_sve(moved) {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: the CPU's own thread's.
            let (fp, image) = unsafe { (&mut *self.fp(), &mut *self.sve.get()) };
            fp::save_control(fp);
            image.leave();
        } else if moved::has_tags(moved) {
            self.tls.store(read!("tpidr_el0"), Relaxed);
            // SAFETY: the CPU's own thread's.
            fp::save(unsafe { &mut *self.fp() });
        }
    }

    /// Makes this the thread that `cpu`, which is this CPU, runs, and loads what
    /// [`ThreadState::leave`] saved; FP and SIMD registers not if this CPU still has them.
    #[inline(always)]
    fn enter(&self, cpu: &'static Cpu) {
        let top = self.top as *mut StackTop;
        // SAFETY: inside the thread's stack, above all that it uses.
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
            // SAFETY: the thread runs here alone from now on.
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
            // SAFETY: the thread runs here alone from now on.
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
            // SAFETY: the thread runs here alone from now on.
            unsafe { *self.tags() }.load();
        }
        if moved::has_sve(moved) {
            self.load_tls();
            // SAFETY: the thread runs here alone from now on.
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
        // SAFETY: the program's own registers, from two words of the thread that nobody else writes
        // while it is switched to.
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

/// Makes the thread whose state this is, from [`ThreadState::adopt_cpu`], the current one of this
/// CPU.
///
/// # Safety
/// It is one of the kernel's [`Task`](task::Task)s, whole, which lives until the CPU leaves it.
pub(in crate::arch) unsafe fn adopt(state: *const ThreadState) {
    let cpu = cpu::this();
    // SAFETY: the caller's promise.
    let thread = unsafe { &*state };
    assert!(thread.is_running() && thread.top == stack_top(cpu.start_stack.get()));
    cpu.current.set(state);
    thread.enter(cpu);
}

/// Saves what the current thread has in this CPU, and goes on as `to`; returns when something
/// switches back.
///
/// # Safety
/// Both are the kernel's [`Task`](task::Task)s, whole, which live until the switch is complete.
#[inline(always)]
pub(in crate::arch) unsafe fn switch(to: *const ThreadState) {
    let cpu = cpu::this();
    let previous = cpu.current.get();
    assert!(!previous.is_null());
    cpu.previous.set(previous);
    // SAFETY: the CPU still owns its count of the one, and the caller promises the other.
    let (previous, next) = unsafe { (&*previous, &*to) };
    next.owner.run();
    previous.leave();
    cpu.current.set(to);
    next.enter(cpu);
    // SAFETY: both contexts belong to this CPU now, and `next`'s was made by `at` or by this very
    // call.
    unsafe { switch_context(previous.context.get(), next.context.get(), &previous.owner) }
}

/// Saves the registers that a call keeps, takes those of `next`, and lets others switch to the
/// previous thread: its stack is not used any more.
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

/// First instructions of a thread: `x19(x20)`, once the scheduler knows that the switch is
/// complete.
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

/// Runs the current thread's program from `frame` on. The thread's stack below its top is
/// forgotten.
pub fn enter_user(frame: &Frame) -> ! {
    let state = task::state();
    let keys = if pauth::present() { moved::KEYS } else { 0 };
    state.moved.store(moved::FP | keys, Relaxed);
    state.with_frame(|own| *own = frame.clone());
    // SAFETY: the frame at the top is whole.
    unsafe { entry::leave_to_user(state.top) }
}
