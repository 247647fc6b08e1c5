//! Per-CPU data. `tp` points to it while the kernel runs.

use core::arch::asm;
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use super::cell::CpuLocal;
use super::thread::ThreadState;
use super::{features, mmu};
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
    /// Registers saved by a trap from the kernel before it may access the stack.
    pub(super) spill: Cell<[usize; 4]>,
    /// t0, t1, `sepc`, `scause`, `stval` and `sstatus` of a trap from the kernel while its frame is
    /// stored, which may trap itself.
    pub(super) outer: Cell<[usize; 6]>,
    /// The word with the flag for new kernel mappings, and this CPU's bit in it.
    pub(super) unseen: Cell<&'static AtomicU64>,
    pub(super) unseen_bit: Cell<u64>,
    /// Top of the stack on which an overflow is reported.
    pub(super) overflow_stack: Cell<usize>,
    /// Top of the stack on which the CPU started.
    pub(super) start_stack: Cell<usize>,
    index: usize,
    /// The hart ID.
    pub(super) hart: AtomicUsize,
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
static NOTHING_UNSEEN: AtomicU64 = AtomicU64::new(0);

impl Cpu {
    pub(super) const fn new(index: usize) -> Self {
        Cpu {
            current: Cell::new(core::ptr::null()),
            previous: Cell::new(core::ptr::null()),
            crossings: AtomicPtr::new((&raw const NO_COUNTS).cast_mut()),
            syscalls: Cell::new(&crate::arch::syscall::NONE),
            spill: Cell::new([0; 4]),
            outer: Cell::new([0; 6]),
            unseen: Cell::new(&NOTHING_UNSEEN),
            unseen_bit: Cell::new(0),
            overflow_stack: Cell::new(0),
            start_stack: Cell::new(0),
            index,
            hart: AtomicUsize::new(0),
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

    /// The hart ID.
    pub(super) fn hart(&self) -> usize {
        self.hart.load(Relaxed)
    }

    /// The thread that runs here.
    #[inline(always)]
    pub(super) fn thread(&self) -> &ThreadState {
        // SAFETY: a thread lives at least as long as it runs, and this CPU runs it.
        unsafe { &*self.current.get() }
    }
}

pub use crate::arch::above::{Above, assert_fits};
pub use crate::arch::cpus::{count, get, online, online_mask, possible};
pub(super) use crate::arch::cpus::{expect, publish};

/// Names the current thread as the holder of a lock: a place on its stack.
#[inline(always)]
pub fn lock_holder() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// This CPU.
#[inline(always)]
pub fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: reads a register. Not `pure`: a thread that was switched out may resume on another
    // CPU.
    unsafe { asm!("mv {}, tp", out(reg) cpu, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the boot path and every entry point `tp` to a `Cpu` that lives forever.
    unsafe { &*cpu }
}

/// Writes the entry of `/proc/cpuinfo` for a CPU, in Linux's format.
pub fn describe(index: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    let Some(cpu) = get(index) else { return Ok(()) };
    let all = features::features();
    let [vendor, architecture, implementation] = all.facts().ids;
    writeln!(out, "processor\t: {index}\nhart\t\t: {}", cpu.hart())?;
    writeln!(out, "isa\t\t: rv64{}", all.extensions())?;
    writeln!(out, "mmu\t\t: sv{}", 9 * mmu::levels() + 12)?;
    let (own, design) = features::of_hart(cpu.hart()).unwrap_or((all.extensions(), None));
    if let Some(design) = design {
        writeln!(out, "uarch\t\t: {design}")?;
    }
    writeln!(
        out,
        "mvendorid\t: {vendor:#x}\nmarchid\t\t: {architecture:#x}\nmimpid\t\t: {implementation:#x}"
    )?;
    writeln!(out, "hart isa\t: rv64{own}\n")
}
