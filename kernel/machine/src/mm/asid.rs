//! Address-space identifiers: handed out by generations, so that a space keeps its identifier until
//! they run out, and then every CPU forgets all translations once.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::mmu_notifier::MmuNotifiers;
use crate::arch::{self, MAX_CPUS, mmu};
use crate::sync::Mutex;
use translation::Change;

/// Identifiers that the bitmap can hold: 16 bits of them.
const WORDS: usize = (1 << 16) / 64;

/// How many identifiers a generation takes at most: one for each CPU's space, and 0.
const LEAST: usize = MAX_CPUS + 1;

/// The identifier of all spaces where there are too few for generations: then each change of the
/// tables forgets everything. Otherwise that of CPUs without a space.
const SHARED: u16 = 0;

fn identifiers() -> usize {
    1 << mmu::asid_bits()
}

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

    fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(Relaxed) >> (cpu % 64) & 1 != 0
    }

    /// Those that are in it now, but `own`. A loop within a loop, as chained iterators cost more
    /// than they find.
    pub(super) fn each_other(&self, own: usize, mut act: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut left = word.load(Relaxed);
            if own / 64 == index {
                left &= !(1 << (own % 64));
            }
            while left != 0 {
                act(index * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

/// What CPUs know a space by: generation and identifier; 0 when it never ran.
pub struct Context {
    id: AtomicU64,
    holders: mmu::Holders,
    pub(super) notifiers: MmuNotifiers,
}

/// Which context a CPU runs: written by the CPU itself before and after it changes its tables, so
/// that between the two it counts for both. Others look at it to see who must be told of a change.
#[repr(align(128))]
struct Running {
    /// From before; 0 after a rollover until the CPU next switches: then it may be any.
    announced: AtomicU64,
    /// From after.
    loaded: AtomicU64,
}

impl Running {
    /// Whether the CPU runs the space of an identifier, or may.
    fn may_be(&self, asid: u16) -> bool {
        let announced = self.announced.load(Acquire);
        announced == 0 || announced as u16 == asid || self.loaded.load(Acquire) as u16 == asid
    }
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
static RUNNING: [Running; MAX_CPUS] = [const {
    Running {
        announced: AtomicU64::new(0),
        loaded: AtomicU64::new(NO_SPACE),
    }
}; MAX_CPUS];
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
            holders: mmu::Holders::new(),
            notifiers: MmuNotifiers::new(),
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
        self.pay_cpus(change, range.clone());
        let lost = matches!(
            change,
            Change::Clear | Change::Replace | Change::Narrow | Change::UnlinkTable
        );
        if lost && !range.is_empty() {
            self.notifiers.invalidate(range);
        }
    }

    /// The same without the notifiers.
    #[inline(always)]
    pub fn pay_cpus(&self, change: Change, range: Range<usize>) {
        if let Some(asid) = self.asid() {
            let runs = |cpu: usize| RUNNING[cpu].may_be(asid);
            mmu::pay(change, asid, &self.holders, runs, range);
        }
    }

    /// A fault on `page` found a sufficient entry: this CPU has not seen it yet.
    pub fn recover(&self, page: usize) {
        if let Some(asid) = self.asid() {
            mmu::spurious(asid, page);
        }
    }

    /// Makes this the context that the CPU runs: `load` is given the identifier and changes the
    /// tables.
    #[inline]
    pub fn activate(&self, load: impl FnOnce(u16)) {
        let cpu = arch::cpu::this().index();
        let here = &RUNNING[cpu];
        let context = self.id.load(Relaxed);
        let announced = here.announced.load(Relaxed);
        let current = context & !(GENERATION - 1) == CURRENT.load(Acquire);
        let context = if announced != 0
            && current
            && here
                .announced
                .compare_exchange(announced, context, AcqRel, Relaxed)
                .is_ok()
        {
            context
        } else {
            self.renew(cpu)
        };
        // Whoever changes entries from here on sees this CPU run the space, or else has left it a
        // mark. It is also what a barrier needs: see `task::membarrier`.
        fence(SeqCst);
        let asid = context as u16;
        self.holders.come(cpu, asid);
        if here.loaded.load(Relaxed) == NO_SPACE {
            mmu::come(cpu);
        }
        load(asid);
        if asid == SHARED {
            mmu::flush_local_all();
        }
        here.loaded.store(context, Release);
    }

    #[cold]
    fn renew(&self, cpu: usize) -> u64 {
        let mut allocator = ALLOCATOR.lock();
        let mut context = self.id.load(Relaxed);
        if context & !(GENERATION - 1) != CURRENT.load(Relaxed) {
            context = allocator.assign(context);
            self.id.store(context, Release);
        }
        if core::mem::take(&mut allocator.stale[cpu]) {
            mmu::flush_local_all();
        }
        RUNNING[cpu].announced.store(context, Relaxed);
        context
    }
}

impl Allocator {
    /// A context of the current generation for a space that had `old`.
    fn assign(&mut self, old: u64) -> u64 {
        let generation = CURRENT.load(Relaxed);
        if identifiers() <= LEAST {
            return generation | SHARED as u64;
        }
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

    /// The next free identifier. [`SHARED`] is kept for CPUs without a space.
    fn find(&mut self) -> Option<usize> {
        while self.next < identifiers() {
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
            let active = RUNNING[cpu].announced.swap(0, AcqRel);
            if active != 0 {
                self.kept[cpu] = if active == NO_SPACE { 0 } else { active };
            }
            self.claim((self.kept[cpu] & (GENERATION - 1)) as usize);
            self.stale[cpu] = true;
        }
    }
}

/// This CPU runs no space any more: `load` takes its tables away.
pub fn leave(load: impl FnOnce()) {
    let here = &RUNNING[arch::cpu::this().index()];
    let mut announced = here.announced.load(Relaxed);
    while announced != 0 {
        match here
            .announced
            .compare_exchange(announced, NO_SPACE, AcqRel, Relaxed)
        {
            Ok(_) => break,
            Err(now) => announced = now,
        }
    }
    load();
    if here.loaded.load(Relaxed) == CURRENT.load(Relaxed) | SHARED as u64 {
        mmu::flush_local_all();
    }
    here.loaded.store(NO_SPACE, Release);
}

/// What a CPU without a space runs: identifier 0 of no generation, distinct from "rolled over".
const NO_SPACE: u64 = 1 << 63;
