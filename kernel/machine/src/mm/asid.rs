//! Address-space identifiers: which one a space has, which CPUs run it, and which TLB maintenance a
//! change of its PTEs requires. The crate `asid` allocates them.

use core::ops::Range;

use asid::{Allocator, ContextId, Hardware, Lock, SHARED, Tables};
use translation::Change;
use translation::owed::{Kind, Owed};

use super::mmu_notifier::MmuNotifiers;
use crate::arch::{self, MAX_CPUS, mmu};
use crate::sync::Mutex;

static ALLOCATOR: Allocator<TablesLock, MAX_CPUS> = Allocator::new(TablesLock::new());

/// The lock of an ASID allocator.
pub struct TablesLock(Mutex<Tables<MAX_CPUS>>);

impl TablesLock {
    /// Creates the lock around tables in which all ASIDs are free.
    pub const fn new() -> Self {
        TablesLock(Mutex::new(Tables::new()))
    }
}

impl Lock<Tables<MAX_CPUS>> for TablesLock {
    fn with<R>(&self, f: impl FnOnce(&mut Tables<MAX_CPUS>) -> R) -> R {
        f(&mut self.0.lock())
    }
}

/// This CPU's TLB.
struct Tlb;

impl Hardware for Tlb {
    fn id_bits(&self) -> u32 {
        mmu::asid_bits()
    }

    fn flush_local_all(&self) {
        mmu::flush_local_all();
    }
}

/// The TLBs' view of an address space.
pub struct Context {
    id: ContextId,
    holders: mmu::Holders,
    pub(super) notifiers: MmuNotifiers,
}

impl Context {
    /// The context of a space that never ran.
    pub const fn new() -> Self {
        Context {
            id: ContextId::new(),
            holders: mmu::Holders::new(),
            notifiers: MmuNotifiers::new(),
        }
    }

    /// Performs the TLB maintenance owed for changes to the translations of `range`, and invokes
    /// the notifiers.
    #[inline(always)]
    pub fn pay<C: Kind>(&self, owed: Owed<C>, range: Range<usize>) {
        self.pay_cpus(owed, range.clone());
        let lost = matches!(
            C::CHANGE,
            Change::Clear | Change::Replace | Change::Protect | Change::UnlinkTable
        );
        if lost && !range.is_empty() {
            self.notifiers.invalidate(range);
        }
    }

    /// As [`Context::pay`], without the notifiers.
    #[inline(always)]
    pub fn pay_cpus<C: Kind>(&self, owed: Owed<C>, range: Range<usize>) {
        let may_run = |asid, cpu: usize| ALLOCATOR.active(cpu).may_run(asid);
        mmu::pay(owed, || self.id.get(), &self.holders, may_run, range);
    }

    /// Recovers from a fault on `page` whose PTE already suffices: this CPU has not seen it yet.
    pub fn recover(&self, page: usize) {
        if let Some(asid) = self.id.get() {
            mmu::spurious(asid, page);
        }
    }

    /// Makes this the context that the CPU runs: `load` gets the ASID and switches the tables.
    #[inline]
    pub fn activate(&self, load: impl FnOnce(u16)) {
        let cpu = arch::cpu::this().index();
        // Ends with the fence that membarrier needs, too: see `task::membarrier`.
        let context = ALLOCATOR.switch(&self.id, cpu, &Tlb);
        let asid = context.id();
        self.holders.enter_space(cpu, asid);
        if ALLOCATOR.active(cpu).loaded() == asid::Context::NONE {
            mmu::enter_space(cpu);
        }
        load(asid);
        if asid == SHARED {
            mmu::flush_local_all();
        }
        ALLOCATOR.switched(cpu, context);
    }
}

/// Makes this CPU run no space: `load` removes its tables.
pub fn leave(load: impl FnOnce()) {
    let cpu = arch::cpu::this().index();
    ALLOCATOR.leave(cpu);
    load();
    let left = ALLOCATOR.active(cpu).loaded();
    if left != asid::Context::NONE && left.id() == SHARED {
        mmu::flush_local_all();
    }
    ALLOCATOR.switched(cpu, asid::Context::NONE);
}
