//! Identifiers of virtual machines (VMIDs), by which TLBs know whose a translation is. The crate
//! `asid` hands them out in generations, so that there may be more machines than identifiers.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use asid::{Allocator, ContextId, Hardware};
use crossings::Kind;

use super::super::MAX_CPUS;
use super::super::cpu;
use super::super::sysreg::isb;
use crate::mm::asid::TablesLock;
use crate::params;

/// The fewest bits with which each CPU can keep an identifier over a rollover, and another is free.
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

    /// The translations of all machines, at both stages (D8.16: ALLE1).
    fn flush_local_all(&self) {
        cpu::this().crossings().add(Kind::FenceLocalAll);
        // SAFETY: forgetting translations changes no memory.
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

/// Settles how many there are: as many as all CPUs have, unless `vmid.bits` wants fewer.
pub(in super::super) fn init(features: &idreg::System) {
    let wanted: Option<u32> = params::get("vmid.bits").and_then(|bits| bits.parse().ok());
    let there = features.vmid_bits();
    let used = wanted.map_or(there, |bits| bits.clamp(LEAST_BITS, there));
    BITS.store(used, Relaxed);
}

/// A machine as TLBs know it.
pub struct Vmid(ContextId);

impl Vmid {
    /// The identifier of a machine that never ran.
    pub const fn new() -> Self {
        Vmid(ContextId::new())
    }

    /// The identifier under which TLBs may hold its translations, once entries were changed and a
    /// barrier followed; none if they hold none.
    pub fn get(&self) -> Option<u16> {
        self.0.get()
    }

    /// The identifier under which this CPU runs it now.
    ///
    /// A CPU that leaves a machine does not say so: until it enters another, a rollover keeps the
    /// identifier for it. So a guest that comes back to its CPU writes nothing that others read.
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
