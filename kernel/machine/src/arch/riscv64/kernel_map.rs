//! The kernel's final translations: code is not writable, data is not executable, and all memory is
//! in the linear map.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use super::mmio::Registers;
use super::mmu::{
    Memory, PUD_SIZE, Prot, Pte, ROOT_SV39, Table, flush_local_all, layout, phys_to_virt,
    root39_index, virt_to_phys,
};
use crate::arch::boot_stack;
use crate::fdt;

/// Number of tables for the image and the edges of memory.
const POOL: usize = 32;

static TABLES: [Table; POOL] = [const { Table::new() }; POOL];
static USED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
}

/// Physical addresses of devices on every RISC-V machine so far; the linear map includes them.
const DEVICES: Range<usize> = 0..2 * PUD_SIZE;

/// The registers of a device, in the linear map, which includes them from the start.
pub(super) fn device(range: Range<usize>) -> Option<Registers> {
    if range.end > DEVICES.end {
        return None;
    }
    // SAFETY: all of it is in the linear map, both before and after `build`.
    Some(unsafe { Registers::at(phys_to_virt(range.start), range.len()) })
}

fn new_table() -> Option<&'static Table> {
    TABLES.get(USED.fetch_add(1, Relaxed))
}

/// Returns the table below `table`'s entry `index`; makes it if the entry is empty.
fn below(table: &'static Table, index: usize) -> Option<&'static Table> {
    let pte = Pte(table.0[index].load(Relaxed));
    if pte.is_table() {
        let at = pte.phys() - virt_to_phys(&raw const TABLES as usize);
        return TABLES.get(at / size_of::<Table>());
    }
    let new = new_table()?;
    table.0[index].store(
        Pte::table(virt_to_phys(&raw const *new as usize)).0,
        Relaxed,
    );
    Some(new)
}

/// Maps `phys` at `virt` below the entries of `root`, which are empty or tables, with the largest
/// pages that fit. False if there are not enough tables.
fn map(root: &'static Table, mut virt: usize, phys: Range<usize>, prot: Prot) -> bool {
    let mut at = phys.start;
    while at < phys.end {
        let mut table = root;
        let mut size = PUD_SIZE;
        while !(virt | at).is_multiple_of(size) || phys.end - at < size {
            let Some(next) = below(table, index(virt, size)) else {
                return false;
            };
            table = next;
            size /= table.0.len();
        }
        table.0[index(virt, size)].store(Pte::leaf(at, prot, Memory::Normal).0, Relaxed);
        virt += size;
        at += size;
    }
    true
}

/// Index of the entry for `virt` in a table whose entries cover `size` bytes each.
fn index(virt: usize, size: usize) -> usize {
    virt / size % (PAGE_SIZE / size_of::<Pte>())
}

/// The image's parts: their addresses and permissions.
fn image() -> [(Range<usize>, Prot); 3] {
    let (start, text) = (
        &raw const __text_start as usize,
        &raw const __text_end as usize,
    );
    let (rodata, end) = (
        &raw const __rodata_end as usize,
        &raw const __image_end as usize,
    );
    [
        (start..text, Prot::KERNEL_CODE),
        (text..rodata, Prot::KERNEL_CONST),
        (rodata..end.next_multiple_of(PAGE_SIZE), Prot::KERNEL_DATA),
    ]
}

/// The physical addresses of the image.
pub(super) fn image_phys() -> Range<usize> {
    let [first, _, last] = image();
    virt_to_phys(first.0.start)..virt_to_phys(last.0.start) + last.0.len()
}

/// Replaces the translations of the boot path. Returns the memory in the linear map.
pub(super) fn build(memory: &fdt::Memory) -> fdt::Ranges<64> {
    // The image first: its root entry is replaced after all tables below it are complete.
    static IMAGE_ROOT: Table = Table::new();
    let [code, constants, (data, prot)] = image();
    let data = boot_stack::without_guards(data).map(|part| (part, prot));
    for (range, prot) in [code, constants].into_iter().chain(data) {
        let phys = virt_to_phys(range.start);
        assert!(
            map(&IMAGE_ROOT, range.start, phys..phys + range.len(), prot),
            "the image needs more tables"
        );
    }
    replace(&IMAGE_ROOT, layout::IMAGE);
    // The linear map, in a root of its own until it is complete. The image's code and constants are
    // not writable there either.
    static LINEAR_ROOT: Table = Table::new();
    let constant =
        virt_to_phys(image()[0].0.start)..virt_to_phys(image()[0].0.start) + constant_len();
    let show =
        |range: Range<usize>, prot| map(&LINEAR_ROOT, phys_to_virt(range.start), range, prot);
    show(DEVICES, Prot::KERNEL_DATA);
    show(constant.clone(), Prot::KERNEL_CONST);
    let mut shown = fdt::Ranges::new();
    shown.add(constant.clone());
    for ram in memory.ram.as_slice() {
        let mut at = ram.start.next_multiple_of(PAGE_SIZE);
        let end = ram.end.min(layout::LINEAR_SIZE) & !(PAGE_SIZE - 1);
        while at < end {
            let holes = memory.unmapped.as_slice().iter().chain([&constant]);
            let hole = holes
                .filter(|hole| hole.end > at && hole.start < end)
                .min_by_key(|hole| hole.start);
            let hole = hole.cloned().unwrap_or(end..end);
            if hole.start > at && show(at..hole.start, Prot::KERNEL_DATA) {
                shown.add(at..hole.start);
            }
            at = hole.end.next_multiple_of(PAGE_SIZE);
        }
    }
    for slot in 0..layout::LINEAR_SIZE / PUD_SIZE {
        replace(&LINEAR_ROOT, layout::LINEAR + slot * PUD_SIZE);
    }
    flush_local_all();
    shown.normalise();
    shown
}

/// Size in bytes of the image's code and constants, which come first.
fn constant_len() -> usize {
    let [code, constants, _] = image();
    constants.0.end - code.0.start
}

/// Copies the entry for `virt` from `root`.
fn replace(root: &Table, virt: usize) {
    let index = root39_index(virt);
    ROOT_SV39.0[index].store(root.0[index].load(Relaxed), Relaxed);
}
