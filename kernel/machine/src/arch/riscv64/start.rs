//! The boot hart's path from its first Rust code to `main`.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use dtoolkit::fdt::Fdt;
use isa::Extension;

use super::cpu::{self, BOOT};
use super::{external, features, fence, irq, kernel_map, mmu, power, smp, status, time};
use crate::arch::boot_stack::BOOT_STACKS;
use crate::fdt::{self, Unusable};
use crate::uart;
use crate::upcall;
use crate::{mm, params, random};

/// The maximum size of the device tree.
const TREE_LIMIT: usize = 2 << 20;
/// The first word of a device tree, and the size of its header in bytes (Devicetree Specification,
/// section 5.2).
const TREE_MAGIC: u32 = 0xd00d_feed;
const TREE_HEADER: usize = 40;

/// The first Rust code on the boot hart: its ID, and the physical addresses of the device tree and
/// the image.
pub(super) extern "C" fn boot_hart(hart: usize, tree: usize, image: usize) -> ! {
    let archive = find_memory(hart, tree, image);
    start_devices(hart);
    upcall::start_kernel(archive)
}

/// Reads the device tree and hands memory to `mm`; returns the initial archive. Out of line, since
/// its lists of ranges fill most of the stack.
#[inline(never)]
fn find_memory(hart: usize, tree: usize, image: usize) -> Option<mm::Archive> {
    mmu::init(image);
    status::init();
    BOOT.hart.store(hart, Relaxed);
    BOOT.start_stack.set(BOOT_STACKS[0].top());
    BOOT.overflow_stack.set(BOOT_STACKS[1].top());
    fence::init_cpu(&BOOT);
    // SAFETY: nobody else can access it yet.
    unsafe { BOOT.init_above() };
    let found = boot_tree(tree).and_then(|found| Ok((found, fdt::memory(found)?)));
    let (found, memory) = found.unwrap_or_else(|why| stop(why));
    fdt::set(found);
    params::set(fdt::command_line(found));
    let console = fdt::console_node(found, &uart::COMPATIBLE);
    if let Some(registers) = console.and_then(|node| kernel_map::device(fdt::regions(node).next()?))
    {
        uart::start(registers, console.as_ref());
    }
    time::init(features::init(found));
    take_memory(memory, tree..tree + found.data().len())
}

/// Starts the devices and the secondary harts.
#[inline(never)]
fn start_devices(hart: usize) {
    let found = fdt::tree();
    features::patch_branches();
    fence::init(features::features().has(Extension::Svvptc));
    if let Some(seed) = found
        .find_node("/chosen")
        .and_then(|chosen| fdt::bytes(&chosen, "rng-seed"))
    {
        random::seed(seed);
    }
    features::start_cpu();
    irq::start_cpu();
    cpu::publish(&BOOT);
    external::init(found, hart);
    smp::bring_up(found);
}

/// Returns the device tree at a physical address.
fn boot_tree(phys: usize) -> Result<Fdt<'static>, Unusable> {
    if phys == 0 || !phys.is_multiple_of(8) || phys >= mmu::layout::LINEAR_SIZE - TREE_LIMIT {
        return Err(Unusable::Damaged);
    }
    let start = mmu::phys_to_virt(phys) as *const u8;
    // SAFETY: the loader guarantees memory there that nothing writes, and the first linear map
    // includes it.
    let header = unsafe { &*start.cast::<[[u8; 4]; 2]>() };
    let [magic, len] = header.map(u32::from_be_bytes);
    if magic != TREE_MAGIC || !(TREE_HEADER..=TREE_LIMIT).contains(&(len as usize)) {
        return Err(Unusable::Damaged);
    }
    // SAFETY: as above, with the length that the tree states.
    fdt::check(unsafe { core::slice::from_raw_parts(start, len as usize) })
}

/// Logs why the machine is unusable, and turns it off.
fn stop(why: Unusable) -> ! {
    let text = match why {
        Unusable::Damaged => "no usable device tree: nothing is known of this machine\n",
        Unusable::NoMemory => "the device tree names no memory\n",
    };
    power::last_words(text.as_bytes());
    power::off()
}

/// Builds the kernel's map and hands memory to `mm`. Returns the initial archive.
fn take_memory(memory: fdt::Memory, tree: Range<usize>) -> Option<mm::Archive> {
    let mut reserved = memory.reserved.clone();
    reserved.add(tree);
    reserved.add(kernel_map::image_phys());
    let ram = kernel_map::build(&memory);
    let bytes: usize = ram.as_slice().iter().map(|range| range.len()).sum();
    crate::log!(
        "Stile {} on RISC-V with {} levels, {} MiB, image at {:#x}",
        env!("CARGO_PKG_VERSION"),
        mmu::levels(),
        bytes >> 20,
        kernel_map::image_phys().start,
    );
    // SAFETY: the boot CPU gets here once; the map was built above, and except for the reservations
    // of the tree only the image and the tree are in use.
    unsafe { mm::init(ram.as_slice(), reserved.as_slice(), memory.initrd) }
}
