//! What the CPU keeps for itself.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::AtomicPtr;

use super::cell::CpuLocal;
use super::thread::ThreadState;
use crate::arch::SyscallTable;
use crate::arch::above::Room;
use crate::mm;
use crossings::Table;

/// The CPU's own data. Others may look at the index only.
#[repr(C, align(128))]
pub struct Cpu {
    /// The thread that runs here; null before the first.
    pub(in crate::arch) current: Cell<*const ThreadState>,
    /// The thread that ran here before it.
    pub(in crate::arch) previous: Cell<*const ThreadState>,
    /// Where crossings are counted.
    pub(in crate::arch) crossings: AtomicPtr<Table>,
    /// The table of system calls.
    pub(in crate::arch) syscalls: Cell<&'static SyscallTable>,
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

// SAFETY: the cells are used by the host's thread that has the CPU alone (`baton`).
unsafe impl Sync for Cpu {}

/// The only CPU.
pub(super) static BOOT: Cpu = Cpu {
    current: Cell::new(core::ptr::null()),
    previous: Cell::new(core::ptr::null()),
    crossings: AtomicPtr::new((&raw const NO_COUNTS).cast_mut()),
    syscalls: Cell::new(&crate::arch::syscall::NONE),
    frames: CpuLocal::new(mm::frame::Cache::new()),
    tables: CpuLocal::new(mm::EmptyTables::new()),
    heap: CpuLocal::new(mm::heap::Cache::new()),
    space: mm::Active::new(),
    above: Room::new(),
};
static NO_COUNTS: Table = Table::new();

impl Cpu {
    /// Lets the kernel above make what it keeps for this CPU.
    ///
    /// # Safety
    /// Once, before anybody else knows the CPU.
    pub(super) unsafe fn init_above(&self) {
        // SAFETY: as the caller says.
        unsafe { self.above.init() };
    }

    /// What the kernel above keeps for this CPU.
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

/// This CPU.
#[inline(always)]
pub fn this() -> &'static Cpu {
    &BOOT
}

/// Writes the block of `/proc/cpuinfo` for one CPU.
pub fn describe(index: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "processor\t: {index}\n")
}
