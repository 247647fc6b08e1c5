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

/// CPU number `index`, if it is there.
pub fn get(index: usize) -> Option<&'static Cpu> {
    let cpu = ALL.get(index)?.load(Acquire);
    // SAFETY: `publish` stores only what lives for ever.
    unsafe { cpu.as_ref() }
}

/// How many CPUs are online.
#[inline]
pub fn count() -> usize {
    COUNT.load(Acquire)
}

/// The CPUs that are online, in the order of their indices: one that was refused leaves a gap.
pub fn online() -> impl Iterator<Item = &'static Cpu> {
    (0..possible()).filter_map(get)
}

/// The indices of those, as a set.
pub fn online_mask() -> u64 {
    online().fold(0, |mask, cpu| mask | 1 << cpu.index())
}

/// How many CPUs were started, whether they came online or not: their indices are below.
#[inline]
pub fn possible() -> usize {
    POSSIBLE.load(Relaxed)
}

/// Lets the CPUs that started run threads.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn release() {
    RELEASED.store(true, Release);
}

/// Whether CPUs that started may run threads. Until then they wait; afterwards they first execute
/// what makes a change of code seen.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn are_released() -> bool {
    RELEASED.load(Acquire)
}

/// How long others are waited for that were started, in nanoseconds.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) const PATIENCE_NS: u64 = 2_000_000_000;

/// CPU number `index` is about to start.
#[allow(dead_code, reason = "the host has one CPU")]
pub(super) fn expect(index: usize) {
    POSSIBLE.store(index + 1, Relaxed);
}

/// This CPU is online.
pub(super) fn publish(cpu: &'static Cpu) {
    ALL[cpu.index()].store(cpu as *const Cpu as *mut Cpu, Release);
    COUNT.fetch_add(1, AcqRel);
}

impl Cpu {
    /// The counters of the thread that runs there.
    #[inline(always)]
    pub fn crossings(&self) -> &'static Table {
        // SAFETY: only `set_crossings` and `Cpu::new` store here, and tables live for ever.
        unsafe { &*self.crossings.load(Relaxed) }
    }

    /// Counts into another table from now on: this CPU's of another counting group.
    ///
    /// # Panics
    /// If this is another CPU.
    #[inline]
    pub fn set_crossings(&self, table: &'static Table) {
        assert!(core::ptr::eq(self, cpu::this()));
        let table = core::ptr::from_ref(table).cast_mut();
        self.crossings.store(table, Relaxed);
    }

    /// Dispatches system calls by another table from now on: the plain one or the tracing one.
    ///
    /// # Panics
    /// If this is another CPU.
    #[inline]
    pub fn set_syscalls(&self, table: &'static SyscallTable) {
        assert!(core::ptr::eq(self, cpu::this()));
        self.syscalls.set(table);
    }

    /// Address of the running thread; 0 before the first.
    #[inline(always)]
    pub(in crate::arch) fn current_address(&self) -> usize {
        self.current.get() as usize
    }
}
