//! Page tables, which `uaccess` walks. No CPU caches them, so no change owes anything.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::PAGE_SIZE;
use super::memory::{self, ROOT};
pub use super::memory::{phys_to_virt, virt_to_phys};
pub use crate::arch::prot::Prot;
use crate::mm::fault::Access;
use translation::owed::{self, Clear, FillKernel, LinkTable, Owed};

/// Bytes that an entry one level above the last covers.
pub const PMD_SIZE: usize = 1 << 21;
/// Number of entries in a table.
const ENTRIES: usize = 512;
/// Number of table levels.
const LEVELS: usize = 4;

/// The address range for kernel stacks and device registers: tables are made for it, but not used.
pub const VMALLOC: Range<usize> = 0xffff_ff00_0000_0000..0xffff_ff04_0000_0000;
/// Whether the kernel can use what it maps there.
pub const MAPS_VMALLOC: bool = false;

/// Bits of a PTE.
mod bit {
    pub const VALID: u64 = 1 << 0;
    /// Points to a page or a block.
    pub const LEAF: u64 = 1 << 2;
    pub const READ: u64 = 1 << 3;
    pub const WRITE: u64 = 1 << 4;
    pub const EXECUTE: u64 = 1 << 5;
    pub const USER: u64 = 1 << 6;
    pub const ACCESSED: u64 = 1 << 7;
    /// One of a run; the low bits of the frame number are lost, as they are on RISC-V.
    pub const CONTIGUOUS: u64 = 1 << 8;
    pub const PLACE: u64 = 15 << 12;
    pub const PHYS: u64 = !0xfff & ((1 << 52) - 1);
}

/// Memory types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Cached.
    Normal,
    /// Device registers.
    Device,
}

impl Memory {
    /// Memory with tags: there are none.
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
    /// invalid, but not empty.
    pub const BUSY: Pte = Pte(bit::CONTIGUOUS);

    /// Points to the table at `phys`.
    pub const fn table(phys: usize) -> Pte {
        Pte(phys as u64 | bit::VALID)
    }

    /// Maps the page at `phys`, accessed.
    pub const fn leaf(phys: usize, prot: Prot, _memory: Memory) -> Pte {
        let bits = phys as u64 | bit::VALID | bit::LEAF | bit::ACCESSED;
        Pte(bits)
            .with(bit::READ, prot.read || prot.write)
            .with(bit::WRITE, prot.write)
            .with(bit::EXECUTE, prot.execute)
            .with(bit::USER, prot.user)
    }

    /// Maps the block at `phys` as [`leaf`](Pte::leaf) maps a page, for levels above the last.
    pub const fn huge_leaf(phys: usize, prot: Prot, memory: Memory) -> Pte {
        Pte::leaf(phys, prot, memory)
    }

    /// The PTE of page `index` of this block.
    pub const fn page(self, index: usize) -> Pte {
        Pte(self.0 + (index * PAGE_SIZE) as u64)
    }

    /// Whether walks use it.
    pub const fn valid(self) -> bool {
        self.0 & bit::VALID != 0
    }

    /// Never: table walks see all PTEs.
    pub const fn is_unseen(self) -> bool {
        false
    }

    /// The PTE without the unseen mark.
    pub const fn revealed(self) -> Pte {
        self
    }

    /// Whether it points to a table. Not for last-level PTEs.
    pub const fn is_table(self) -> bool {
        self.valid() && self.0 & bit::LEAF == 0
    }

    /// The physical address.
    pub const fn phys(self) -> usize {
        (self.0 & bit::PHYS) as usize
    }

    /// Whether stores are allowed.
    pub const fn writable(self) -> bool {
        self.0 & bit::WRITE != 0
    }

    /// Whether the Accessed bit is set.
    pub const fn young(self) -> bool {
        self.0 & bit::ACCESSED != 0
    }

    /// Whether the page may have been written to.
    pub const fn dirty(self) -> bool {
        self.writable()
    }

    /// Makes it writable or read-only.
    pub const fn with_writable(self, on: bool) -> Pte {
        self.with(bit::WRITE, on)
    }

    /// The PTE as one of a run of contiguous pages: its address is then that of none of them.
    pub const fn contiguous(self) -> Pte {
        Pte(self.0 & !bit::PLACE | 8 << 12 | bit::CONTIGUOUS)
    }

    /// Whether it is one of a run of contiguous pages, or busy.
    pub const fn is_contiguous(self) -> bool {
        self.0 & bit::CONTIGUOUS != 0
    }

    /// The PTE of page `index` of a run by itself.
    pub const fn alone(self, index: usize) -> Pte {
        Pte(self.0 & !(bit::PLACE | bit::CONTIGUOUS) | (index as u64) << 12)
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

    /// Whether a program's access does not fault.
    const fn allows(self, access: Access) -> bool {
        let right = match access {
            Access::Read => bit::READ,
            Access::Write => bit::WRITE,
            Access::Execute => bit::EXECUTE,
        };
        let needed = bit::VALID | bit::USER | bit::ACCESSED | right;
        self.0 & needed == needed
    }
}

/// Whether there are contiguous entries.
pub fn has_contiguous() -> bool {
    true
}

/// Whether changing the frame of a valid PTE requires break-before-make.
pub const BREAK_FIRST: bool = false;

/// Number of table levels.
pub fn levels() -> usize {
    LEVELS
}

/// log2 of the number of ASIDs.
pub fn asid_bits() -> u32 {
    16
}

/// Physical address of the kernel's root table.
pub fn kernel_root() -> usize {
    ROOT.start
}

/// Physical address of a root table without program pages.
pub fn empty_root() -> usize {
    kernel_root()
}

/// The root of the active tables.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// Starts without a program's tables.
pub(super) fn init() {
    CURRENT.store(empty_root(), Relaxed);
}

/// A table.
struct Table([AtomicU64; ENTRIES]);

/// Returns the table at a physical address.
///
/// # Safety
/// It is a table that lives as long as the reference.
unsafe fn table<'a>(phys: usize) -> &'a Table {
    assert!(memory::contains(phys));
    // SAFETY: guaranteed by the caller; tables are atomics.
    unsafe { &*(phys_to_virt(phys) as *const Table) }
}

/// Copies the kernel's half into a program's new root table.
///
/// # Safety
/// `root` is the linear-map address of a zeroed table that nothing else uses.
pub unsafe fn init_user_root(root: usize) {
    // SAFETY: the kernel's root is never freed, and the caller owns the other.
    let (kernel, user) = unsafe { (table(kernel_root()), table(virt_to_phys(root))) };
    for (from, to) in kernel.0.iter().zip(&user.0).skip(ENTRIES / 2) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// Switches to the tables at `root` (physical).
///
/// # Safety
/// `root` is a program's root table that lives until another is activated, or [`empty_root`].
pub unsafe fn activate(root: usize, _asid: u16) {
    CURRENT.store(root, Relaxed);
}

/// The host's address of the byte at a program's `address`, if the access does not fault now.
pub(super) fn translate(address: usize, access: Access) -> Option<*mut u8> {
    let mut phys = CURRENT.load(Relaxed);
    for level in (0..LEVELS).rev() {
        let size = PAGE_SIZE << (9 * level);
        // SAFETY: the active root, or the target of a valid table entry; tables are freed by the
        // holder of the CPU, which is the caller.
        let entry = &unsafe { table(phys) }.0[address / size % ENTRIES];
        let pte = Pte(entry.load(Acquire));
        if level > 0 && pte.is_table() {
            phys = pte.phys();
            continue;
        }
        let pte = match level == 0 && pte.valid() && pte.is_contiguous() {
            true => pte.alone(address / size % 16),
            false => pte,
        };
        let phys = pte.phys() + address % size;
        return pte
            .allows(access)
            .then(|| phys_to_virt(phys) as *mut u8)
            .filter(|_| memory::contains(phys));
    }
    None
}

/// The CPUs that hold translations of an address space: none.
pub struct Holders;

impl Holders {
    /// No CPUs.
    pub const fn new() -> Self {
        Holders
    }

    /// Called before a CPU runs the space.
    pub fn enter_space(&self, _cpu: usize, _asid: u16) {}
}

/// Called before a CPU without a space runs one.
pub fn enter_space(_cpu: usize) {}

/// Pays for changes of a program's PTEs.
pub fn pay<C: owed::Kind>(
    owed: Owed<C>,
    _asid: impl Fn() -> Option<u16>,
    _holders: &Holders,
    _may_run: impl Fn(u16, usize) -> bool,
    _range: Range<usize>,
) {
    owed.pay();
}

/// Pays for a table that was linked into an invalid entry.
pub fn publish_table(owed: Owed<LinkTable>) {
    owed.pay();
}

/// Handles a fault that found a sufficient PTE: the next attempt sees it.
pub fn spurious(_asid: u16, _page: usize) {}

/// Pays for new PTEs of the kernel's vmalloc area.
pub fn publish_kernel(owed: Owed<FillKernel>, _range: Range<usize>) {
    owed.pay();
}

/// Pays for PTEs removed from the kernel's vmalloc area.
pub fn flush_kernel(owed: Owed<Clear>, _range: Range<usize>) {
    owed.pay();
}

/// Invalidates everything.
pub fn flush_local_all() {}

/// Makes written instructions visible to instruction fetches: there are none.
pub fn sync_icache(_start: usize, _len: usize) {}

/// The value to store for a program's new PTE.
pub fn new_entry(pte: Pte) -> Pte {
    pte
}

/// Whether unused kernel mappings may be kept for reuse.
pub fn keeps_mappings() -> bool {
    true
}

/// Zeroes `count` pages, at least one.
///
/// # Safety
/// `pages` is the address of `count` contiguous whole pages, which the caller owns.
pub unsafe fn zero_pages(pages: *mut u8, count: usize) {
    // SAFETY: the caller owns the pages.
    unsafe { pages.write_bytes(0, count * PAGE_SIZE) };
}

/// Copies a page.
///
/// # Safety
/// `to` is the address of a whole page that the caller owns, `from` that of a different one that it
/// may read.
pub unsafe fn copy_page(to: *mut u8, from: *const u8) {
    // SAFETY: whole, distinct pages, guaranteed by the caller.
    unsafe { core::ptr::copy_nonoverlapping(from, to, PAGE_SIZE) };
}
