//! The kernel's own map: the image with minimal permissions, and all memory (the linear map).

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use super::boot;
use super::mmu::{self, ENTRIES, Memory, PMD_SIZE, PUD_SIZE, Prot, Pte, Table, layout};
use crate::arch::boot_stack;
use crate::fdt;

/// Tables for the image and the edges of memory. Memory for which they do not suffice stays
/// unmapped and unused.
static POOL: [Table; 64] = [const { Table::new() }; 64];
static USED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
}

/// The image's address range.
pub(super) fn image() -> Range<usize> {
    layout::IMAGE..&raw const __image_end as usize
}

/// Maps `blocks` blocks at `window`, beginning with the one that contains `phys`, while the first
/// tables are in use; returns the virtual address of `phys`.
pub(super) fn boot_window(
    window: usize,
    phys: usize,
    blocks: usize,
    prot: Prot,
    memory: Memory,
) -> usize {
    let first = phys & !(PMD_SIZE - 1);
    for block in 0..blocks {
        let entry = &boot::TABLES[boot::IMAGE_TABLE].0[window / PMD_SIZE % ENTRIES + block];
        entry.store(
            Pte::huge_leaf(first + block * PMD_SIZE, prot, memory).0,
            Relaxed,
        );
    }
    mmu::publish();
    window + phys % PMD_SIZE
}

/// Builds the tables below the kernel's root. Returns the memory in the linear map.
pub(super) fn build(memory: &fdt::Memory, console: Option<usize>) -> fdt::Ranges<64> {
    let image = image();
    let text_end = &raw const __text_end as usize;
    let rodata_end = &raw const __rodata_end as usize;
    let data = boot_stack::without_guards(rodata_end..image.end);
    let parts = [
        (image.start..text_end, Prot::KERNEL_CODE),
        (text_end..rodata_end, Prot::KERNEL_CONST),
    ];
    for (part, prot) in parts
        .into_iter()
        .chain(data.map(|part| (part, Prot::KERNEL_DATA)))
    {
        let mapped = map(
            part.start,
            mmu::virt_to_phys(part.start),
            part.len(),
            prot,
            Memory::Normal,
        );
        assert!(mapped, "the image does not fit into its tables");
    }
    if let Some(console) = console {
        map(
            layout::CONSOLE_WINDOW,
            console & !(PAGE_SIZE - 1),
            PAGE_SIZE,
            Prot::KERNEL_DATA,
            Memory::Device,
        );
    }
    // The image's code and constants must not be writable through the linear map.
    let constant =
        mmu::virt_to_phys(image.start)..mmu::virt_to_phys(image.start) + (rodata_end - image.start);
    let mut mapped = fdt::Ranges::new();
    for ram in memory.ram.as_slice() {
        for range in without(page_inside(ram), memory.unmapped.as_slice()).as_slice() {
            let done = [
                (
                    range.start..range.end.min(constant.start),
                    Prot::KERNEL_DATA,
                ),
                (
                    range.start.max(constant.start)..range.end.min(constant.end),
                    Prot::KERNEL_CONST,
                ),
                (range.start.max(constant.end)..range.end, Prot::KERNEL_DATA),
            ]
            .into_iter()
            .all(|(part, prot)| {
                part.is_empty()
                    || map(
                        mmu::phys_to_virt(part.start),
                        part.start,
                        part.len(),
                        prot,
                        Memory::Tagged,
                    )
            });
            if done {
                mapped.add(range.clone());
            } else {
                crate::log!("memory {range:#x?} is too scattered: not used");
            }
        }
    }
    mapped
}

/// The whole pages of a range that fit into the linear map of 47 bits.
fn page_inside(range: &Range<usize>) -> Range<usize> {
    let end = range.end.min(1 << 47) & !(PAGE_SIZE - 1);
    range.start.next_multiple_of(PAGE_SIZE).min(end)..end
}

/// `range` without `holes`.
fn without(range: Range<usize>, holes: &[Range<usize>]) -> fdt::Ranges<32> {
    let mut rest = fdt::Ranges::new();
    let mut start = range.start;
    while start < range.end {
        let hole = holes
            .iter()
            .filter(|hole| hole.end > start)
            .min_by_key(|hole| hole.start);
        let end = hole.map_or(range.end, |hole| hole.start.clamp(start, range.end));
        rest.add(start..end & !(PAGE_SIZE - 1));
        start = hole.map_or(range.end, |hole| hole.end.next_multiple_of(PAGE_SIZE));
    }
    rest
}

/// Maps `len` bytes in the largest blocks that fit; returns whether there were enough tables.
fn map(mut virt: usize, mut phys: usize, len: usize, prot: Prot, memory: Memory) -> bool {
    let end = virt + len;
    while virt < end {
        let fits = |size: usize| (virt | phys).is_multiple_of(size) && end - virt >= size;
        let level = if fits(PUD_SIZE) {
            2
        } else if fits(PMD_SIZE) {
            1
        } else {
            0
        };
        let Some(table) = table_at(virt, level) else {
            return false;
        };
        let pte = if level == 0 {
            Pte::leaf(phys, prot, memory)
        } else {
            Pte::huge_leaf(phys, prot, memory)
        };
        table.0[index(virt, level)].store(pte.0, Relaxed);
        virt += PAGE_SIZE << (9 * level);
        phys += PAGE_SIZE << (9 * level);
    }
    true
}

fn index(virt: usize, level: usize) -> usize {
    virt >> (12 + 9 * level) & (ENTRIES - 1)
}

/// Returns the table with the entry for `virt` at `level`; makes it if necessary.
fn table_at(virt: usize, level: usize) -> Option<&'static Table> {
    let mut table = &mmu::KERNEL_ROOT;
    for above in (level + 1..mmu::levels()).rev() {
        let entry = &table.0[index(virt, above)];
        let pte = Pte(entry.load(Relaxed));
        table = if pte.valid() {
            POOL.iter().find(|table| phys_of(table) == pte.phys())?
        } else {
            let new = POOL.get(USED.fetch_add(1, Relaxed))?;
            entry.store(Pte::table(phys_of(new)).0, Relaxed);
            new
        };
    }
    Some(table)
}

fn phys_of(table: &Table) -> usize {
    mmu::virt_to_phys(table as *const Table as usize)
}

/// Removes the identity map: the programs' half is empty from now on.
pub(super) fn clear_identity_map() {
    // SAFETY: the empty root lives forever.
    unsafe { mmu::activate(mmu::empty_root(), 0) };
    mmu::flush_local_all();
}
