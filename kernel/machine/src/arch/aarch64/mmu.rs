//! Page tables: the entry format, the active tables, and the layout of the kernel's half.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::sysreg::{isb, write};

pub use super::tlb::*;
pub use crate::arch::prot::Prot;

/// Bytes that an entry one level above the last covers.
pub const PMD_SIZE: usize = 1 << 21;
/// Bytes that an entry two levels above the last covers.
pub const PUD_SIZE: usize = 1 << 30;
/// Number of entries in a table.
pub(super) const ENTRIES: usize = 512;

/// The layout of the kernel's half, which TTBR1 translates.
pub mod layout {
    /// All of physical memory.
    pub const LINEAR: usize = 0xffff_0000_0000_0000;
    /// Kernel stacks and device registers.
    pub const VMALLOC: usize = 0xffff_8000_0000_0000;
    /// Its size in bytes.
    pub const VMALLOC_SIZE: usize = 512 << 30;
    /// The kernel image (`IMAGE` in kernel.ld).
    pub const IMAGE: usize = 0xffff_ffff_8000_0000;
    /// A window for the device tree during boot.
    pub const TREE_WINDOW: usize = IMAGE + (512 << 20);
    /// A window for the console during boot.
    pub const CONSOLE_WINDOW: usize = IMAGE + (520 << 20);
}

/// The address range for kernel stacks and device registers.
pub const VMALLOC: Range<usize> = layout::VMALLOC..layout::VMALLOC + layout::VMALLOC_SIZE;
/// Whether the kernel can use what it maps there.
pub const MAPS_VMALLOC: bool = true;

/// Bits of a stage 1 descriptor (Arm ARM, "Translation table descriptor formats").
pub(super) mod bit {
    pub const VALID: u64 = 1 << 0;
    /// A table, or a page at the last level; a block if clear.
    pub const TABLE: u64 = 1 << 1;
    pub const ATTR_SHIFT: u32 = 2;
    /// AP[1]: EL0 may access.
    pub const USER: u64 = 1 << 6;
    /// AP[2]: read-only.
    pub const READ_ONLY: u64 = 1 << 7;
    pub const INNER_SHAREABLE: u64 = 3 << 8;
    pub const ACCESS: u64 = 1 << 10;
    pub const NOT_GLOBAL: u64 = 1 << 11;
    /// GP: indirect branches must target landing pads (FEAT_BTI).
    pub const GUARDED: u64 = 1 << 50;
    /// DBM: the hardware may clear AP[2] on a store (FEAT_HAFDBS).
    pub const DIRTY_MODIFIER: u64 = 1 << 51;
    /// One of 16 entries for pages that are contiguous, and may be cached as one.
    pub const CONTIGUOUS: u64 = 1 << 52;
    pub const PRIVILEGED_NEVER: u64 = 1 << 53;
    pub const USER_NEVER: u64 = 1 << 54;
    pub const ADDRESS: u64 = ((1 << 48) - 1) & !0xfff;
}

/// MAIR_EL1: the memory attributes that [`Memory`] indexes.
pub(super) const MAIR: u64 = 0xff << (8 * Memory::Normal as u64)
    | 0x04 << (8 * Memory::Device as u64)
    | 0xff << (8 * Memory::Tagged as u64);
/// MAIR_EL1 if memory has allocation tags.
pub(super) const MAIR_WITH_TAGS: u64 =
    MAIR ^ (0xff << (8 * Memory::Tagged as u64)) ^ (0xf0 << (8 * Memory::Tagged as u64));

/// Memory types, as indices of MAIR_EL1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Memory {
    /// Cached, write-back.
    Normal = 1,
    /// Device-nGnRE.
    Device = 0,
    /// Normal memory, with tags if they are supported.
    Tagged = 2,
}

impl Memory {
    /// Memory with tags.
    pub const TAGGED: Memory = Memory::Tagged;
}

/// A page-table entry's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Pte(pub u64);

impl Pte {
    /// Empty.
    pub const EMPTY: Pte = Pte(0);

    /// The value of an entry that is about to be filled, or whose page is moved to another frame:
    /// invalid, but not empty. It has the bit of [`Pte::is_contiguous`], so that one test is for
    /// both.
    pub const BUSY: Pte = Pte(bit::CONTIGUOUS);

    /// Points to the table at `phys`.
    pub const fn table(phys: usize) -> Pte {
        Pte(phys as u64 | bit::TABLE | bit::VALID)
    }

    /// Maps the page at `phys`: young, and dirty if writable.
    pub const fn leaf(phys: usize, prot: Prot, memory: Memory) -> Pte {
        let mut bits = phys as u64
            | bit::TABLE
            | bit::VALID
            | bit::ACCESS
            | (memory as u64) << bit::ATTR_SHIFT;
        if !matches!(memory, Memory::Device) {
            bits |= bit::INNER_SHAREABLE;
        }
        if prot.write {
            bits |= bit::DIRTY_MODIFIER;
        } else {
            bits |= bit::READ_ONLY;
        }
        if prot.user {
            bits |= bit::USER | bit::NOT_GLOBAL | bit::PRIVILEGED_NEVER;
            if prot.execute {
                bits = Pte::executable(bits, prot.guarded);
            } else {
                bits |= bit::USER_NEVER;
            }
        } else {
            bits |= bit::USER_NEVER;
            if !prot.execute {
                bits |= bit::PRIVILEGED_NEVER;
            }
        }
        Pte(bits)
    }

    /// Out of line, so that data faults have a single test.
    #[cold]
    #[inline(never)]
    const fn executable(bits: u64, guarded: bool) -> u64 {
        if guarded { bits | bit::GUARDED } else { bits }
    }

    /// Maps the block at `phys` as [`leaf`](Pte::leaf) maps a page, for levels above the last.
    pub const fn huge_leaf(phys: usize, prot: Prot, memory: Memory) -> Pte {
        Pte(Pte::leaf(phys, prot, memory).0 & !bit::TABLE)
    }

    /// The PTE of page `index` of this block.
    pub const fn page(self, index: usize) -> Pte {
        Pte((self.0 | bit::TABLE) + (index as u64 * super::PAGE_SIZE as u64))
    }

    /// Whether it points to a table. Not for last-level PTEs.
    pub const fn is_table(self) -> bool {
        self.0 & (bit::TABLE | bit::VALID) == bit::TABLE | bit::VALID
    }

    /// Whether the hardware uses it.
    pub const fn valid(self) -> bool {
        self.0 & bit::VALID != 0
    }

    /// Whether it stays unseen until a fault on it: never here.
    pub const fn is_unseen(self) -> bool {
        false
    }

    /// The PTE without the unseen mark.
    pub const fn revealed(self) -> Pte {
        self
    }

    /// The physical address.
    pub const fn phys(self) -> usize {
        (self.0 & bit::ADDRESS) as usize
    }

    /// Whether stores are allowed, directly or by the hardware's update of the dirty state.
    pub const fn writable(self) -> bool {
        self.0 & bit::DIRTY_MODIFIER != 0
    }

    /// Whether the Access flag is set.
    pub const fn young(self) -> bool {
        self.0 & bit::ACCESS != 0
    }

    /// Whether the page was written to.
    pub const fn dirty(self) -> bool {
        self.0 & (bit::DIRTY_MODIFIER | bit::READ_ONLY) == bit::DIRTY_MODIFIER
    }

    /// Makes it writable (and dirty) or read-only.
    pub const fn with_writable(self, on: bool) -> Pte {
        if on {
            Pte(self.0 & !bit::READ_ONLY | bit::DIRTY_MODIFIER)
        } else {
            Pte(self.0 & !bit::DIRTY_MODIFIER | bit::READ_ONLY)
        }
    }

    /// The PTE as one of a run of contiguous pages.
    pub const fn contiguous(self) -> Pte {
        Pte(self.0 | bit::CONTIGUOUS)
    }

    /// Whether it is one of a run of contiguous pages, or busy.
    pub const fn is_contiguous(self) -> bool {
        self.0 & bit::CONTIGUOUS != 0
    }

    /// The PTE of page `index` of a run by itself.
    pub const fn alone(self, _index: usize) -> Pte {
        Pte(self.0 & !bit::CONTIGUOUS)
    }

    /// Makes it a mapping of tagged memory.
    #[cold]
    pub const fn with_tags(self) -> Pte {
        let index = (Memory::Normal as u64) << bit::ATTR_SHIFT;
        Pte(self.0 & !index | (Memory::Tagged as u64) << bit::ATTR_SHIFT)
    }

    /// Sets or clears the Access flag.
    pub const fn with_young(self, on: bool) -> Pte {
        Pte(if on {
            self.0 | bit::ACCESS
        } else {
            self.0 & !bit::ACCESS
        })
    }
}

/// Whether CPUs know contiguous entries: always (Arm ARM, "The Contiguous bit").
pub fn has_contiguous() -> bool {
    true
}

/// Whether changing the frame of a valid PTE requires break-before-make.
pub const BREAK_FIRST: bool = translation::arm64(translation::Change::Replace).break_first;

/// Whether unused kernel mappings may be kept for reuse: always.
#[inline(always)]
pub const fn keeps_mappings() -> bool {
    true
}

/// The value to store for a new user PTE. Other architectures may mark it unseen.
#[inline(always)]
pub const fn new_entry(pte: Pte) -> Pte {
    pte
}

/// A table that is part of the image.
#[repr(C, align(4096))]
pub struct Table(pub(super) [AtomicU64; ENTRIES]);

impl Table {
    pub(super) const fn new() -> Self {
        Table([const { AtomicU64::new(0) }; ENTRIES])
    }
}

/// The kernel's root table.
pub(super) static KERNEL_ROOT: Table = Table::new();
/// A root table without program pages.
pub(super) static EMPTY_ROOT: Table = Table::new();
/// The image's physical address minus its virtual address.
static IMAGE_OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Sets the physical address of the image.
pub(super) fn set_image(phys: usize) {
    IMAGE_OFFSET.store(phys.wrapping_sub(layout::IMAGE), Relaxed);
}

/// Number of table levels.
#[inline(always)]
pub const fn levels() -> usize {
    4
}

/// Physical address of the kernel's root table.
pub fn kernel_root() -> usize {
    virt_to_phys(&raw const KERNEL_ROOT as usize)
}

/// Physical address of a root table without program pages.
pub fn empty_root() -> usize {
    virt_to_phys(&raw const EMPTY_ROOT as usize)
}

/// The address of physical memory in the linear map.
#[inline(always)]
pub const fn phys_to_virt(phys: usize) -> usize {
    phys | layout::LINEAR
}

/// The physical address of an address in the linear map or in the image.
#[inline(always)]
pub fn virt_to_phys(virt: usize) -> usize {
    if virt >= layout::IMAGE {
        virt.wrapping_add(IMAGE_OFFSET.load(Relaxed))
    } else {
        virt - layout::LINEAR
    }
}

/// Prepares a program's new root table: nothing to do, as the kernel has its own root.
///
/// # Safety
/// No requirements here; other architectures write to the table.
pub unsafe fn init_user_root(_root: usize) {}

/// Switches this CPU to the program's tables at `root` (physical) with the ASID `asid`: a single
/// write changes both (TCR_EL1.A1 is 0, so that the ASID is that of TTBR0_EL1).
///
/// # Safety
/// `root` is a program's root table that lives until another is activated, or [`empty_root`].
#[inline]
pub unsafe fn activate(root: usize, asid: u16) {
    // SAFETY: TTBR0 translates the programs' half, which the kernel accesses only through
    // `uaccess`.
    unsafe { write!("ttbr0_el1", root | (asid as usize) << 48) };
    isb();
}

/// The block size of DC ZVA for which it is used, in bytes.
const ZERO_BLOCK: usize = 64;
/// Whether DC ZVA may be used and zeroes [`ZERO_BLOCK`] bytes; set before programs run.
static ZERO_BY_BLOCK: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Selects how pages are zeroed.
pub(super) fn init(features: &idreg::System) {
    ZERO_BY_BLOCK.store(features.zeroed_block() == Some(ZERO_BLOCK), Relaxed);
    super::tlb::init(features);
}

/// Zeroes `count` pages, at least one.
///
/// # Safety
/// `pages` is the address of `count` contiguous whole pages of normal memory, which the caller
/// owns.
#[inline]
pub unsafe fn zero_pages(pages: *mut u8, count: usize) {
    let bytes = count * super::PAGE_SIZE;
    if !ZERO_BY_BLOCK.load(Relaxed) {
        // SAFETY: the caller owns the pages.
        return unsafe { pages.write_bytes(0, bytes) };
    }
    // SAFETY: zeroes exactly the caller's pages (Arm ARM, "DC ZVA, Data Cache Zero by VA").
    unsafe {
        asm!(
            "2:",
            ".rept {unrolled}",
            "dc zva, {at}",
            "add {at}, {at}, {block}",
            ".endr",
            "cmp {at}, {end}",
            "b.ne 2b",
            at = inout(reg) pages => _,
            end = in(reg) pages.wrapping_add(bytes),
            unrolled = const 16,
            block = const ZERO_BLOCK,
            options(nostack),
        )
    }
}

/// Copies a page.
///
/// # Safety
/// `to` is the address of a whole page that the caller owns, `from` that of a different one that it
/// may read.
#[inline]
pub unsafe fn copy_page(to: *mut u8, from: *const u8) {
    // SAFETY: whole distinct pages, guaranteed by the caller, multiples of 512 bytes.
    unsafe {
        asm!(
            "2:",
            ".set at, 0",
            ".rept 16",
            "ldp {a}, {b}, [{from}, at]",
            "ldp {c}, {d}, [{from}, at + 16]",
            "stp {a}, {b}, [{to}, at]",
            "stp {c}, {d}, [{to}, at + 16]",
            ".set at, at + 32",
            ".endr",
            "add {from}, {from}, 512",
            "add {to}, {to}, 512",
            "cmp {from}, {end}",
            "b.ne 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            end = in(reg) from.wrapping_add(super::PAGE_SIZE),
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            options(nostack),
        )
    }
}
