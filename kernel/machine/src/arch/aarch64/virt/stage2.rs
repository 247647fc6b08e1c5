//! A guest's memory: the translation from its physical addresses to ours (Arm ARM D8.2.2, stage 2),
//! four levels of 4 KiB tables, and the identifier that TLBs know it by.
//!
//! What the VMM has as a huge page is one too here. Where only a part of it is wanted otherwise,
//! all of it goes, and comes back as pages when the guest wants it.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use super::super::cpu;
use super::super::features::features;
use super::super::mmu::phys_to_virt;
use super::super::sysreg::{isb, read, write};
use super::super::{MAX_CPUS, PAGE_SIZE};
use super::vmid::Vmid;
use crate::errno::Result;
use crate::mm::frame::{self, FrameRef};
use crate::mm::huge_page::Shown;
use crate::sync::{Mutex, MutexGuard};
use translation::{Change, Forget};

/// Entries of a table.
const ENTRIES: usize = PAGE_SIZE / 8;
/// The level of the last table.
const LAST: usize = 3;
/// That of the last but one, whose entries can be huge pages.
const BLOCKS: usize = LAST - 1;
/// Where an entry's address stands.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// A huge page, a table, or at the last level a page (D8.3.1).
const VALID: u64 = 1;
const NO_BLOCK: u64 = 1 << 1;
const TABLE: u64 = VALID | NO_BLOCK;
/// A huge page of Normal memory, write-back, inner shareable, accessed, readable (D8.3.2); a page.
const BLOCK: u64 = VALID | 0b1111 << 2 | 1 << 6 | 0b11 << 8 | 1 << 10;
const PAGE: u64 = BLOCK | NO_BLOCK;
/// It may be written.
const WRITABLE: u64 = 1 << 7;
/// VTCR_EL2 but the sizes: RES1, walks write-back and inner shareable, from level 0 (D24.2.213).
const CONTROL: u64 = 1 << 31 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 2 << 6;
/// All that is owed is paid by forgetting all of a guest's translation; in what follows that is
/// done before an entry changes its size.
const _: () = {
    let debt = translation::arm64(Change::Resize);
    assert!(debt.break_first && matches!(debt.forget, Forget::Space));
};
/// Entries that are looked at while the lock is held.
const MOST_LOOKS: usize = 4096;
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
    root: FrameRef,
    vmid: Vmid,
    /// VTCR_EL2.
    control: u64,
    /// Held while entries are changed.
    changing: Mutex<()>,
    /// Counts the times that something was taken away: what was looked up before may be true no
    /// longer.
    generation: AtomicU64,
    /// A CPU may still write by an entry that forbids it by now.
    write_owed: AtomicBool,
    /// How often all CPUs forgot it.
    flushes: AtomicU64,
    /// How many tables it has.
    tables: AtomicUsize,
    /// Which of the guest's virtual CPUs each CPU ran last, by their numbers plus one.
    ran: [AtomicU32; MAX_CPUS],
}

impl Stage2 {
    /// An empty one for guest addresses of `bits` bits, 40 to 48.
    pub fn new(bits: u32) -> Result<Self> {
        let root = frame::alloc_zeroed()?;
        Ok(Stage2 {
            control: control(bits),
            root,
            vmid: Vmid::new(),
            changing: Mutex::new(()),
            generation: AtomicU64::new(0),
            write_owed: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            tables: AtomicUsize::new(1),
            ran: [const { AtomicU32::new(0) }; MAX_CPUS],
        })
    }

    /// How often all CPUs were made to forget it.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// How many tables it has: they stay as long as it does.
    pub fn tables(&self) -> usize {
        self.tables.load(Relaxed)
    }

    /// Whether this CPU may hold translations of another virtual CPU than number `vcpu`, which runs
    /// here from now on: they share an identifier, and a guest may use an address space identifier
    /// for one thing on each.
    pub fn others_ran(&self, vcpu: u32) -> bool {
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
        self.root.phys().0 as u64 | u64::from(vmid) << 48
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
        let _held = self.changing.lock();
        if self.generation.load(Relaxed) != generation {
            return Ok(false);
        }
        let Some(entry) = self.make_entry(address, LAST)? else {
            // Another CPU mapped the huge page: it may be written, and shows this frame, as nothing
            // was taken away since.
            return Ok(true);
        };
        let rights = if writable { WRITABLE } else { 0 };
        let (old, new) = (entry.load(Relaxed), frame.phys().0 as u64 | PAGE | rights);
        if old & VALID == 0 {
            entry.store(new, Release);
            core::mem::forget(frame);
            publish();
        } else if old & ADDRESS != new & ADDRESS {
            entry.store(0, Release);
            self.invalidate();
            // SAFETY: `map` left the frame's count with the entry, which no TLB knows any more.
            drop(unsafe { FrameRef::from_mapped(old & ADDRESS) });
            entry.store(new, Release);
            core::mem::forget(frame);
        } else if old | WRITABLE == new && old != new {
            // A stale entry would repeat the fault.
            entry.store(new, Release);
            self.invalidate();
        }
        Ok(true)
    }

    /// Maps the guest's huge page at `address`, which it may write, in the place of pages that may
    /// be there. The same otherwise as [`Stage2::map`].
    pub fn map_huge_page(&self, address: u64, huge: Shown, generation: u64) -> Result<bool> {
        let _held = self.changing.lock();
        if self.generation.load(Relaxed) != generation {
            return Ok(false);
        }
        let Some(entry) = self.make_entry(address, BLOCKS)? else {
            return Ok(true);
        };
        let old = entry.load(Relaxed);
        if old & TABLE == VALID {
            // Another CPU was faster.
            return Ok(true);
        }
        if old & VALID != 0 {
            entry.store(0, Release);
            self.invalidate();
            // SAFETY: taken out of the tree, and forgotten by all TLBs.
            unsafe { release(old, BLOCKS) };
        }
        entry.store(huge.into_phys() | BLOCK | WRITABLE, Release);
        publish();
        Ok(true)
    }

    /// The entry for `address` at a level, with the tables above it made; none below a huge page.
    fn make_entry(&self, address: u64, last: usize) -> Result<Option<&AtomicU64>> {
        let mut table = self.root.phys().0;
        for level in 0..last {
            let entry = entry(table, index(address, level));
            let mut value = entry.load(Relaxed);
            if value & VALID == 0 {
                let next = frame::alloc_zeroed()?;
                value = next.phys().0 as u64 | TABLE;
                core::mem::forget(next);
                entry.store(value, Release);
                self.tables.fetch_add(1, Relaxed);
            }
            if value & NO_BLOCK == 0 {
                return Ok(None);
            }
            table = (value & ADDRESS) as usize;
        }
        Ok(Some(entry(table, index(address, last))))
    }

    /// Lets the guest write no longer in these ranges, on all CPUs. Calls `pause` now and then,
    /// without a lock.
    pub fn protect(&self, ranges: impl Iterator<Item = Range<u64>>, mut pause: impl FnMut()) {
        for range in ranges {
            self.take(range.clone(), |value| value & NO_BLOCK == 0, &mut pause);
            let mut left = Some(range.start);
            while let Some(start) = left {
                let held = self.change();
                left = self.each_leaf(start..range.end, &mut |entry| {
                    if entry.fetch_and(!WRITABLE, AcqRel) & WRITABLE != 0 {
                        self.write_owed.store(true, Relaxed);
                    }
                    true
                });
                drop(held);
                pause();
            }
        }
        // Also where another call has cleared the bits, and pauses before it pays.
        let _held = self.changing.lock();
        if self.write_owed.swap(false, Relaxed) {
            self.invalidate();
        }
    }

    /// Forgets what is mapped in a range, on all CPUs, and lets go of its frames. Calls `pause` now
    /// and then, without a lock.
    pub fn unmap(&self, range: Range<u64>, mut pause: impl FnMut()) {
        self.take(range, |_| true, &mut pause);
    }

    /// Something is taken away while this is held: what was looked up before is not mapped any
    /// more.
    fn change(&self) -> MutexGuard<'_, ()> {
        let held = self.changing.lock();
        self.generation.fetch_add(1, Release);
        held
    }

    /// Takes the huge pages and pages in a range out that are wanted, huge pages as a whole.
    fn take(&self, range: Range<u64>, wanted: impl Fn(u64) -> bool, pause: &mut impl FnMut()) {
        let mut left = Some(range.start);
        while let Some(start) = left {
            // Frames are let go of only when no TLB knows them any more; so many at a time, without
            // memory for a list.
            let mut frames = [const { None }; 64];
            let mut count = 0;
            let held = self.change();
            left = self.each_leaf(start..range.end, &mut |entry| {
                if !wanted(entry.load(Relaxed)) {
                    return true;
                }
                if count == frames.len() {
                    return false;
                }
                frames[count] = Some(entry.swap(0, AcqRel));
                count += 1;
                true
            });
            if count > 0 {
                self.invalidate();
            }
            drop(held);
            for value in frames.into_iter().flatten() {
                // SAFETY: taken out of the tree, and forgotten by all TLBs.
                unsafe { release(value, LAST) };
            }
            pause();
        }
    }

    /// Visits the valid entries of pages and huge pages that touch a range until `visit` says
    /// false, or enough was looked at: the address that is next.
    fn each_leaf(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(&AtomicU64) -> bool,
    ) -> Option<u64> {
        let mut address = range.start;
        let mut looks = 0;
        while address < range.end {
            looks += 1;
            let (entry, level) = self.leaf(address);
            if looks > MOST_LOOKS {
                return Some(address);
            }
            if entry.load(Acquire) & VALID != 0 && !visit(entry) {
                return Some(address);
            }
            let covered = 1u64 << shift(level);
            address = (address & !(covered - 1)).saturating_add(covered);
        }
        None
    }

    /// The entry where a walk for an address ends, and its level.
    fn leaf(&self, address: u64) -> (&AtomicU64, usize) {
        let (mut table, mut level) = (self.root.phys().0, 0);
        loop {
            let entry = entry(table, index(address, level));
            let value = entry.load(Acquire);
            if level == LAST || value & TABLE != TABLE {
                return (entry, level);
            }
            (table, level) = ((value & ADDRESS) as usize, level + 1);
        }
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
    fn drop(&mut self) {
        self.invalidate();
        for at in 0..ENTRIES {
            let value = entry(self.root.phys().0, at).load(Acquire);
            if value & VALID != 0 {
                // SAFETY: nobody runs this guest any more, and all TLBs have forgotten it.
                unsafe { release(value, 0) };
            }
        }
    }
}

/// Lets go of what an entry of a level named: a table and all below it, a huge page, or a page.
///
/// # Safety
/// The entry held it, is gone, and no TLB knows it or what is below it.
unsafe fn release(value: u64, level: usize) {
    let named = value & ADDRESS;
    if value & NO_BLOCK == 0 {
        // SAFETY: `map_huge_page` left it with the entry.
        return drop(unsafe { Shown::from_phys(named) });
    }
    if level < LAST {
        for at in 0..ENTRIES {
            let below = entry(named as usize, at).load(Acquire);
            if below & VALID != 0 {
                // SAFETY: as the caller says, of all below.
                unsafe { release(below, level + 1) };
            }
        }
    }
    // SAFETY: whoever made the entry left the frame's count with it.
    drop(unsafe { FrameRef::from_mapped(named) });
}

/// Makes this CPU forget what it holds of the guest whose translation it has, instructions
/// included; HCR_EL2 is the guest's already.
pub(super) fn forget_here() {
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

/// Walks see the entry before the guest is entered (D8.17.1).
fn publish() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
}

fn shift(level: usize) -> usize {
    12 + 9 * (LAST - level)
}

fn index(address: u64, level: usize) -> usize {
    (address >> shift(level)) as usize % ENTRIES
}

fn entry(table: usize, index: usize) -> &'static AtomicU64 {
    assert!(index < ENTRIES);
    // SAFETY: tables are frames of a living `Stage2`, in the linear map, used through atomics
    // alone; callers keep no entry.
    unsafe { &*(phys_to_virt(table) as *const AtomicU64).add(index) }
}
