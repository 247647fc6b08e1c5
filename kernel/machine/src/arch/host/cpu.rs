//! The CPU's own data.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::AtomicPtr;

use super::cell::CpuLocal;
use super::thread::ThreadState;
use crate::arch::SyscallTable;
use crate::arch::above::Room;
use crate::mm;
use crossings::Table;

/// The CPU's own data. Others may access only the index.
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

// SAFETY: the cells are used only by the host thread that has the CPU (`baton`).
unsafe impl Sync for Cpu {}

/// The only CPU.
pub(super) static BOOT: Cpu = Cpu {
    current: Cell::new(core::ptr::null()),
    previous: Cell::new(core::ptr::null()),
    crossings: AtomicPtr::new((&raw const NO_COUNTS).cast_mut()),
    syscalls: Cell::new(&crate::arch::syscall::NONE),
    frames: CpuLocal::new(mm::frame::Cache::new()),
    tables: CpuLocal::new(mm::EmptyTables::new()),
    stacks: CpuLocal::new(mm::vmalloc::SpareStacks::new()),
    heap: CpuLocal::new(mm::heap::Cache::new()),
    space: mm::Active::new(),
    above: Room::new(),
};
static NO_COUNTS: Table = Table::new();

impl Cpu {
    /// Creates the upper kernel's data for this CPU.
    ///
    /// # Safety
    /// Called once, before anybody else can access the CPU.
    pub(super) unsafe fn init_above(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.above.init() };
    }

    /// The upper kernel's data for this CPU.
    pub fn above<T: Above>(&self) -> &T {
        self.above.get()
    }

    /// The CPU's number.
    pub fn index(&self) -> usize {
        0
    }
}

pub use crate::arch::above::{Above, assert_fits};
pub(super) use crate::arch::cpus::publish;
pub use crate::arch::cpus::{count, get, online, online_mask, possible};

/// Names the current thread as the holder of a lock; the CPU, before the first thread.
pub fn lock_holder() -> usize {
    match BOOT.current.get().addr() {
        0 => (&raw const BOOT).addr(),
        thread => thread,
    }
}

/// This CPU.
#[inline(always)]
pub fn this() -> &'static Cpu {
    &BOOT
}

/// Writes the entry of `/proc/cpuinfo` for a CPU.
pub fn describe(index: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "processor\t: {index}\n")
}
