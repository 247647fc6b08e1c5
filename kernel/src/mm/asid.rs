//! Address-space identifiers: handed out by generations, so that a space keeps its identifier until they run out, and
//! then every CPU forgets all translations once.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::shadow::Shadows;
use crate::arch::{self, MAX_CPUS, mmu};
use crate::sync::Mutex;
use translation::Change;

/// Identifiers that the bitmap can hold: 16 bits of them.
const WORDS: usize = (1 << 16) / 64;

/// A generation is a multiple of this; the low half of a context is its identifier.
const GENERATION: u64 = 1 << 16;

/// A set of CPUs that only grows.
pub struct CpuSet([AtomicU64; MAX_CPUS.div_ceil(64)]);

impl CpuSet {
    /// None.
    pub const fn new() -> Self {
        CpuSet([const { AtomicU64::new(0) }; MAX_CPUS.div_ceil(64)])
    }

    /// Adds a CPU. What it does afterwards is seen by whoever does not find it here.
    pub(super) fn insert(&self, cpu: usize) {
        if !self.contains(cpu) {
            self.0[cpu / 64].fetch_or(1 << (cpu % 64), SeqCst);
        }
    }

    /// Whether the CPU is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(Relaxed) >> (cpu % 64) & 1 != 0
    }
}

/// What CPUs know a space by: generation and identifier; 0 when it never ran.
pub struct Context {
    id: AtomicU64,
    holders: CpuSet,
    pub(super) shadows: Shadows,
}

struct Allocator {
    used: [u64; WORDS],
    next: usize,
    /// The contexts that CPUs kept over the last rollover.
    kept: [u64; MAX_CPUS],
    /// CPUs that must still forget their translations.
    stale: [bool; MAX_CPUS],
}

static CURRENT: AtomicU64 = AtomicU64::new(GENERATION);
/// The context that each CPU runs; 0 after a rollover until it next switches.
static ACTIVE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
static ALLOCATOR: Mutex<Allocator> = Mutex::new(Allocator {
    used: [0; WORDS],
    next: 1,
    kept: [0; MAX_CPUS],
    stale: [false; MAX_CPUS],
});

impl Context {
    /// Of a space that never ran.
    pub const fn new() -> Self {
        Context {
            id: AtomicU64::new(0),
            holders: CpuSet::new(),
            shadows: Shadows::new(),
        }
    }

    /// The identifier, if any CPU can hold translations under it.
    pub fn asid(&self) -> Option<u16> {
        match self.id.load(Acquire) {
            0 => None,
            context => Some(context as u16),
        }
    }

    /// Pays what a change of the translations of `range` owes.
    #[inline(always)]
    pub fn pay(&self, change: Change, range: Range<usize>) {
        if let Some(asid) = self.asid() {
            mmu::pay(change, asid, &self.holders, range.clone());
        }
        if matches!(change, Change::Clear | Change::Replace | Change::Narrow) {
            self.shadows.forget(range);
        }
    }

    /// A fault on `page` found a sufficient entry: this CPU has not seen it yet.
    pub fn recover(&self, page: usize) {
        if let Some(asid) = self.asid() {
            mmu::spurious(asid, page);
        }
    }

    /// The identifier to run under on this CPU now.
    pub fn activate(&self) -> u16 {
        let cpu = arch::cpu::this().index();
        self.holders.insert(cpu);
        let context = self.id.load(Relaxed);
        let active = ACTIVE[cpu].load(Relaxed);
        let current = context & !(GENERATION - 1) == CURRENT.load(Acquire);
        if active != 0
            && current
            && ACTIVE[cpu]
                .compare_exchange(active, context, AcqRel, Relaxed)
                .is_ok()
        {
            return context as u16;
        }
        self.renew(cpu)
    }

    #[cold]
    fn renew(&self, cpu: usize) -> u16 {
        let mut allocator = ALLOCATOR.lock();
        let mut context = self.id.load(Relaxed);
        if context & !(GENERATION - 1) != CURRENT.load(Relaxed) {
            context = allocator.assign(context);
            self.id.store(context, Release);
        }
        if core::mem::take(&mut allocator.stale[cpu]) {
            mmu::flush_local_all();
        }
        ACTIVE[cpu].store(context, Relaxed);
        context as u16
    }
}

impl Allocator {
    /// A context of the current generation for a space that had `old`.
    fn assign(&mut self, old: u64) -> u64 {
        let generation = CURRENT.load(Relaxed);
        let asid = old & (GENERATION - 1);
        if old != 0 {
            let renewed = generation | asid;
            let mut kept = false;
            for slot in self.kept.iter_mut().filter(|slot| **slot == old) {
                *slot = renewed;
                kept = true;
            }
            if kept || self.claim(asid as usize) {
                return renewed;
            }
        }
        let asid = self.find().unwrap_or_else(|| {
            self.roll_over();
            self.find().expect("more identifiers than CPUs")
        });
        CURRENT.load(Relaxed) | asid as u64
    }

    fn claim(&mut self, asid: usize) -> bool {
        let free = self.used[asid / 64] >> (asid % 64) & 1 == 0;
        self.used[asid / 64] |= 1 << (asid % 64);
        free
    }

    /// The next free identifier. 0 is kept for CPUs without a space.
    fn find(&mut self) -> Option<usize> {
        let asids = 1usize << mmu::asid_bits();
        while self.next < asids {
            let asid = self.next;
            self.next += 1;
            if self.claim(asid) {
                return Some(asid);
            }
        }
        None
    }

    /// Begins a generation in which only what CPUs run now is taken.
    fn roll_over(&mut self) {
        CURRENT.store(CURRENT.load(Relaxed) + GENERATION, Release);
        self.used.fill(0);
        self.next = 1;
        for cpu in 0..MAX_CPUS {
            let active = ACTIVE[cpu].swap(0, AcqRel);
            if active != 0 {
                self.kept[cpu] = if active == NO_SPACE { 0 } else { active };
            }
            self.claim((self.kept[cpu] & (GENERATION - 1)) as usize);
            self.stale[cpu] = true;
        }
    }
}

/// This CPU runs no space any more.
pub fn leave() {
    let cpu = arch::cpu::this().index();
    let mut active = ACTIVE[cpu].load(Relaxed);
    while active != 0 {
        match ACTIVE[cpu].compare_exchange(active, NO_SPACE, AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => active = now,
        }
    }
}

/// What a CPU without a space runs: identifier 0 of no generation, distinct from "rolled over".
const NO_SPACE: u64 = 1 << 63;
