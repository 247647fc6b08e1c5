//! What each CPU keeps for itself.
//!
//! SP_EL0 points to it while the kernel runs, at EL1 and at EL2 alike. The entry paths find it at
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

/// One CPU's own data. Other CPUs may look at the atomics and the index only.
#[repr(C, align(128))]
pub struct Cpu {
    /// The thread that runs here; null before the first.
    pub(in crate::arch) current: Cell<*const ThreadState>,
    /// The thread that was just switched from, whose count the next one takes over.
    pub(in crate::arch) previous: Cell<*const ThreadState>,
    /// Where crossings are counted.
    pub(in crate::arch) crossings: AtomicPtr<Table>,
    /// The table of system calls.
    pub(in crate::arch) syscalls: Cell<&'static SyscallTable>,
    /// What programs read from ID registers here.
    pub(super) view: AtomicPtr<idreg::El0View>,
    /// The thread whose FP/SIMD registers this CPU still holds.
    pub(super) fp_owner: Cell<*const ThreadState>,
    /// Top of the stack that an overflow is reported on.
    pub(super) overflow_stack: Cell<usize>,
    /// Top of the stack that the CPU started on.
    pub(super) start_stack: Cell<usize>,
    index: usize,
    /// MPIDR_EL1's affinity fields.
    pub(super) mpidr: AtomicUsize,
    /// This CPU's interface of the interrupt controller.
    pub(super) redistributor: Cell<usize>,
    /// Free frames.
    pub frames: CpuLocal<mm::frame::Cache>,
    /// Page tables without entries.
    pub tables: CpuLocal<mm::EmptyTables>,
    /// Free heap objects.
    pub heap: CpuLocal<mm::heap::Cache>,
    /// The program's address space that is in use.
    pub space: mm::Active,
    above: Room,
}

// SAFETY: the cells are used by this CPU alone (private to `arch`, whose callers go through
// `this`), the rest is atomic, constant, or checks its owner itself.
unsafe impl Sync for Cpu {}

/// The CPU that the machine starts on.
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
            heap: CpuLocal::new(mm::heap::Cache::new()),
            space: mm::Active::new(),
            above: Room::new(),
        }
    }

    /// Lets the kernel above make what it keeps for this CPU.
    ///
    /// # Safety
    /// Once, before anybody else knows the CPU.
    pub(super) unsafe fn init_above(&self) {
        // SAFETY: as the caller says.
        unsafe { self.above.init() };
    }

    /// What the kernel above keeps for this CPU.
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

/// This CPU.
#[inline(always)]
pub fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: reads a register. Not `pure`: a thread that was switched out may come back on another
    // CPU.
    unsafe { asm!("mrs {}, sp_el0", out(reg) cpu, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the boot path and every entry point SP_EL0 to a `Cpu` that lives for ever.
    unsafe { &*cpu }
}
