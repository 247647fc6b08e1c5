//! All CPUs, by number.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};

use super::MAX_CPUS;
use super::cpu::{self, Cpu};
use super::syscall::SyscallTable;
use crossings::Table;

static ALL: [AtomicPtr<Cpu>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
static POSSIBLE: AtomicUsize = AtomicUsize::new(1);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicBool = AtomicBool::new(false);

/// The CPU with index `index`, if it is online.
pub fn get(index: usize) -> Option<&'static Cpu> {
    let cpu = ALL.get(index)?.load(Acquire);
    // SAFETY: `publish` stores only pointers to CPUs that live forever.
    unsafe { cpu.as_ref() }
}

/// Number of online CPUs.
#[inline]
pub fn count() -> usize {
    COUNT.load(Acquire)
}

/// The online CPUs, in the order of their indices; one that was refused leaves a gap.
pub fn online() -> impl Iterator<Item = &'static Cpu> {
    (0..possible()).filter_map(get)
}

/// The set of the indices of online CPUs.
pub fn online_mask() -> u64 {
    online().fold(0, |mask, cpu| mask | 1 << cpu.index())
}

/// Number of CPUs that were started, whether or not they came online: all indices are below.
#[inline]
pub fn possible() -> usize {
    POSSIBLE.load(Relaxed)
}

/// Lets the CPUs that were started run threads.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn release() {
    RELEASED.store(true, Release);
}

/// Whether CPUs that were started may run threads. They wait for this, and then synchronize with
/// code that may have been patched meanwhile.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn are_released() -> bool {
    RELEASED.load(Acquire)
}

/// The maximum time to wait for started CPUs, in nanoseconds.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) const PATIENCE_NS: u64 = 2_000_000_000;

/// Called before CPU `index` starts.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn expect(index: usize) {
    POSSIBLE.store(index + 1, Relaxed);
}

/// Makes this CPU online.
pub(super) fn publish(cpu: &'static Cpu) {
    ALL[cpu.index()].store(cpu as *const Cpu as *mut Cpu, Release);
    COUNT.fetch_add(1, AcqRel);
}

impl Cpu {
    /// The counters of the thread that runs on this CPU.
    #[inline(always)]
    pub fn crossings(&self) -> &'static Table {
        // SAFETY: only `set_crossings` and `Cpu::new` store here, and tables live forever.
        unsafe { &*self.crossings.load(Relaxed) }
    }

    /// Switches to another table of counters: this CPU's of another counting group.
    ///
    /// # Panics
    /// If `self` is another CPU.
    #[inline]
    pub fn set_crossings(&self, table: &'static Table) {
        assert!(core::ptr::eq(self, cpu::this()));
        let table = core::ptr::from_ref(table).cast_mut();
        self.crossings.store(table, Relaxed);
    }

    /// Switches to another table of system calls: the plain one or the tracing one.
    ///
    /// # Panics
    /// If `self` is another CPU.
    #[inline]
    pub fn set_syscalls(&self, table: &'static SyscallTable) {
        assert!(core::ptr::eq(self, cpu::this()));
        self.syscalls.set(table);
    }

    /// Address of the running thread; 0 before the first one.
    #[inline(always)]
    pub(in crate::arch) fn current_address(&self) -> usize {
        self.current.get() as usize
    }
}
