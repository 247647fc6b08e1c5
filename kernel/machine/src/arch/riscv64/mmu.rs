//! Page tables (RISC-V privileged manual, chapters 12.3 to 12.6).
//!
//! All kernel addresses lie in the upper half of Sv39, so that its tables are the same for Sv39,
//! Sv48 and Sv57: the larger modes add root tables with a single entry for it.

use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

pub use super::fence::{keeps_mappings, new_entry, pay, publish_kernel, publish_table, spurious};
pub use super::tlb::{Holders, enter_space, flush_kernel, flush_local_all, sync_icache};
use super::{features, tlb};
use crate::arch::branch::Key;

pub use crate::arch::prot::Prot;

/// log2 of the bytes in a page.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes that an entry one level above the last covers.
pub const PMD_SIZE: usize = 1 << 21;
/// Bytes that an entry two levels above the last covers.
pub const PUD_SIZE: usize = 1 << 30;
/// The position of the frame number in a PTE.
pub const PPN_SHIFT: u32 = 10;

/// The layout of the kernel's half.
pub mod layout {
    /// Kernel stacks and device registers.
    pub const VMALLOC: usize = 0xffff_ffc0_0000_0000;
    /// Its size in bytes.
    pub const VMALLOC_SIZE: usize = 16 << 30;
    /// All physical memory from address 0 on.
    pub const LINEAR: usize = 0xffff_ffd0_0000_0000;
    /// The size of the linear map: memory above is not used.
    pub const LINEAR_SIZE: usize = 128 << 30;
    /// The kernel image.
    pub const IMAGE: usize = 0xffff_ffff_8000_0000;
}

/// The address range for kernel stacks and device registers.
pub const VMALLOC: Range<usize> = layout::VMALLOC..layout::VMALLOC + layout::VMALLOC_SIZE;
/// Whether the kernel can use what it maps there.
pub const MAPS_VMALLOC: bool = true;

/// Bits of a PTE (section 12.3.1, figure "Sv39 page table entry").
mod bit {
    pub const VALID: u64 = 1 << 0;
    pub const READ: u64 = 1 << 1;
    pub const WRITE: u64 = 1 << 2;
    pub const EXECUTE: u64 = 1 << 3;
    pub const USER: u64 = 1 << 4;
    pub const GLOBAL: u64 = 1 << 5;
    pub const ACCESSED: u64 = 1 << 6;
    pub const DIRTY: u64 = 1 << 7;
    /// Reserved for software: marks a PTE as valid that `fence.inject` hides until a fault on it.
    pub const UNSEEN: u64 = 1 << 8;
    /// N: one of 16 entries that are the same, for pages that are contiguous (Svnapot).
    pub const NAPOT: u64 = 1 << 63;
    /// In place of the low bits of the frame number: the size of 64 KiB.
    pub const NAPOT_64K: u64 = 1 << 3 << super::PPN_SHIFT;
    pub const NAPOT_SIZE: u64 = 15 << super::PPN_SHIFT;
    /// The frame number: 44 bits.
    pub const PPN: u64 = ((1 << 44) - 1) << super::PPN_SHIFT;
}

/// A PTE that points to a table, for assembly.
pub const TABLE: u64 = bit::VALID;
/// The bits that change together to reveal an unseen PTE, for assembly.
pub const REVEAL: u64 = bit::VALID | bit::UNSEEN;
/// The bit of an unseen PTE, for assembly.
pub const UNSEEN: u64 = bit::UNSEEN;
/// The permissions of everything during boot, for assembly.
pub const BOOT_RIGHTS: u64 =
    bit::VALID | bit::READ | bit::WRITE | bit::EXECUTE | bit::GLOBAL | bit::ACCESSED | bit::DIRTY;

/// Translation modes, by number of levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Mode {
    /// Three levels.
    Sv39 = 8,
    /// Four levels.
    Sv48 = 9,
    /// Five levels.
    Sv57 = 10,
}

impl Mode {
    /// The mode with this number of levels.
    pub(super) fn of_levels(levels: usize) -> Self {
        match levels {
            3 => Mode::Sv39,
            4 => Mode::Sv48,
            _ => Mode::Sv57,
        }
    }

    /// Size of either half of the address space in bytes.
    pub const fn half(self) -> usize {
        match self {
            Mode::Sv39 => 1 << 38,
            Mode::Sv48 => 1 << 47,
            Mode::Sv57 => 1 << 56,
        }
    }

    /// The mode's value in `satp` (section 12.1.11).
    pub const fn satp(self) -> u64 {
        (self as u64) << SATP_MODE
    }
}

const SATP_MODE: u32 = 60;
const SATP_ASID: u32 = 44;
const SATP_ASID_BITS: u64 = 0xffff;

/// Memory types. RISC-V's physical memory attributes already identify devices, so that PTEs need
/// not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Cached.
    Normal,
    /// Device registers.
    Device,
}

impl Memory {
    /// Memory with tags, which RISC-V does not have.
    pub const TAGGED: Memory = Memory::Normal;
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
    pub const BUSY: Pte = Pte(bit::NAPOT);

    /// Points to the table at `phys`.
    pub const fn table(phys: usize) -> Pte {
        Pte(ppn(phys) | bit::VALID)
    }

    /// Maps the page at `phys`: accessed, and dirty if writable, as nothing checks which pages were
    /// written.
    pub const fn leaf(phys: usize, prot: Prot, _memory: Memory) -> Pte {
        let mut bits = ppn(phys) | bit::VALID | bit::ACCESSED;
        // Writable without readable is reserved, and no permissions at all would mean a table.
        if prot.read || prot.write {
            bits |= bit::READ;
        }
        if prot.write {
            bits |= bit::WRITE | bit::DIRTY;
        }
        if prot.execute {
            bits |= bit::EXECUTE;
        }
        bits |= if prot.user { bit::USER } else { bit::GLOBAL };
        Pte(bits)
    }

    /// Maps the block at `phys` as [`leaf`](Pte::leaf) maps a page, for levels above the last.
    pub const fn huge_leaf(phys: usize, prot: Prot, memory: Memory) -> Pte {
        Pte::leaf(phys, prot, memory)
    }

    /// The PTE of page `index` of this block.
    pub const fn page(self, index: usize) -> Pte {
        Pte(self.0 + ((index as u64) << PPN_SHIFT))
    }

    /// Whether the hardware uses it, or will after it is revealed.
    pub const fn valid(self) -> bool {
        self.0 & (bit::VALID | bit::UNSEEN) != 0
    }

    /// Whether it is visible to the hardware and accessible to programs.
    pub(super) const fn is_program(self) -> bool {
        self.0 & (bit::USER | bit::VALID) == bit::USER | bit::VALID
    }

    /// Whether it stays unseen until a fault on it (`fence.inject`).
    pub const fn is_unseen(self) -> bool {
        self.0 & bit::UNSEEN != 0
    }

    /// The PTE hidden until a fault on it.
    pub(super) const fn unseen(self) -> Pte {
        Pte(self.0 & !bit::VALID | bit::UNSEEN)
    }

    /// The PTE made visible.
    pub const fn revealed(self) -> Pte {
        if self.is_unseen() {
            Pte(self.0 & !bit::UNSEEN | bit::VALID)
        } else {
            self
        }
    }

    /// Whether it points to a table. Not for last-level PTEs.
    pub const fn is_table(self) -> bool {
        self.valid() && self.0 & (bit::READ | bit::WRITE | bit::EXECUTE) == 0
    }

    /// The physical address.
    pub const fn phys(self) -> usize {
        ((self.0 & bit::PPN) >> PPN_SHIFT << PAGE_SHIFT) as usize
    }

    /// Whether stores are allowed.
    pub const fn writable(self) -> bool {
        self.0 & bit::WRITE != 0
    }

    /// Whether the Accessed bit is set.
    pub const fn young(self) -> bool {
        self.0 & bit::ACCESSED != 0
    }

    /// Whether the page was written to.
    pub const fn dirty(self) -> bool {
        self.0 & bit::DIRTY != 0
    }

    /// Makes it writable or read-only.
    pub const fn with_writable(self, on: bool) -> Pte {
        self.with(bit::WRITE | bit::DIRTY, on)
    }

    /// The PTE as one of a run of contiguous pages: its address is then that of none of them.
    pub const fn contiguous(self) -> Pte {
        Pte(self.0 & !bit::NAPOT_SIZE | bit::NAPOT_64K | bit::NAPOT)
    }

    /// Whether it is one of a run of contiguous pages, or busy.
    pub const fn is_contiguous(self) -> bool {
        self.0 & bit::NAPOT != 0
    }

    /// The PTE of page `index` of a run by itself.
    pub const fn alone(self, index: usize) -> Pte {
        let run = self.0 & !(bit::NAPOT | bit::NAPOT_SIZE);
        Pte(run | (index as u64) << PPN_SHIFT)
    }

    /// Makes it a mapping of tagged memory: there is none.
    pub const fn with_tags(self) -> Pte {
        self
    }

    /// Sets or clears the Accessed bit.
    pub const fn with_young(self, on: bool) -> Pte {
        self.with(bit::ACCESSED, on)
    }

    const fn with(self, bits: u64, on: bool) -> Pte {
        Pte(if on { self.0 | bits } else { self.0 & !bits })
    }
}

const fn ppn(phys: usize) -> u64 {
    (phys as u64) >> PAGE_SHIFT << PPN_SHIFT
}

/// Whether all harts know contiguous entries.
pub fn has_contiguous() -> bool {
    features::features().has(isa::Extension::Svnapot)
}

/// Whether changing the frame of a valid PTE requires break-before-make.
pub const BREAK_FIRST: bool = fence::breaks_first(translation::Change::Replace);

/// Number of entries in a table.
const ENTRIES: usize = 512;
/// Number of address bits that a table resolves.
pub(super) const INDEX_BITS: usize = ENTRIES.trailing_zeros() as usize;

/// A table that is part of the image. Written only by the boot path and by `kernel_map`.
#[repr(C, align(4096))]
pub struct Table(pub(super) [AtomicU64; ENTRIES]);

impl Table {
    pub(super) const fn new() -> Self {
        Table([const { AtomicU64::new(0) }; ENTRIES])
    }
}

/// The root of Sv39, which contains the whole kernel.
pub static ROOT_SV39: Table = Table::new();
/// The root of Sv48.
pub static ROOT_SV48: Table = Table::new();
/// The root of Sv57.
pub static ROOT_SV57: Table = Table::new();
/// The table of the kernel image, at first with blocks.
pub static IMAGE_TABLE: Table = Table::new();

/// Byte offset of the entry for `address` in Sv39's root.
pub const fn root39_slot(address: usize) -> usize {
    root39_index(address) * size_of::<Pte>()
}

pub(super) const fn root39_index(address: usize) -> usize {
    address / PUD_SIZE % ENTRIES
}

/// Byte offset of the last entry of a table, which covers the kernel in the roots of the larger
/// modes.
pub const TOP_SLOT: usize = (ENTRIES - 1) * size_of::<Pte>();

/// Number of table levels; set by [`init`].
static LEVELS: AtomicUsize = AtomicUsize::new(3);
/// log2 of the number of ASIDs; set by [`init`].
static ASID_BITS: AtomicUsize = AtomicUsize::new(0);
/// The mode and the kernel's root in `satp`'s format; set by [`init`].
pub(super) static KERNEL_SATP: AtomicU64 = AtomicU64::new(0);
/// The image's physical address minus its virtual address; set by [`init`].
static IMAGE_OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Reads from `satp` what the boot path selected, and computes the image's offset from its physical
/// address `image`.
pub(super) fn init(image: usize) {
    let satp = read_satp();
    LEVELS.store(
        (satp >> SATP_MODE) as usize - Mode::Sv39 as usize + 3,
        Relaxed,
    );
    IMAGE_OFFSET.store(image.wrapping_sub(layout::IMAGE), Relaxed);
    KERNEL_SATP.store(satp, Relaxed);
    // SAFETY: the same tables with another ASID.
    unsafe { write_satp(satp | SATP_ASID_BITS << SATP_ASID) };
    ASID_BITS.store(
        (read_satp() >> SATP_ASID & SATP_ASID_BITS).count_ones() as usize,
        Relaxed,
    );
    // SAFETY: the same tables again.
    unsafe { write_satp(satp) };
    tlb::flush_local_all();
}

fn read_satp() -> u64 {
    let satp;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, satp", out(reg) satp, options(nomem, nostack, preserves_flags)) };
    satp
}

/// # Safety
/// The root table maps the kernel.
#[inline(always)]
unsafe fn write_satp(satp: u64) {
    // SAFETY: the caller's root maps the kernel, so that execution continues.
    unsafe { asm!("csrw satp, {}", in(reg) satp, options(nostack, preserves_flags)) };
}

/// Number of table levels: 3 to 5.
#[inline(always)]
pub fn levels() -> usize {
    LEVELS.load(Relaxed)
}

/// Limits the number of ASIDs to 2^`bits`, before the first one is used.
pub(super) fn limit_asid_bits(bits: usize) {
    ASID_BITS.fetch_min(bits, Relaxed);
}

/// log2 of the number of ASIDs.
pub fn asid_bits() -> u32 {
    ASID_BITS.load(Relaxed) as u32
}

/// The kernel's own `satp`, for starting harts.
pub(super) fn kernel_satp() -> u64 {
    KERNEL_SATP.load(Relaxed)
}

/// Physical address of the kernel's root table.
pub fn kernel_root() -> usize {
    ((kernel_satp() & ((1 << SATP_ASID) - 1)) << PAGE_SHIFT) as usize
}

/// Physical address of a root table without program pages.
pub fn empty_root() -> usize {
    kernel_root()
}

/// The address of physical memory in the linear map.
#[inline(always)]
pub const fn phys_to_virt(phys: usize) -> usize {
    phys + layout::LINEAR
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

/// Copies the kernel's half into a program's new root table.
///
/// # Safety
/// `root` is the linear-map address of a zeroed table that nothing else uses.
pub unsafe fn init_user_root(root: usize) {
    let first = if levels() == 3 {
        ENTRIES / 2
    } else {
        ENTRIES - 1
    };
    // SAFETY: the kernel's root is never freed, and the caller owns the other.
    let (kernel, user) = unsafe {
        (
            &*(phys_to_virt(kernel_root()) as *const Table),
            &*(root as *const Table),
        )
    };
    for (from, to) in kernel.0.iter().zip(&user.0).skip(first) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// Switches this CPU to the tables at `root` (physical) with the ASID `asid`.
///
/// # Safety
/// `root` is a program's root table that lives until another is activated, or [`empty_root`].
#[inline]
pub unsafe fn activate(root: usize, asid: u16) {
    let mode = kernel_satp() >> SATP_MODE << SATP_MODE;
    // SAFETY: every root maps the kernel.
    unsafe { write_satp(mode | (asid as u64) << SATP_ASID | (root >> PAGE_SHIFT) as u64) };
}

/// Zeroes `count` pages, at least one.
///
/// # Safety
/// `pages` is the address of `count` contiguous whole pages, which the caller owns.
#[inline]
pub unsafe fn zero_pages(pages: *mut u8, count: usize) {
    let end = pages.wrapping_add(count * super::PAGE_SIZE);
    if super::is_taken::<{ Key::ZeroByBlock as u32 }>() {
        // SAFETY: the caller owns the memory from `pages` to `end`, a multiple of 16 blocks; every
        // hart has the instruction.
        unsafe {
            asm!(
                ".option push",
                ".option arch, +zicboz",
                "1:",
                ".rept {unrolled}",
                "cbo.zero ({at})",
                "addi {at}, {at}, {block}",
                ".endr",
                "bne {at}, {end}, 1b",
                ".option pop",
                at = inout(reg) pages => _,
                end = in(reg) end,
                unrolled = const 16,
                block = const features::ZERO_BLOCK,
                options(nostack),
            )
        }
        return;
    }
    // SAFETY: the caller owns the memory from `pages` to `end`, a multiple of 128 bytes.
    unsafe {
        asm!(
            "1:",
            ".set at, 0",
            ".rept 16",
            "sd zero, at({at})",
            ".set at, at + 8",
            ".endr",
            "addi {at}, {at}, 128",
            "bne {at}, {end}, 1b",
            at = inout(reg) pages => _,
            end = in(reg) end,
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
    // SAFETY: whole, aligned, distinct pages, guaranteed by the caller, multiples of 512 bytes.
    unsafe {
        asm!(
            "1:",
            ".set at, 0",
            ".rept 16",
            "ld {a}, at({from})",
            "ld {b}, at + 8({from})",
            "ld {c}, at + 16({from})",
            "ld {d}, at + 24({from})",
            "sd {a}, at({to})",
            "sd {b}, at + 8({to})",
            "sd {c}, at + 16({to})",
            "sd {d}, at + 24({to})",
            ".set at, at + 32",
            ".endr",
            "addi {from}, {from}, 512",
            "addi {to}, {to}, 512",
            "bne {to}, {end}, 1b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            end = in(reg) to.wrapping_add(super::PAGE_SIZE),
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            options(nostack),
        )
    }
}

/// The last-level PTE of the kernel's tables for an address of the vmalloc area, if its table
/// exists.
pub(super) fn kernel_entry(address: usize) -> Option<&'static AtomicU64> {
    let mut table = &ROOT_SV39;
    for level in (0..3).rev() {
        let entry = &table.0[address >> (PAGE_SHIFT as usize + level * INDEX_BITS) & (ENTRIES - 1)];
        if level == 0 {
            return Some(entry);
        }
        let pte = Pte(entry.load(Relaxed));
        if !pte.is_table() {
            return None;
        }
        // SAFETY: the table entry points to another table of the kernel, which is never freed.
        table = unsafe { &*(phys_to_virt(pte.phys()) as *const Table) };
    }
    None
}
