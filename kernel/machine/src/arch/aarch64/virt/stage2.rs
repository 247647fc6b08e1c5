//! A guest's memory: the translation from its physical addresses to ours (Arm ARM D8.2.2, stage 2),
//! four levels of 4 KiB tables, and the identifier that TLBs know it by. The tables are those of
//! `mm/table.rs`; entries say what they allow by bits of their own.
//!
//! What the VMM has as a huge page is one too here. Where only a part of it is wanted otherwise,
//! all of it goes, and comes back as pages when the guest wants it.

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

/// Guest addresses end here at the latest.
const END: usize = 1 << 48;
/// A huge page of Normal memory, write-back, inner shareable, accessed, readable (D8.3.2); a page.
const HUGE: u64 = 1 | 0b1111 << 2 | 1 << 6 | 0b11 << 8 | 1 << 10;
const PAGE: u64 = HUGE | 1 << 1;
/// It may be written.
const WRITABLE: u64 = 1 << 7;
/// VTCR_EL2 but the sizes: RES1, walks write-back and inner shareable, from level 0 (D24.2.213).
const CONTROL: u64 = 1 << 31 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 2 << 6;
/// Tables and huge pages that are looked at while the lock is held.
const MOST_TABLES: usize = 8;
/// HCR_EL2.TGE: with it, TLB maintenance of EL1 would be of the host's programs.
const HCR_TGE: usize = 1 << 27;

/// VTCR_EL2.VS: identifiers have 16 bits, not 8.
const WIDE_IDENTIFIERS: u64 = 1 << 19;

/// Whether the CPU can translate so: addresses of 44 bits at least let a walk start at level 0
/// (D8.2.8), and 4 KiB tables at stage 2.
pub(super) fn possible() -> bool {
    read!("id_aa64mmfr0_el1") & 0xf >= 4
}

/// VTCR_EL2 for guest addresses of `bits` bits.
fn control(bits: u32) -> u64 {
    let size = (read!("id_aa64mmfr0_el1") as u64 & 0xf).min(5);
    let wide = match features().vmid_bits() {
        16 => WIDE_IDENTIFIERS,
        _ => 0,
    };
    CONTROL | size << 16 | u64::from(64 - bits) | wide
}

/// The translation of one guest.
pub struct Stage2 {
    /// Locked while entries are changed.
    tree: Mutex<Tree>,
    /// Where its root lies.
    root: PhysAddr,
    vmid: Vmid,
    /// VTCR_EL2.
    control: u64,
    /// Counts the times that something was taken away: what was looked up before may be true no
    /// longer.
    generation: AtomicU64,
    /// How often all CPUs forgot it.
    flushes: AtomicU64,
    /// Which of the guest's virtual CPUs each CPU ran last, by their numbers plus one.
    ran: [AtomicU32; MAX_CPUS],
}

struct Tree {
    table: PageTable,
    /// CPUs may still write by these entries, which forbid it by now.
    protected: Debts<Protect>,
}

impl Stage2 {
    /// An empty one for guest addresses of `bits` bits, 40 to 48.
    pub fn new(bits: u32) -> Result<Self> {
        let table = PageTable::new()?;
        Ok(Stage2 {
            root: table.root(),
            tree: Mutex::new(Tree {
                table,
                protected: Debts::new(),
            }),
            vmid: Vmid::new(),
            control: control(bits),
            generation: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            ran: [const { AtomicU32::new(0) }; MAX_CPUS],
        })
    }

    /// How often all CPUs were made to forget it.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// How many tables it has: almost all stay as long as it does.
    pub fn tables(&self) -> usize {
        self.tree.lock().table.tables()
    }

    /// Whether this CPU may hold translations of another virtual CPU than number `vcpu`, which runs
    /// here from now on: they share an identifier, and a guest may use an address space identifier
    /// for one thing on each.
    pub(super) fn others_ran(&self, vcpu: u32) -> bool {
        let ran = &self.ran[cpu::this().index()];
        let last = ran.load(Relaxed);
        if last != vcpu + 1 {
            ran.store(vcpu + 1, Relaxed);
        }
        ![0, vcpu + 1].contains(&last)
    }

    /// Makes it this CPU's.
    pub(super) fn load(&self) {
        // SAFETY: the tables are sound, and stage 2 concerns guests alone.
        unsafe {
            write!("vtcr_el2", self.control);
            write!("vttbr_el2", self.base(self.vmid.enter()));
        }
    }

    /// VTTBR_EL2.
    fn base(&self, vmid: u16) -> u64 {
        self.root.0 as u64 | u64::from(vmid) << 48
    }

    /// What [`Stage2::map`] is to be given, read before the frame is looked up.
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Maps the guest's page at `address`: the translation holds the frame from then on. Not if
    /// anything was taken away since `generation`: false then, and the guest's next try finds what
    /// is true now.
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
            // Another CPU mapped the huge page: it may be written, and shows this frame, as nothing
            // was taken away since.
            return Ok(true);
        }
        let entry = tree.table.make_below(above, pay)?.entry(address as usize);
        let rights = if writable { WRITABLE } else { 0 };
        let (old, new) = (entry.load(), Pte(frame.phys().0 as u64 | PAGE | rights));
        if !old.valid() {
            entry.fill::<FillUser>(new).leave_to_fault();
            core::mem::forget(frame);
        } else if old.phys() != new.phys() {
            if entry.replace_frame(old, new, |owed| self.pay(owed)) {
                core::mem::forget(frame);
                // SAFETY: `map` left the frame's count with the entry, which no TLB knows any more.
                drop(unsafe { FrameRef::from_mapped(old.phys() as u64) });
            }
        } else if old.0 | WRITABLE == new.0
            && old != new
            && let Ok(owed) = entry.replace::<Widen>(old, new)
        {
            // A stale entry would repeat the fault.
            self.pay(owed);
        }
        Ok(true)
    }

    /// Maps the guest's huge page at `address`, which it may write, in the place of pages that may
    /// be there. The same otherwise as [`Stage2::map`].
    pub fn map_huge_page(&self, address: u64, huge: MappedFrames, generation: u64) -> Result<bool> {
        let mut tree = self.tree.lock();
        if self.generation.load(Relaxed) != generation {
            return Ok(false);
        }
        let start = address as usize & !(HUGE_PAGE_SIZE - 1);
        let pay = &mut mmu::publish_table;
        let above = tree.table.above_leaf(start, pay)?.load();
        if is_huge(above) {
            // Another CPU was faster.
            return Ok(true);
        }
        if above.is_table() {
            self.take_table(&mut tree.table, start..start + HUGE_PAGE_SIZE);
        }
        let above = tree.table.above_leaf(start, pay)?;
        let huge = Pte(huge.into_phys() | HUGE | WRITABLE);
        if let Some(owed) = tree.table.try_fill_huge_page(above, huge) {
            owed.leave_to_fault();
        }
        Ok(true)
    }

    /// Takes out what one last-level table maps, and the table.
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
        // SAFETY: all of them are hidden, and forgotten by all TLBs.
        tables.each(|entries| unsafe { release(entries) });
    }

    /// Lets the guest write no longer in these ranges, on all CPUs. Calls `pause` now and then,
    /// without a lock.
    pub fn protect(&self, ranges: impl Iterator<Item = Range<u64>>, mut pause: impl FnMut()) {
        for range in ranges {
            self.by_parts(range, &mut pause, |tree, range| {
                self.take(&mut tree.table, range.clone(), false);
                write_protect(tree, range);
            });
        }
        // Also where another call has cleared the bits, and pauses before it pays.
        let mut tree = self.tree.lock();
        if let Some((_, owed)) = tree.protected.take() {
            self.pay(owed);
        }
    }

    /// Forgets what is mapped in a range, on all CPUs, and lets go of its frames. Calls `pause` now
    /// and then, without a lock.
    pub fn unmap(&self, range: Range<u64>, mut pause: impl FnMut()) {
        self.by_parts(range, &mut pause, |tree, range| {
            self.take(&mut tree.table, range, true);
        });
    }

    /// Something is taken away while this is held: what was looked up before is not mapped any
    /// more.
    fn change(&self) -> MutexGuard<'_, Tree> {
        let held = self.tree.lock();
        self.generation.fetch_add(1, Release);
        held
    }

    /// Does `work` on a range by parts.
    fn by_parts(
        &self,
        range: Range<u64>,
        pause: &mut impl FnMut(),
        work: impl Fn(&mut Tree, Range<usize>),
    ) {
        let mut left = range.start as usize..range.end as usize;
        while !left.is_empty() {
            let mut tree = self.change();
            let end = tree.table.part_end(left.clone(), &mut { MOST_TABLES });
            work(&mut tree, left.start..end);
            drop(tree);
            pause();
            left.start = end;
        }
    }

    /// Takes the huge pages that touch a part out, each as a whole, and the pages if that is
    /// wanted.
    fn take(&self, table: &mut PageTable, part: Range<usize>, with_pages: bool) {
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
        for huge in huge_pages.into_iter().flatten() {
            // SAFETY: `map_huge_page` left it with the entry, and all TLBs have forgotten it.
            drop(unsafe { MappedFrames::from_phys(huge.phys() as u64) });
        }
        if with_pages {
            // SAFETY: all of them are hidden, and forgotten by all TLBs.
            table.visit(part, &mut |_, entries| unsafe { release(entries) });
        }
    }

    /// Pays for changes of entries: whatever they were, all CPUs forget all of it, as an address at
    /// stage 2 does not name what TLBs hold of both stages.
    fn pay<C: Kind>(&self, owed: Owed<C>) {
        const {
            let debt = translation::arm64(C::CHANGE);
            assert!(!matches!(debt.invalidate, Invalidation::Nothing));
        };
        owed.pay();
        self.invalidate();
    }

    /// Makes all CPUs forget all of it (D8.16: VMALLS12E1IS, by the identifier in VTTBR_EL2).
    fn invalidate(&self) {
        self.flushes.fetch_add(1, Relaxed);
        // Before the identifier is read, which may change; and before the TLBI.
        // SAFETY: a barrier.
        unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
        let Some(vmid) = self.vmid.get() else {
            return;
        };
        let host = read!("hcr_el2");
        // SAFETY: EL1's TLB maintenance is a guest's while TGE is clear, and nothing of a program
        // is touched meanwhile; what was loaded here before is loaded anew before each run.
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
    /// Waits: it may have a table for each few pages of all that a guest can address.
    fn drop(&mut self) {
        self.unmap(0..END as u64, cond_resched);
        let mut at = 0;
        while at < END {
            let mut tree = self.tree.lock();
            let end = tree.table.part_end(at..END, &mut { MOST_TABLES });
            // With the last part below a table goes that table, as nobody fills any more.
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

/// Makes the pages of a part invalid, which keep their frames until they are released. No huge page
/// touches it.
fn invalidate_part(table: &PageTable, part: Range<usize>, owed: &mut Debts<Clear>) {
    table.visit(part, &mut |start, entries| {
        for (entry, page) in entries.iter().zip((start..).step_by(PAGE_SIZE)) {
            if entry.load().valid() {
                owed.add(page..page + PAGE_SIZE, entry.update(hidden).1);
            }
        }
    });
}

/// Lets the pages of a part be written no longer. No huge page touches it.
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

/// Lets go of the frames that entries hold.
///
/// # Safety
/// All of them are hidden, and no TLB knows them.
unsafe fn release(entries: &[Entry]) {
    for entry in entries.iter().filter(|entry| entry.load() != Pte::EMPTY) {
        let (pte, owed) = entry.take::<Clear>();
        owed.held_by_nobody();
        // SAFETY: the entry's maker left the frame's count with it.
        drop(unsafe { FrameRef::from_mapped(pte.phys() as u64) });
    }
}

/// Makes this CPU forget what it holds of the guest whose translation it has, instructions
/// included; HCR_EL2 is the guest's already.
pub(super) fn flush_local() {
    isb();
    // SAFETY: EL1's maintenance is the guest's.
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
        let memory = Stage2::new(40).expect("memory");
        assert!(!memory.others_ran(3) && !memory.others_ran(3));
        assert!(memory.others_ran(0) && !memory.others_ran(0));
        assert!(memory.others_ran(3));
    }
}
