//! A guest's memory: the translation from its physical addresses to ours (Arm ARM D8.2.2, stage 2), four levels of 4 KiB
//! tables, and the identifier that TLBs know it by.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::super::PAGE_SIZE;
use super::super::mmu::phys_to_virt;
use super::super::sysreg::{isb, read, write};
use crate::errno::{Errno, Result};
use crate::mm::frame::{self, FrameRef};
use crate::sync::Mutex;

/// Entries of a table.
const ENTRIES: usize = PAGE_SIZE / 8;
/// The level of the last table.
const LAST: usize = 3;
/// Where an entry's address stands.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// A table, or at the last level a page (D8.3.1).
const VALID: u64 = 0b11;
/// A page of Normal memory, write-back, inner shareable, accessed, readable (D8.3.2).
const PAGE: u64 = VALID | 0b1111 << 2 | 1 << 6 | 0b11 << 8 | 1 << 10;
/// It may be written.
const WRITABLE: u64 = 1 << 7;
/// VTCR_EL2 but the sizes: RES1, walks write-back and inner shareable, from level 0 (D24.2.213).
const CONTROL: u64 = 1 << 31 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 2 << 6;
/// HCR_EL2.TGE: with it, TLB maintenance of EL1 would be of the host's programs.
const HCR_TGE: usize = 1 << 27;

/// Identifiers in use, a bit each; 0 is nobody's.
static IDENTIFIERS: Mutex<[u64; 4]> = Mutex::new([1, 0, 0, 0]);

fn take_identifier() -> Result<u8> {
    let mut words = IDENTIFIERS.lock();
    for (at, word) in words.iter_mut().enumerate() {
        let bit = word.trailing_ones();
        if bit < 64 {
            *word |= 1 << bit;
            return Ok((at as u32 * 64 + bit) as u8);
        }
    }
    Err(Errno::ENOSPC)
}

/// Whether the CPU can translate so: addresses of 44 bits at least let a walk start at level 0 (D8.2.8), and 4 KiB
/// tables at stage 2.
pub(super) fn possible() -> bool {
    read!("id_aa64mmfr0_el1") & 0xf >= 4
}

/// The translation of one guest.
pub struct Stage2 {
    root: FrameRef,
    identifier: u8,
    /// Bits of a guest's physical address.
    bits: u32,
    /// Held while entries are changed.
    changing: Mutex<()>,
    /// Counts the times that something was taken away: what was looked up before may be true no longer.
    generation: AtomicU64,
}

impl Stage2 {
    /// An empty one for guest addresses of `bits` bits, 40 to 48.
    pub fn new(bits: u32) -> Result<Self> {
        let root = frame::alloc_zeroed()?;
        Ok(Stage2 {
            root,
            identifier: take_identifier()?,
            bits,
            changing: Mutex::new(()),
            generation: AtomicU64::new(0),
        })
    }

    /// VTTBR_EL2.
    fn base(&self) -> u64 {
        self.root.phys().0 as u64 | u64::from(self.identifier) << 48
    }

    /// Makes it this CPU's.
    pub(super) fn load(&self) {
        let size = (read!("id_aa64mmfr0_el1") as u64 & 0xf).min(5);
        let control = CONTROL | size << 16 | u64::from(64 - self.bits);
        // SAFETY: the tables are sound, and stage 2 concerns guests alone.
        unsafe {
            write!("vtcr_el2", control);
            write!("vttbr_el2", self.base());
        }
    }

    /// What [`Stage2::map`] is to be given, read before the frame is looked up.
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Maps the guest's page at `address`: the translation holds the frame from then on. Not if anything was taken away
    /// since `generation`: false then, and the guest's next try finds what is true now.
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
        let mut table = self.root.phys().0;
        for level in 0..LAST {
            let entry = entry(table, index(address, level));
            let mut value = entry.load(Relaxed);
            if value & VALID == 0 {
                let next = frame::alloc_zeroed()?;
                value = next.phys().0 as u64 | VALID;
                core::mem::forget(next);
                entry.store(value, Release);
            }
            table = (value & ADDRESS) as usize;
        }
        let entry = entry(table, index(address, LAST));
        let rights = if writable { WRITABLE } else { 0 };
        let (old, new) = (entry.load(Relaxed), frame.phys().0 as u64 | PAGE | rights);
        if old & VALID == 0 {
            entry.store(new, Release);
            core::mem::forget(frame);
            // Walks see the entry before the guest is entered (D8.17.1).
            // SAFETY: a barrier.
            unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
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

    /// Lets the guest write no longer in these ranges, on all CPUs.
    pub fn protect(&self, ranges: impl Iterator<Item = Range<u64>>) {
        let mut changed = false;
        for range in ranges {
            let _held = self.changing.lock();
            self.generation.fetch_add(1, Release);
            self.each_page(range, &mut |entry| {
                changed |= entry.fetch_and(!WRITABLE, AcqRel) & WRITABLE != 0;
                true
            });
        }
        if changed {
            let _held = self.changing.lock();
            self.invalidate();
        }
    }

    /// Forgets what is mapped in a range, on all CPUs, and lets go of its frames.
    pub fn unmap(&self, range: Range<u64>) {
        let _held = self.changing.lock();
        self.generation.fetch_add(1, Release);
        let mut left = Some(range.start);
        while let Some(start) = left {
            // Frames are let go of only when no TLB knows them any more; so many at a time, without memory for a list.
            let mut frames = [const { None }; 64];
            let mut count = 0;
            left = self.each_page(start..range.end, &mut |entry| {
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
            for value in frames.into_iter().flatten() {
                // SAFETY: `map` left the frame's count with the entry, which is gone.
                drop(unsafe { FrameRef::from_mapped(value & ADDRESS) });
            }
        }
    }

    /// Visits the valid entries of pages in a range until `visit` says false: the address where it did.
    fn each_page(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(&AtomicU64) -> bool,
    ) -> Option<u64> {
        let mut address = range.start;
        'pages: while address < range.end {
            let mut table = self.root.phys().0;
            for level in 0..LAST {
                let value = entry(table, index(address, level)).load(Acquire);
                if value & VALID == 0 {
                    let covered = 1u64 << shift(level);
                    address = (address & !(covered - 1)).saturating_add(covered);
                    continue 'pages;
                }
                table = (value & ADDRESS) as usize;
            }
            let entry = entry(table, index(address, LAST));
            if entry.load(Relaxed) & VALID != 0 && !visit(entry) {
                return Some(address);
            }
            address += PAGE_SIZE as u64;
        }
        None
    }

    /// Makes all CPUs forget all of it (D8.16: VMALLS12E1IS, by the identifier in VTTBR_EL2).
    fn invalidate(&self) {
        let host = read!("hcr_el2");
        // SAFETY: EL1's TLB maintenance is a guest's while TGE is clear, and nothing of a program is touched meanwhile;
        // what was loaded here before is loaded anew before each run.
        unsafe {
            asm!("dsb ishst", options(nostack, preserves_flags));
            write!("vttbr_el2", self.base());
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

    /// Frees the tables below one.
    fn free_tables(table: usize, level: usize) {
        for at in 0..ENTRIES {
            let value = entry(table, at).swap(0, AcqRel);
            if level < LAST && value & VALID != 0 {
                Self::free_tables((value & ADDRESS) as usize, level + 1);
                // SAFETY: `map` left the table's count with the entry, which is gone.
                drop(unsafe { FrameRef::from_mapped(value & ADDRESS) });
            }
        }
    }
}

impl Drop for Stage2 {
    fn drop(&mut self) {
        self.unmap(0..1 << self.bits);
        self.invalidate();
        Self::free_tables(self.root.phys().0, 0);
        IDENTIFIERS.lock()[usize::from(self.identifier) / 64] &= !(1 << (self.identifier % 64));
    }
}

fn shift(level: usize) -> usize {
    12 + 9 * (LAST - level)
}

fn index(address: u64, level: usize) -> usize {
    (address >> shift(level)) as usize % ENTRIES
}

fn entry(table: usize, index: usize) -> &'static AtomicU64 {
    assert!(index < ENTRIES);
    // SAFETY: tables are frames of a living `Stage2`, in the linear map, used through atomics alone; callers keep no entry.
    unsafe { &*(phys_to_virt(table) as *const AtomicU64).add(index) }
}
