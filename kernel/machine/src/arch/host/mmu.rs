//! Page tables, which `uaccess` walks. No CPU keeps anything of them, so that no change owes
//! anything.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::PAGE_SIZE;
use super::memory::{self, ROOT};
pub use super::memory::{phys_to_virt, virt_to_phys};
pub use crate::arch::prot::Prot;
use crate::mm::fault::Access;
use translation::owed::{self, Clear, FillKernel, LinkTable, Owed};

/// Bytes that an entry one level above the pages covers.
pub const PMD_SIZE: usize = 1 << 21;
/// Entries in a table.
const ENTRIES: usize = 512;
/// Levels of tables.
const LEVELS: usize = 4;

/// The range for kernel stacks and windows to devices: tables are made for it, which nobody
/// follows.
pub const VMALLOC: Range<usize> = 0xffff_ff00_0000_0000..0xffff_ff04_0000_0000;

/// Bits of an entry.
mod bit {
    pub const VALID: u64 = 1 << 0;
    /// Points to a page or a block.
    pub const LEAF: u64 = 1 << 2;
    pub const READ: u64 = 1 << 3;
    pub const WRITE: u64 = 1 << 4;
    pub const EXECUTE: u64 = 1 << 5;
    pub const USER: u64 = 1 << 6;
    pub const ACCESSED: u64 = 1 << 7;
    pub const PHYS: u64 = !0xfff & ((1 << 52) - 1);
}

/// Kinds of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Cached.
    Normal,
    /// Device registers.
    Device,
}

impl Memory {
    /// Memory with tags, of which there are none.
    pub const TAGGED: Memory = Memory::Normal;
}

/// A page-table entry's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Pte(pub u64);

impl Pte {
    /// Nothing.
    pub const EMPTY: Pte = Pte(0);

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

    /// Maps the block at `phys` as [`leaf`](Pte::leaf) maps a page: for levels above the last.
    pub const fn huge_leaf(phys: usize, prot: Prot, memory: Memory) -> Pte {
        Pte::leaf(phys, prot, memory)
    }

    /// The entry of page `index` of what this block maps.
    pub const fn page(self, index: usize) -> Pte {
        Pte(self.0 + (index * PAGE_SIZE) as u64)
    }

    /// Whether it is followed.
    pub const fn valid(self) -> bool {
        self.0 & bit::VALID != 0
    }

    /// Never: every walk of tables sees all entries.
    pub const fn is_unseen(self) -> bool {
        false
    }

    /// As an entry that everybody sees.
    pub const fn revealed(self) -> Pte {
        self
    }

    /// Whether it points to a table. Not for last-level entries.
    pub const fn is_table(self) -> bool {
        self.valid() && self.0 & bit::LEAF == 0
    }

    /// The physical address that it holds.
    pub const fn phys(self) -> usize {
        (self.0 & bit::PHYS) as usize
    }

    /// Whether stores are allowed.
    pub const fn writable(self) -> bool {
        self.0 & bit::WRITE != 0
    }

    /// Whether it was used since it was made old.
    pub const fn young(self) -> bool {
        self.0 & bit::ACCESSED != 0
    }

    /// Whether it was written to, as far as is known.
    pub const fn dirty(self) -> bool {
        self.writable()
    }

    /// With stores allowed or not.
    pub const fn with_writable(self, on: bool) -> Pte {
        self.with(bit::WRITE, on)
    }

    /// With the tags of memory: there are none.
    pub const fn with_tags(self) -> Pte {
        self
    }

    /// Used or not.
    pub const fn with_young(self, on: bool) -> Pte {
        self.with(bit::ACCESSED, on)
    }

    const fn with(self, bits: u64, on: bool) -> Pte {
        Pte(if on { self.0 | bits } else { self.0 & !bits })
    }

    /// Whether a program may use it so without a fault.
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

/// Whether a valid entry must be invalid for a while before it holds another frame.
pub const BREAK_FIRST: bool = false;

/// Levels of tables.
pub fn levels() -> usize {
    LEVELS
}

/// log2 of the number of address-space identifiers.
pub fn asid_bits() -> u32 {
    16
}

/// Physical address of the kernel's root table.
pub fn kernel_root() -> usize {
    ROOT.start
}

/// Physical address of a root without any program's pages.
pub fn empty_root() -> usize {
    kernel_root()
}

/// The root of the tables in use.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// No program's tables are in use.
pub(super) fn init() {
    CURRENT.store(empty_root(), Relaxed);
}

/// A table.
struct Table([AtomicU64; ENTRIES]);

/// The table at a physical address.
///
/// # Safety
/// There is one, which lives as long as the reference.
unsafe fn table<'a>(phys: usize) -> &'a Table {
    assert!(memory::contains(phys));
    // SAFETY: the caller's promise; tables are atomics.
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

/// Where the host has the byte at a program's `address`, if the program may use it so now.
pub(super) fn translate(address: usize, access: Access) -> Option<*mut u8> {
    let mut phys = CURRENT.load(Relaxed);
    for level in (0..LEVELS).rev() {
        let size = PAGE_SIZE << (9 * level);
        // SAFETY: a root that is active, or what a valid entry of a table points to; tables are
        // freed by the holder of the CPU, which is the caller.
        let entry = &unsafe { table(phys) }.0[address / size % ENTRIES];
        let pte = Pte(entry.load(Acquire));
        if level > 0 && pte.is_table() {
            phys = pte.phys();
            continue;
        }
        let phys = pte.phys() + address % size;
        return pte
            .allows(access)
            .then(|| phys_to_virt(phys) as *mut u8)
            .filter(|_| memory::contains(phys));
    }
    None
}

/// Which CPUs hold translations of an address space: none does.
pub struct Holders;

impl Holders {
    /// Nobody.
    pub const fn new() -> Self {
        Holders
    }

    /// A CPU is about to run the space.
    pub fn enter_space(&self, _cpu: usize, _asid: u16) {}
}

/// A CPU ran no address space and is about to run one.
pub fn enter_space(_cpu: usize) {}

/// Pays for changes of a program's entries.
pub fn pay<C: owed::Kind>(
    owed: Owed<C>,
    _asid: impl Fn() -> Option<u16>,
    _holders: &Holders,
    _may_run: impl Fn(u16, usize) -> bool,
    _range: Range<usize>,
) {
    owed.pay();
}

/// Pays for a table that was hung below an invalid entry.
pub fn publish_table(owed: Owed<LinkTable>) {
    owed.pay();
}

/// A fault found a sufficient entry: the next try sees it.
pub fn spurious(_asid: u16, _page: usize) {}

/// Pays for new entries of the kernel's vmalloc area.
pub fn publish_kernel(owed: Owed<FillKernel>, _range: Range<usize>) {
    owed.pay();
}

/// Pays for entries of the kernel's vmalloc area that were taken out.
pub fn flush_kernel(owed: Owed<Clear>, _range: Range<usize>) {
    owed.pay();
}

/// Forgets everything.
pub fn flush_local_all() {}

/// Makes instructions agree with what was written to memory: nobody fetches them.
pub fn sync_icache(_start: usize, _len: usize) {}

/// What to store for a program's new entry.
pub fn new_entry(pte: Pte) -> Pte {
    pte
}

/// Whether a kernel mapping that is not needed may stay for its next use.
pub fn keeps_mappings() -> bool {
    true
}

/// Fills `count` pages with zeroes, at least one.
///
/// # Safety
/// `pages` is the address of the first of so many whole pages, which lie one after the other and
/// which the caller owns.
pub unsafe fn zero_pages(pages: *mut u8, count: usize) {
    // SAFETY: the caller owns the pages.
    unsafe { pages.write_bytes(0, count * PAGE_SIZE) };
}

/// Copies a page.
///
/// # Safety
/// `to` is the address of a whole page that the caller owns, `from` of one that it may read; they
/// are not the same.
pub unsafe fn copy_page(to: *mut u8, from: *const u8) {
    // SAFETY: whole, distinct pages by the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, PAGE_SIZE) };
}
