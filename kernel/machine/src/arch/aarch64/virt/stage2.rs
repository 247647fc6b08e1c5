//! A guest's memory: the translation from guest-physical to physical addresses (stage 2), with 4
//! KiB tables, and its VMID. The tables are those of `mm/table.rs`; the entries have their own
//! permission bits.
//!
//! The hardware walks three levels where the guest's addresses have no more than 43 bits: it begins
//! with the tables below the root, which lie one after the other (Arm ARM, "Concatenated
//! translation tables"). With more bits it walks four, from the root.
//!
//! A huge page of the VMM is mapped as one here, too. If only a part of it must change, all of it
//! is unmapped, and its pages are mapped again on demand.
//!
//! A guest may access memory past the caches, as it does before its MMU is on. Where stage 2 cannot
//! force write-back memory (FEAT_S2FWB), caches therefore let go of a page when it is mapped, when
//! it is unmapped, as it also is for a fork, and when the guest's caches go on or off.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::super::cpu;
use super::super::features::features;
use super::super::mmu::{self, Pte};
use super::super::sysreg::{isb, read, write};
use super::super::{MAX_CPUS, PAGE_SIZE};
use super::vmid::Vmid;
use crate::errno::Result;
use crate::mm::PhysAddr;
use crate::mm::frame::FrameRef;
use crate::mm::huge_page::MappedFrames;
use crate::mm::table::{Entry, HUGE_PAGE_SIZE, PageTable, hidden};
use crate::sync::{Mutex, MutexGuard};
use crate::upcall::cond_resched;
use translation::Invalidation;
use translation::owed::{Clear, Debts, FillUser, Kind, Owed, Protect, Widen};

/// The maximum end of guest addresses.
const END: usize = 1 << 48;
/// Inner shareable, accessed, readable (Arm ARM, "Translation table descriptor formats"): a huge
/// page, and the additional bit of a page.
const HUGE: u64 = 1 | 1 << 6 | 0b11 << 8 | 1 << 10;
const PAGE: u64 = 1 << 1;
/// MemAttr: Normal memory, write-back; and the value that forces write-back with HCR_EL2.FWB.
const WRITE_BACK: u64 = 0b1111 << 2;
const FORCED_WRITE_BACK: u64 = 0b0110 << 2;
/// HCR_EL2.FWB.
const FORCE: u64 = 1 << 46;
/// Writable.
const WRITABLE: u64 = 1 << 7;
/// VTCR_EL2 without sizes and level: RES1, table walks write-back and inner shareable.
const CONTROL: u64 = 1 << 31 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12;
/// VTCR_EL2.SL0: a walk begins at level 0, at level 1.
const FROM_LEVEL_0: u64 = 2 << 6;
const FROM_LEVEL_1: u64 = 1 << 6;
/// The number of address bits that one table of level 1 resolves.
const LEVEL_1_BITS: u32 = 39;
/// The maximum number of address bits of a walk from level 1, which has 16 tables then.
const MOST_LEVEL_1_BITS: u32 = LEVEL_1_BITS + 4;
/// The number of tables and huge pages that are processed while the lock is held; only one if pages
/// have to be removed from the caches.
const MOST_TABLES: usize = 8;
/// HCR_EL2.TGE: if it is set, EL1's TLB maintenance affects the host's programs.
const HCR_TGE: usize = 1 << 27;

/// VTCR_EL2.VS: VMIDs have 16 bits instead of 8.
const WIDE_IDENTIFIERS: u64 = 1 << 19;

/// ID_AA64MMFR0_EL1.TGRAN4_2: only this value means that stage 2 lacks 4 KiB tables although stage
/// 1 has them.
const GRANULE_FIELD: usize = 40;
const NO_GRANULE: usize = 1;

/// Whether this CPU supports 4 KiB tables at stage 2.
pub(super) fn possible() -> bool {
    read!("id_aa64mmfr0_el1") >> GRANULE_FIELD & 0xf != NO_GRANULE
}

/// The maximum number of bits in a guest's addresses, 32 to 48: as many as physical addresses have
/// on all CPUs.
pub fn most_address_bits() -> u32 {
    features().pa_bits().min(END.trailing_zeros())
}

/// VTCR_EL2 for guest addresses of `bits` bits.
fn control(bits: u32) -> u64 {
    /// VTCR_EL2.PS for physical addresses of 48 bits, which all entries here stay within.
    const MOST: u64 = 5;
    // Not this CPU's own value, because the guest may run on any CPU.
    let size = features().pa_range().min(MOST);
    let wide = match features().vmid_bits() {
        16 => WIDE_IDENTIFIERS,
        _ => 0,
    };
    let level = match bits {
        ..=MOST_LEVEL_1_BITS => FROM_LEVEL_1,
        _ => FROM_LEVEL_0,
    };
    CONTROL | level | size << 16 | u64::from(64 - bits) | wide
}

/// Whether stage 2 forces all accesses of guests into the caches.
pub(super) fn forces_write_back() -> bool {
    features().stage2_write_back()
}

/// The stage 2 translation of a guest.
pub struct Stage2 {
    /// The table; locked while entries are changed.
    tree: Mutex<Tree>,
    /// The address of the table, or the first of several, with which a walk begins.
    base: PhysAddr,
    vmid: Vmid,
    /// VTCR_EL2.
    control: u64,
    /// Whether all accesses are forced to be cached.
    in_caches: bool,
    /// The number of pages that were made visible to uncached accesses.
    #[cfg(feature = "selftest")]
    synced: AtomicU64,
    /// Incremented whenever something is unmapped or protected: earlier lookups may be stale.
    generation: AtomicU64,
    /// Number of invalidations on all CPUs.
    flushes: AtomicU64,
    /// The guest's virtual CPU that each CPU ran last: its number plus one.
    ran: [AtomicU32; MAX_CPUS],
}

struct Tree {
    table: PageTable,
    /// Entries that are already read-only, but that CPUs may still hold as writable.
    protected: Debts<Protect>,
}

impl Stage2 {
    /// Creates an empty translation for guest addresses of `bits` bits, 32 to
    /// [`most_address_bits`].
    pub fn new(bits: u32) -> Result<Self> {
        let table = PageTable::new()?;
        let base = match bits {
            ..=MOST_LEVEL_1_BITS => {
                table.make_contiguous_top(bits.saturating_sub(LEVEL_1_BITS) as usize)?
            }
            _ => table.root(),
        };
        Ok(Stage2 {
            base,
            tree: Mutex::new(Tree {
                table,
                protected: Debts::new(),
            }),
            vmid: Vmid::new(),
            control: control(bits),
            in_caches: forces_write_back(),
            #[cfg(feature = "selftest")]
            synced: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            ran: [const { AtomicU32::new(0) }; MAX_CPUS],
        })
    }

    /// Number of invalidations on all CPUs.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// HCR_EL2.FWB, if this relies on it.
    pub(super) fn configuration(&self) -> u64 {
        if self.in_caches { FORCE } else { 0 }
    }

    /// A descriptor of a huge page, or of a page with `PAGE`, without rights.
    fn huge(&self, phys: u64) -> u64 {
        let memory = match self.in_caches {
            true => FORCED_WRITE_BACK,
            false => WRITE_BACK,
        };
        phys | HUGE | memory
    }

    /// Makes the guest see frames that are not mapped yet.
    fn sync(&self, phys: u64, len: usize) {
        self.count_synced(len);
        mmu::sync_for_guest(PhysAddr(phys as usize).linear(), len, self.in_caches);
    }

    /// Removes frames from the caches that the guest may have accessed uncached.
    fn write_to_memory(&self, phys: usize, len: usize) {
        if !self.in_caches {
            self.count_synced(len);
            mmu::write_to_memory(PhysAddr(phys).linear(), len);
        }
    }

    #[cfg(not(feature = "selftest"))]
    fn count_synced(&self, _len: usize) {}

    #[cfg(feature = "selftest")]
    fn count_synced(&self, len: usize) {
        self.synced.fetch_add((len / PAGE_SIZE) as u64, Relaxed);
    }

    /// The number of pages that were made visible to uncached accesses; and whether no such
    /// accesses exist.
    #[cfg(feature = "selftest")]
    pub fn synced(&self) -> (u64, bool) {
        (self.synced.load(Relaxed), self.in_caches)
    }

    /// Removes everything that is mapped from the caches, since the guest's caches are turned on or
    /// off. Calls `pause` regularly, without the lock.
    pub fn write_all_to_memory(&self, mut pause: impl FnMut()) {
        let mut left = 0..END;
        while !self.in_caches && !left.is_empty() {
            let tree = self.tree.lock();
            let end = tree.table.part_end(left.clone(), &mut { 1 });
            tree.table.visit(left.start..end, &mut |_, entries| {
                for entry in entries.iter().map(Entry::load).filter(|pte| pte.valid()) {
                    self.write_to_memory(entry.phys(), PAGE_SIZE);
                }
            });
            drop(tree);
            pause();
            left.start = end;
        }
    }

    /// Prepares for another guest, whose code the VMM writes to memory that is mapped. Calls
    /// `pause` regularly.
    pub fn reset(&self, pause: impl FnMut()) {
        match self.in_caches {
            true => mmu::forget_all_instructions(),
            false => self.unmap(0..END as u64, pause),
        }
    }

    /// Number of tables, almost all of which are kept until the translation is dropped.
    pub fn tables(&self) -> usize {
        self.tree.lock().table.tables()
    }

    /// Whether this CPU may hold translations of a virtual CPU other than `vcpu`, which runs here
    /// from now on: they share a VMID, and a guest may use the same ASID differently on each.
    pub(super) fn others_ran(&self, vcpu: u32) -> bool {
        let ran = &self.ran[cpu::this().index()];
        let last = ran.load(Relaxed);
        if last != vcpu + 1 {
            ran.store(vcpu + 1, Relaxed);
        }
        ![0, vcpu + 1].contains(&last)
    }

    /// Loads it into this CPU.
    pub(super) fn load(&self) {
        // SAFETY: the tables are valid, and stage 2 affects only guests.
        unsafe {
            write!("vtcr_el2", self.control);
            write!("vttbr_el2", self.base(self.vmid.enter()));
        }
    }

    /// VTTBR_EL2.
    fn base(&self, vmid: u16) -> u64 {
        self.base.0 as u64 | u64::from(vmid) << 48
    }

    /// The generation to pass to [`Stage2::map`]; must be read before the frame is looked up.
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Maps the guest's page at `address`; the translation holds the frame from then on. Returns
    /// false, without a change, if anything was unmapped or protected since `generation`; then the
    /// guest retries.
    pub fn map(
        &self,
        address: u64,
        frame: FrameRef,
        writable: bool,
        generation: u64,
    ) -> Result<bool> {
        let tree = self.tree.lock();
        if self.generation.load(Relaxed) != generation {
            return Ok(false);
        }
        let pay = &mut mmu::publish_table;
        let above = tree.table.above_leaf(address as usize, pay)?;
        if is_huge(above.load()) {
            // Another CPU has mapped the huge page: it is writable, and contains this frame, as
            // nothing was unmapped since.
            return Ok(true);
        }
        let entry = tree.table.make_below(above, pay)?.entry(address as usize);
        let rights = if writable { WRITABLE } else { 0 };
        let phys = frame.phys().0 as u64;
        let (old, new) = (entry.load(), Pte(self.huge(phys) | PAGE | rights));
        if !old.valid() || old.phys() != new.phys() {
            self.sync(phys, PAGE_SIZE);
        }
        if !old.valid() {
            entry.fill::<FillUser>(new).leave_to_fault();
            core::mem::forget(frame);
        } else if old.phys() != new.phys() {
            if entry.replace_frame(old, new, |owed| self.pay(owed)) {
                core::mem::forget(frame);
                self.write_to_memory(old.phys(), PAGE_SIZE);
                // SAFETY: `map` left the frame's reference with the entry, and no TLB holds the
                // entry any more.
                drop(unsafe { FrameRef::from_mapped(old.phys() as u64) });
            }
        } else if old.0 | WRITABLE == new.0
            && old != new
            && let Ok(owed) = entry.replace::<Widen>(old, new)
        {
            // A stale TLB entry would repeat the fault.
            self.pay(owed);
        }
        Ok(true)
    }

    /// Maps the guest's huge page at `address`, writable, and replaces pages that may be mapped
    /// there. Otherwise as [`Stage2::map`].
    pub fn map_huge_page(&self, address: u64, huge: MappedFrames, generation: u64) -> Result<bool> {
        let start = address as usize & !(HUGE_PAGE_SIZE - 1);
        let tree = self.tree.lock();
        if let Some(mapped) = self.is_huge_page_mapped(&tree.table, start, generation)? {
            return Ok(mapped);
        }
        drop(tree);
        // This takes long, so the lock is not held.
        self.sync(huge.phys(), HUGE_PAGE_SIZE);
        let mut tree = self.tree.lock();
        if let Some(mapped) = self.is_huge_page_mapped(&tree.table, start, generation)? {
            return Ok(mapped);
        }
        let pay = &mut mmu::publish_table;
        if tree.table.above_leaf(start, pay)?.load().is_table() {
            self.take_table(&mut tree.table, start..start + HUGE_PAGE_SIZE);
        }
        let above = tree.table.above_leaf(start, pay)?;
        let huge = Pte(self.huge(huge.into_phys()) | WRITABLE);
        if let Some(owed) = tree.table.try_fill_huge_page(above, huge) {
            owed.leave_to_fault();
        }
        Ok(true)
    }

    /// Whether another CPU has mapped the huge page at `start`; false if it may not be mapped, as
    /// something was unmapped or protected since `generation`; none if it is to be mapped.
    fn is_huge_page_mapped(
        &self,
        table: &PageTable,
        start: usize,
        generation: u64,
    ) -> Result<Option<bool>> {
        if self.generation.load(Relaxed) != generation {
            return Ok(Some(false));
        }
        let above = table.above_leaf(start, &mut mmu::publish_table)?.load();
        Ok(is_huge(above).then_some(true))
    }

    /// Removes everything that a last-level table maps, and the table.
    fn take_table(&self, table: &mut PageTable, range: Range<usize>) {
        let mut pages = Debts::new();
        invalidate_part(table, range.clone(), &mut pages);
        let Some((tables, owed)) = table.unlink(range.clone(), range) else {
            return;
        };
        match pages.take() {
            Some((_, pages)) => self.pay(owed.with_pages(pages)),
            None => self.pay(owed),
        }
        // SAFETY: all of them are hidden, and in no TLB any more.
        tables.each(|entries| unsafe { release(entries, |_| ()) });
    }

    /// Write-protects these ranges, on all CPUs. Calls `pause` regularly, without the lock.
    pub fn protect(&self, ranges: impl Iterator<Item = Range<u64>>, mut pause: impl FnMut()) {
        for range in ranges {
            self.by_parts(range, self.most_tables(), &mut pause, |tree, range| {
                self.take(&mut tree.table, range.clone(), false, true);
                write_protect(tree, range);
            });
        }
        // Also if another call has cleared the bits, and pauses before it pays.
        let mut tree = self.tree.lock();
        if let Some((_, owed)) = tree.protected.take() {
            self.pay(owed);
        }
    }

    /// Write-protects ranges whose frames are read through the caches from now on, for
    /// copy-on-write. If the guest may have written to them uncached, the ranges are unmapped
    /// instead. Otherwise as [`Stage2::protect`].
    pub fn share(&self, ranges: impl Iterator<Item = Range<u64>>, mut pause: impl FnMut()) {
        match self.in_caches {
            true => self.protect(ranges, pause),
            false => ranges.for_each(|range| self.unmap(range, &mut pause)),
        }
    }

    /// Unmaps a range on all CPUs, and drops its frames. Calls `pause` regularly, without the lock.
    pub fn unmap(&self, range: Range<u64>, mut pause: impl FnMut()) {
        self.by_parts(range, self.most_tables(), &mut pause, |tree, range| {
            self.take(&mut tree.table, range, true, true);
        });
    }

    /// Unmaps everything; nobody reads any more what the guest wrote uncached. Otherwise as
    /// [`Stage2::unmap`].
    pub fn end(&self, mut pause: impl FnMut()) {
        self.by_parts(0..END as u64, MOST_TABLES, &mut pause, |tree, range| {
            self.take(&mut tree.table, range, true, false);
        });
    }

    /// Locks the table to unmap or protect something: frames looked up before are no longer mapped.
    fn change(&self) -> MutexGuard<'_, Tree> {
        let held = self.tree.lock();
        self.generation.fetch_add(1, Release);
        held
    }

    /// Whether unmapping a page takes long, because it is removed from the caches.
    pub fn cleans(&self) -> bool {
        !self.in_caches
    }

    fn most_tables(&self) -> usize {
        if self.cleans() { 1 } else { MOST_TABLES }
    }

    /// Calls `work` on each part of a range; a part has a limited number of tables and huge pages.
    fn by_parts(
        &self,
        range: Range<u64>,
        most: usize,
        pause: &mut impl FnMut(),
        work: impl Fn(&mut Tree, Range<usize>),
    ) {
        let mut left = range.start as usize..range.end as usize;
        while !left.is_empty() {
            let mut tree = self.change();
            let end = tree.table.part_end(left.clone(), &mut { most });
            work(&mut tree, left.start..end);
            drop(tree);
            pause();
            left.start = end;
        }
    }

    /// Unmaps the huge pages that overlap a part, each of them completely, and with `with_pages`
    /// also its pages. `are_read`: their content is still read afterwards.
    fn take(&self, table: &mut PageTable, part: Range<usize>, with_pages: bool, are_read: bool) {
        let mut owed = Debts::new();
        let mut huge_pages = [const { None }; MOST_TABLES];
        for huge in &mut huge_pages {
            let Some((start, _, pte, cleared)) = table.take_huge_page(part.clone()) else {
                break;
            };
            owed.add(start..start + HUGE_PAGE_SIZE, cleared);
            *huge = Some(pte);
        }
        if with_pages {
            invalidate_part(table, part.clone(), &mut owed);
        }
        let Some((_, owed)) = owed.take() else {
            return;
        };
        self.pay(owed);
        let let_go = |phys, len| {
            if are_read {
                self.write_to_memory(phys, len);
            }
        };
        for huge in huge_pages.into_iter().flatten() {
            let_go(huge.phys(), HUGE_PAGE_SIZE);
            // SAFETY: `map_huge_page` left it with the entry, and it is in no TLB any more.
            drop(unsafe { MappedFrames::from_phys(huge.phys() as u64) });
        }
        if with_pages {
            // SAFETY: all of them are hidden, and in no TLB any more.
            table.visit(part, &mut |_, entries| unsafe {
                release(entries, |phys| let_go(phys, PAGE_SIZE));
            });
        }
    }

    /// Pays for changes of entries by invalidating the whole translation on all CPUs, since
    /// maintenance by a stage 2 address does not reach TLB entries that combine both stages.
    fn pay<C: Kind>(&self, owed: Owed<C>) {
        const {
            let debt = translation::arm64(C::CHANGE);
            assert!(!matches!(debt.invalidate, Invalidation::Nothing));
        };
        owed.pay();
        self.invalidate();
    }

    /// Invalidates the whole translation on all CPUs (TLBI VMALLS12E1IS, for the VMID in
    /// VTTBR_EL2).
    fn invalidate(&self) {
        self.flushes.fetch_add(1, Relaxed);
        // Before the VMID is read, which may change; and before the TLBI. SAFETY: a barrier.
        unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
        let Some(vmid) = self.vmid.get() else {
            return;
        };
        let host = read!("hcr_el2");
        // SAFETY: EL1's TLB maintenance affects guests while TGE is clear, and no program memory is
        // accessed meanwhile; VTTBR_EL2 is loaded again before each run.
        unsafe {
            write!("vttbr_el2", self.base(vmid));
            write!("hcr_el2", host & !HCR_TGE);
            isb();
            asm!(
                "tlbi vmalls12e1is",
                "dsb ish",
                options(nostack, preserves_flags)
            );
            write!("hcr_el2", host);
        }
        isb();
    }
}

impl Drop for Stage2 {
    /// May sleep: there may be a table for every few pages of the guest's whole address range.
    fn drop(&mut self) {
        self.end(cond_resched);
        let mut at = 0;
        while at < END {
            let mut tree = self.tree.lock();
            let end = tree.table.part_end(at..END, &mut { MOST_TABLES });
            // A table is unlinked with the last part below it, since nothing is mapped any more.
            let unlinked = tree.table.unlink(at..end, 0..end);
            drop(tree);
            if let Some((tables, owed)) = unlinked {
                self.pay(owed);
                drop(tables);
            }
            cond_resched();
            at = end;
        }
        let mut tree = self.tree.lock();
        if let Some((_, owed)) = tree.protected.take() {
            owed.held_by_nobody();
        }
    }
}

/// Whether an entry above the last level holds a huge page.
fn is_huge(pte: Pte) -> bool {
    pte.valid() && !pte.is_table()
}

/// Makes the pages of a part invalid; they keep their frames until they are released. No huge page
/// overlaps it.
fn invalidate_part(table: &PageTable, part: Range<usize>, owed: &mut Debts<Clear>) {
    table.visit(part, &mut |start, entries| {
        for (entry, page) in entries.iter().zip((start..).step_by(PAGE_SIZE)) {
            if entry.load().valid() {
                owed.add(page..page + PAGE_SIZE, entry.update(hidden).1);
            }
        }
    });
}

/// Write-protects the pages of a part. No huge page overlaps it.
fn write_protect(tree: &mut Tree, part: Range<usize>) {
    let Tree { table, protected } = tree;
    table.visit(part, &mut |start, entries| {
        for (entry, page) in entries.iter().zip((start..).step_by(PAGE_SIZE)) {
            if entry.load().0 & WRITABLE != 0 {
                let (_, owed) = entry.update(|pte| Pte(pte.0 & !WRITABLE));
                protected.add(page..page + PAGE_SIZE, owed);
            }
        }
    });
}

/// Drops the frames that entries hold, each after a call of `let_go` with its address.
///
/// # Safety
/// All of them are hidden, and in no TLB any more.
unsafe fn release(entries: &[Entry], let_go: impl Fn(usize)) {
    for entry in entries.iter().filter(|entry| entry.load() != Pte::EMPTY) {
        let (pte, owed) = entry.take::<Clear>();
        owed.held_by_nobody();
        let_go(pte.phys());
        // SAFETY: the entry owns a reference to the frame.
        drop(unsafe { FrameRef::from_mapped(pte.phys() as u64) });
    }
}

/// Invalidates this CPU's TLB entries and cached instructions of the guest whose translation is
/// loaded; HCR_EL2 must already be the guest's.
pub(super) fn flush_local() {
    isb();
    // SAFETY: EL1's maintenance affects the guest.
    unsafe {
        asm!(
            "tlbi vmalle1",
            "ic iallu",
            "dsb nsh",
            options(nostack, preserves_flags)
        )
    };
    isb();
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_virtual_cpu_knows_that_another_ran() {
        if !super::available() {
            return;
        }
        let memory = Stage2::new(39).expect("memory");
        assert!(!memory.others_ran(3) && !memory.others_ran(3));
        assert!(memory.others_ran(0) && !memory.others_ran(0));
        assert!(memory.others_ran(3));
    }
}
