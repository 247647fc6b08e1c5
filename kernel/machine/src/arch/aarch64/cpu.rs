//! Per-CPU data.
//!
//! SP_EL0 points to it while the kernel runs, both at EL1 and at EL2. The entry paths find it at
//! the top of the stack.

use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use super::cell::CpuLocal;
use super::thread::ThreadState;
use crate::arch::SyscallTable;
use crate::arch::above::Room;
use crate::mm;
use crossings::Table;

/// The data of one CPU. Other CPUs may access only the atomics and the index.
#[repr(C, align(128))]
pub struct Cpu {
    /// The thread that runs here; null before the first one.
    pub(in crate::arch) current: Cell<*const ThreadState>,
    /// The thread that was just switched from, whose reference the next one takes over.
    pub(in crate::arch) previous: Cell<*const ThreadState>,
    /// The table of crossing counters.
    pub(in crate::arch) crossings: AtomicPtr<Table>,
    /// The table of system calls.
    pub(in crate::arch) syscalls: Cell<&'static SyscallTable>,
    /// The values that programs on this CPU read from ID registers.
    pub(super) view: AtomicPtr<idreg::El0View>,
    /// The thread whose FP/SIMD registers this CPU still holds.
    pub(super) fp_owner: Cell<*const ThreadState>,
    /// Top of the stack on which an overflow is reported.
    pub(super) overflow_stack: Cell<usize>,
    /// Top of the stack on which the CPU started.
    pub(super) start_stack: Cell<usize>,
    index: usize,
    /// MPIDR_EL1's affinity fields.
    pub(super) mpidr: AtomicUsize,
    /// The address of this CPU's redistributor in the interrupt controller.
    pub(super) redistributor: Cell<usize>,
    /// Free frames.
    pub frames: CpuLocal<mm::frame::Cache>,
    /// Empty page tables.
    pub tables: CpuLocal<mm::EmptyTables>,
    /// Stacks for new threads.
    pub stacks: CpuLocal<mm::vmalloc::SpareStacks>,
    /// Free heap objects.
    pub heap: CpuLocal<mm::heap::Cache>,
    /// The active address space.
    pub space: mm::Active,
    above: Room,
}

// SAFETY: the cells are used only by this CPU (they are private to `arch`, whose callers go through
// `this`); the rest is atomic, constant, or checks its owner itself.
unsafe impl Sync for Cpu {}

/// The boot CPU.
pub(super) static BOOT: Cpu = Cpu::new(0);
static NO_COUNTS: Table = Table::new();

impl Cpu {
    pub(super) const fn new(index: usize) -> Self {
        Cpu {
            current: Cell::new(core::ptr::null()),
            previous: Cell::new(core::ptr::null()),
            crossings: AtomicPtr::new((&raw const NO_COUNTS).cast_mut()),
            syscalls: Cell::new(&crate::arch::syscall::NONE),
            view: AtomicPtr::new(core::ptr::null_mut()),
            fp_owner: Cell::new(core::ptr::null()),
            overflow_stack: Cell::new(0),
            start_stack: Cell::new(0),
            index,
            mpidr: AtomicUsize::new(0),
            redistributor: Cell::new(0),
            frames: CpuLocal::new(mm::frame::Cache::new()),
            tables: CpuLocal::new(mm::EmptyTables::new()),
            stacks: CpuLocal::new(mm::vmalloc::SpareStacks::new()),
            heap: CpuLocal::new(mm::heap::Cache::new()),
            space: mm::Active::new(),
            above: Room::new(),
        }
    }

    /// Creates the upper kernel's data for this CPU.
    ///
    /// # Safety
    /// Called once, before anybody else can access the CPU.
    pub(super) unsafe fn init_above(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.above.init() };
    }

    /// The upper kernel's data for this CPU.
    #[inline(always)]
    pub fn above<T: Above>(&self) -> &T {
        self.above.get()
    }

    /// The CPU's number, from 0.
    #[inline(always)]
    pub fn index(&self) -> usize {
        self.index
    }
}

pub use super::cpuinfo::describe;

pub use crate::arch::above::{Above, assert_fits};
pub use crate::arch::cpus::{count, get, online, online_mask, possible};
pub(super) use crate::arch::cpus::{expect, publish};

/// Names the current thread as the holder of a lock: a place on its stack.
#[inline(always)]
pub fn lock_holder() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// This CPU.
#[inline(always)]
pub fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: reads a register. Not `pure`: a thread that was switched out may resume on another
    // CPU.
    unsafe { asm!("mrs {}, sp_el0", out(reg) cpu, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the boot path and every entry point SP_EL0 to a `Cpu` that lives forever.
    unsafe { &*cpu }
}
