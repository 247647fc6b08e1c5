//! Virtual machine identifiers (VMIDs), which tag TLB entries. The crate `asid` allocates them in
//! generations, so that there may be more machines than identifiers.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use asid::{Allocator, ContextId, Hardware};
use crossings::Kind;

use super::super::MAX_CPUS;
use super::super::cpu;
use super::super::sysreg::isb;
use crate::mm::asid::TablesLock;
use crate::params;

/// The minimum number of bits with which each CPU can keep an identifier over a rollover, and
/// another one is free.
const LEAST_BITS: u32 = 7;
const _: () = assert!(1 << LEAST_BITS > MAX_CPUS + 1);

static ALLOCATOR: Allocator<TablesLock, MAX_CPUS> = Allocator::new(TablesLock::new());
static BITS: AtomicU32 = AtomicU32::new(8);

/// This CPU's TLB.
struct Tlb;

impl Hardware for Tlb {
    fn id_bits(&self) -> u32 {
        BITS.load(Relaxed)
    }

    /// Invalidates the translations of all machines, at both stages (TLBI ALLE1).
    fn flush_local_all(&self) {
        cpu::this().crossings().add(Kind::FenceLocalAll);
        // SAFETY: invalidating translations does not change memory.
        unsafe {
            asm!(
                "dsb nshst",
                "tlbi alle1",
                "dsb nsh",
                options(nostack, preserves_flags)
            )
        };
        isb();
    }
}

/// Determines the number of bits: as many as all CPUs support, unless `vmid.bits` sets fewer.
pub(in super::super) fn init(features: &idreg::System) {
    let wanted: Option<u32> = params::get("vmid.bits").and_then(|bits| bits.parse().ok());
    let there = features.vmid_bits();
    let used = wanted.map_or(there, |bits| bits.clamp(LEAST_BITS, there));
    BITS.store(used, Relaxed);
}

/// The TLBs' view of a machine.
pub struct Vmid(ContextId);

impl Vmid {
    /// Creates the identifier of a machine that never ran.
    pub const fn new() -> Self {
        Vmid(ContextId::new())
    }

    /// The VMID under which TLBs may hold the machine's translations, to be read after entries were
    /// changed and a barrier; none if they hold none.
    pub fn get(&self) -> Option<u16> {
        self.0.get()
    }

    /// Returns the VMID under which this CPU runs the machine now.
    ///
    /// A CPU does not record that it leaves a machine: until it enters another one, a rollover
    /// keeps the VMID for it. So a guest that returns to its CPU writes no shared data.
    #[inline]
    pub fn enter(&self) -> u16 {
        let cpu = cpu::this().index();
        if let Some(context) = ALLOCATOR.stays(&self.0, cpu) {
            return context.id();
        }
        let context = ALLOCATOR.switch(&self.0, cpu, &Tlb);
        ALLOCATOR.switched(cpu, context);
        context.id()
    }
}
