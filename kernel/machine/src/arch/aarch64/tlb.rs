//! Barriers, and maintenance of TLBs and instruction caches (Arm ARM, "TLB maintenance" and
//! "Cache support").
//!
//! At EL2 with E2H and TGE set, the EL1 forms act on the EL2&0 regime, which is then the kernel's.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use super::cpu;
use super::sysreg::{at_el2, isb, read};
use crossings::Kind;
use translation::Invalidation;
use translation::owed::{self, Clear, FillKernel, LinkTable, Owed};

/// Number of pages from which on a whole address space is invalidated instead, as many as a block
/// contains.
const MANY_PAGES: usize = 512;

static ASID_BITS: AtomicU32 = AtomicU32::new(8);
static DATA_LINE: AtomicUsize = AtomicUsize::new(16);
static INSTRUCTION_LINE: AtomicUsize = AtomicUsize::new(16);
/// Whether instruction fetches see data caches without cleaning (CTR_EL0.IDC).
static CLEAN_NOT_NEEDED: AtomicBool = AtomicBool::new(false);
/// Whether instruction fetches see new instructions without invalidation (CTR_EL0.DIC).
static INVALIDATE_NOT_NEEDED: AtomicBool = AtomicBool::new(false);
/// Whether instruction caches hold a frame by its physical address alone (CTR_EL0.L1Ip).
static BY_PHYS: AtomicBool = AtomicBool::new(false);

/// Number of lines from which on whole instruction caches are invalidated instead.
const MANY_LINES: usize = 512;

/// Records the properties common to all CPUs.
pub(super) fn init(features: &idreg::System) {
    ASID_BITS.store(features.asid_bits(), Relaxed);
    DATA_LINE.store(features.data_line(), Relaxed);
    INSTRUCTION_LINE.store(features.instruction_line(), Relaxed);
    CLEAN_NOT_NEEDED.store(features.clean_not_needed(), Relaxed);
    INVALIDATE_NOT_NEEDED.store(features.invalidate_not_needed(), Relaxed);
    BY_PHYS.store(features.instructions_by_phys(), Relaxed);
}

macro_rules! barrier {
    ($instruction:literal) => {
        // SAFETY: a barrier.
        unsafe { asm!($instruction, options(nostack, preserves_flags)) }
    };
}

macro_rules! maintain {
    ($operation:literal) => {
        // SAFETY: invalidating a cached translation or line does not change memory.
        unsafe { asm!($operation, options(nostack, preserves_flags)) }
    };
    ($operation:literal, $operand:expr) => {
        // SAFETY: as above.
        unsafe { asm!(concat!($operation, ", {}"), in(reg) $operand, options(nostack, preserves_flags)) }
    };
}

/// Asserts that maintenance affects the kernel's regime: with a guest loaded it would affect the
/// guest's (HCR_EL2.TGE).
#[inline(always)]
fn assert_own_regime() {
    const TGE: usize = 1 << 27;
    debug_assert!(
        !at_el2() || read!("hcr_el2") & TGE != 0,
        "translations change while a guest is loaded"
    );
}

/// log2 of the number of ASIDs.
pub fn asid_bits() -> u32 {
    ASID_BITS.load(Relaxed)
}

/// Makes previously filled entries visible to all table walks from here on (a DSB, and an ISB for
/// this CPU's own following instructions).
#[inline]
pub fn publish() {
    barrier!("dsb ishst");
    isb();
}

/// Pays for a table that was linked into an invalid entry.
#[inline]
pub fn publish_table(owed: Owed<LinkTable>) {
    pay_by_publishing(owed);
}

/// Pays for new entries of the kernel's vmalloc area.
pub fn publish_kernel(owed: Owed<FillKernel>, _range: Range<usize>) {
    pay_by_publishing(owed);
}

#[inline(always)]
fn pay_by_publishing<C: owed::Kind>(owed: Owed<C>) {
    const {
        let debt = translation::arm64(C::CHANGE);
        assert!(debt.publish && matches!(debt.invalidate, Invalidation::Nothing));
    };
    owed.pay();
    publish();
}

/// The operand of a TLBI by address: the ASID, and bits 55 to 12 of the address ("TLBI VAE1").
const fn operand(asid: u16, address: usize) -> usize {
    (asid as usize) << 48 | address >> 12 & ((1 << 44) - 1)
}

fn count(kind: Kind) {
    cpu::this().crossings().add(kind);
}

/// The CPUs that hold translations of an address space: irrelevant, since broadcast maintenance
/// reaches every CPU.
pub struct Holders;

impl Holders {
    /// No CPUs.
    pub const fn new() -> Self {
        Holders
    }

    /// Called before CPU `cpu` runs the space: nothing to record.
    #[inline(always)]
    pub fn enter_space(&self, _cpu: usize, _asid: u16) {}
}

/// Called before a CPU without a space runs one: broadcast TLBIs have kept it coherent.
#[inline(always)]
pub fn enter_space(_cpu: usize) {}

/// Performs the maintenance owed for changes to the translations of `range` in the space with ASID
/// `asid`, if it ever ran.
#[inline(always)]
pub fn pay<C: owed::Kind>(
    owed: Owed<C>,
    asid: impl Fn() -> Option<u16>,
    _holders: &Holders,
    _may_run: impl Fn(u16, usize) -> bool,
    range: Range<usize>,
) {
    let debt = translation::arm64(owed.pay());
    // Also for a space that never ran: no barrier comes before its first walk.
    if debt.publish {
        publish();
    }
    if debt.invalidate == Invalidation::Nothing {
        return;
    }
    // Before the ASID is read, which may change; and before the TLBI.
    barrier!("dsb ishst");
    match (debt.invalidate, asid()) {
        (Invalidation::Page | Invalidation::Run, Some(asid)) => flush_pages(asid, range),
        (Invalidation::Space, Some(asid)) => flush_asid(asid),
        _ => {}
    }
}

/// Handles a fault that found a sufficient entry: nothing is owed, as its walk merely preceded the
/// store.
#[inline(always)]
pub fn spurious(_asid: u16, _page: usize) {}

/// Invalidates the last-level entries of a program's pages on all CPUs, after a DSB.
fn flush_pages(asid: u16, range: Range<usize>) {
    if range.len() >= MANY_PAGES * PAGE_SIZE {
        return flush_asid(asid);
    }
    assert_own_regime();
    count(Kind::FenceBroadcastPage);
    for page in range.step_by(PAGE_SIZE) {
        maintain!("tlbi vale1is", operand(asid, page));
    }
    barrier!("dsb ish");
}

/// Invalidates all of a program's translations, including those of tables, on all CPUs, after a
/// DSB.
fn flush_asid(asid: u16) {
    assert_own_regime();
    count(Kind::FenceBroadcastAsid);
    maintain!("tlbi aside1is", operand(asid, 0));
    barrier!("dsb ish");
}

/// Performs the maintenance owed for entries removed from a range of the kernel's vmalloc area, on
/// all CPUs.
pub fn flush_kernel(owed: Owed<Clear>, range: Range<usize>) {
    assert_own_regime();
    owed.pay();
    barrier!("dsb ishst");
    if range.len() >= MANY_PAGES * PAGE_SIZE {
        count(Kind::FenceBroadcastAll);
        maintain!("tlbi vmalle1is");
    } else {
        count(Kind::FenceBroadcastPage);
        for page in range.step_by(PAGE_SIZE) {
            maintain!("tlbi vaale1is", operand(0, page));
        }
    }
    barrier!("dsb ish");
    isb();
}

/// Invalidates everything on this CPU.
pub fn flush_local_all() {
    assert_own_regime();
    count(Kind::FenceLocalAll);
    barrier!("dsb nshst");
    maintain!("tlbi vmalle1");
    barrier!("dsb nsh");
    isb();
}

/// Makes instruction fetches of all CPUs see data written at `start` in the linear map (Arm ARM,
/// "Synchronization and coherency issues between data and instruction accesses": clean to the point
/// of unification, DSB, invalidate, DSB; the exception return of each other CPU is its context
/// synchronization event).
pub fn sync_icache(start: usize, len: usize) {
    count(Kind::FenceInstruction);
    if !CLEAN_NOT_NEEDED.load(Relaxed) {
        for line in lines(start, len, DATA_LINE.load(Relaxed)) {
            maintain!("dc cvau", line);
        }
    }
    barrier!("dsb ish");
    forget_instructions(start, len);
    isb();
}

/// Makes the instruction caches of all CPUs forget what they hold of `start` in the linear map,
/// whatever virtual address it was cached by, if invalidation is needed. Called after a DSB.
fn forget_instructions(start: usize, len: usize) {
    if INVALIDATE_NOT_NEEDED.load(Relaxed) {
        return;
    }
    let line = INSTRUCTION_LINE.load(Relaxed);
    if BY_PHYS.load(Relaxed) && len / line <= MANY_LINES {
        for line in lines(start, len, line) {
            maintain!("ic ivau", line);
        }
        barrier!("dsb ish");
    } else {
        forget_all_instructions();
    }
}

/// Makes the instruction caches of all CPUs forget everything that was overwritten, if invalidation
/// is needed.
pub fn forget_all_instructions() {
    if !INVALIDATE_NOT_NEEDED.load(Relaxed) {
        barrier!("dsb ish");
        maintain!("ic ialluis");
        barrier!("dsb ish");
    }
}

/// Writes data at `start` in the linear map back to memory, and removes it from the caches, so that
/// accesses with and without caches see the same data (Arm ARM, "The data cache maintenance
/// instructions": clean and invalidate to the point of coherency).
pub fn write_to_memory(start: usize, len: usize) {
    for line in lines(start, len, DATA_LINE.load(Relaxed)) {
        maintain!("dc civac", line);
    }
    barrier!("dsb sy");
}

/// Makes a guest see the data at `start` in the linear map before it is mapped for the first time:
/// its instruction fetches see it, and so do its uncached accesses, unless stage 2 forces all
/// accesses to be cached.
pub fn sync_for_guest(start: usize, len: usize, in_caches: bool) {
    if !in_caches {
        write_to_memory(start, len);
    } else {
        if !CLEAN_NOT_NEEDED.load(Relaxed) {
            for line in lines(start, len, DATA_LINE.load(Relaxed)) {
                maintain!("dc cvau", line);
            }
        }
        // The written data must be visible before instruction caches forget what they had.
        barrier!("dsb ish");
    }
    forget_instructions(start, len);
}

fn lines(start: usize, len: usize, line: usize) -> impl Iterator<Item = usize> {
    (start & !(line - 1)..start + len).step_by(line)
}
