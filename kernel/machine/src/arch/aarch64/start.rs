//! The boot CPU's path from its first Rust code to `main`.

use core::sync::atomic::Ordering::Relaxed;

use dtoolkit::fdt::FdtNode;

use super::boot;
use super::mmio::Registers;
use super::mmu::{self, Memory, PMD_SIZE, Prot, layout};
use super::{cpu, features, gic, memory_map, power, psci, smp, sysreg, time, uaccess};
use crate::arch::boot_stack::BOOT_STACKS;
use crate::fdt::{self, Unusable};
use crate::uart;
use crate::upcall;
use crate::{mm, params, random};

/// The longest device tree that Linux's boot protocol allows.
const TREE_LIMIT: usize = 2 << 20;
/// The first word of a device tree; its length follows (Devicetree Specification, section 5.2).
const TREE_MAGIC: u32 = 0xd00d_feed;
/// The console address of QEMU's `virt` and compatible machines, for the only message on a machine
/// without a usable tree.
const LAST_RESORT_CONSOLE: usize = 0x0900_0000;

/// The first Rust code on the boot CPU.
pub(super) extern "C" fn boot_cpu(tree: usize, image: usize) -> ! {
    let archive = find_memory(tree, image);
    start_devices();
    upcall::start_kernel(archive)
}

/// Reads the device tree and hands memory to `mm`; returns the initial archive. Out of line, since
/// its lists of ranges fill most of the stack.
#[inline(never)]
fn find_memory(tree: usize, image: usize) -> Option<mm::Archive> {
    mmu::set_image(image);
    let cpu = cpu::this();
    // SAFETY: nobody else can access it yet.
    unsafe { cpu.init_above() };
    cpu.start_stack.set(BOOT_STACKS[0].top());
    cpu.overflow_stack.set(BOOT_STACKS[1].top());
    cpu.mpidr
        .store(sysreg::read!("mpidr_el1") & smp::AFFINITY, Relaxed);
    let tree = match boot_tree(tree) {
        Ok(tree) => tree,
        Err(why) => stop(why),
    };
    // First, as a panic turns the machine off.
    psci::init(tree);
    let memory = match fdt::memory(tree) {
        Ok(memory) => memory,
        Err(why) => stop(why),
    };
    let console = fdt::console_node(tree, &uart::COMPATIBLE);
    let described = console.and_then(|node| Some((fdt::regions(node).next()?.start, node)));
    let console = described
        .filter(|(base, node)| start_console(*base, Some(node)))
        .map(|(base, _)| base)
        .or_else(last_resort_console);
    take_memory(tree, memory, console)
}

/// Maps the device tree at a physical address through a window of the first tables.
fn boot_tree(phys: usize) -> Result<dtoolkit::fdt::Fdt<'static>, Unusable> {
    if phys == 0 || !phys.is_multiple_of(8) || phys >> 48 != 0 {
        return Err(Unusable::Damaged);
    }
    let blocks = TREE_LIMIT / PMD_SIZE + 1;
    let address = memory_map::boot_window(
        layout::TREE_WINDOW,
        phys,
        blocks,
        Prot::KERNEL_CONST,
        Memory::Normal,
    );
    let word = |offset: usize| uaccess::probe(address + offset).map(u32::from_be);
    if word(0) != Some(TREE_MAGIC) {
        return Err(Unusable::Damaged);
    }
    let len = word(4)
        .map(|len| len as usize)
        .filter(|len| (40..=TREE_LIMIT).contains(len));
    let len = len.ok_or(Unusable::Damaged)?;
    // SAFETY: the window maps at least TREE_LIMIT bytes from `address` on, which nobody writes.
    fdt::check(unsafe { core::slice::from_raw_parts(address as *const u8, len) })
}

/// Uses the console at a physical address, which `node` describes. False if it is expected to be a
/// PL011, but is none.
fn start_console(base: usize, node: Option<&FdtNode>) -> bool {
    /// The offset of a PrimeCell's identification, and the value for a PL011 (DDI 0183, section
    /// 3.3).
    const PRIMECELL_ID: usize = 0xfe0;
    const PL011: u32 = 0x11;
    if !base.is_multiple_of(size_of::<u64>()) || base >> 48 != 0 {
        return false;
    }
    let window = memory_map::boot_window(
        layout::CONSOLE_WINDOW,
        base,
        1,
        Prot::KERNEL_DATA,
        Memory::Device,
    );
    let is_pl011 = node.is_none_or(|node| fdt::is_any(node, &["arm,pl011"]));
    if is_pl011 && uaccess::probe(window + PRIMECELL_ID).is_none_or(|id| id & 0xff != PL011) {
        return false;
    }
    // SAFETY: the block that contains the registers has just been mapped.
    uart::start(unsafe { Registers::at(window, uart::LEN) }, node);
    true
}

/// Uses the console that most machines have, if this one has it.
fn last_resort_console() -> Option<usize> {
    start_console(LAST_RESORT_CONSOLE, None).then_some(LAST_RESORT_CONSOLE)
}

/// Logs why the machine is unusable, and turns it off.
fn stop(why: Unusable) -> ! {
    last_resort_console();
    match why {
        Unusable::Damaged => crate::log!("no usable device tree: nothing is known of this machine"),
        Unusable::NoMemory => crate::log!("the device tree names no memory"),
    }
    power::off()
}

/// Builds the kernel's map and hands memory to `mm`. From then on the tree is read through the
/// linear map.
fn take_memory(
    tree: dtoolkit::fdt::Fdt,
    memory: fdt::Memory,
    console: Option<usize>,
) -> Option<mm::Archive> {
    let bytes = tree.data();
    let tree_phys = boot_tree_phys(bytes.as_ptr() as usize);
    let mut reserved = memory.reserved.clone();
    let image = memory_map::image();
    reserved.add(mmu::virt_to_phys(image.start)..mmu::virt_to_phys(image.end));
    reserved.add(tree_phys..tree_phys + bytes.len());
    let ram = memory_map::build(&memory, console);
    boot::use_kernel_root();
    if let Some(base) = console {
        let window = layout::CONSOLE_WINDOW + base % super::PAGE_SIZE;
        // SAFETY: mapped by `build`, forever.
        let registers = unsafe { Registers::at(window, uart::LEN) };
        let len = bytes.len();
        if ram
            .as_slice()
            .iter()
            .any(|range| range.contains(&tree_phys) && range.contains(&(tree_phys + len - 1)))
        {
            // SAFETY: the tree lies in reserved memory, which is in the linear map and never
            // written.
            let bytes = unsafe {
                core::slice::from_raw_parts(mmu::phys_to_virt(tree_phys) as *const u8, len)
            };
            match fdt::check(bytes) {
                Ok(tree) => fdt::set(tree),
                Err(_) => power::off(),
            }
        }
        uart::start(
            registers,
            fdt::try_tree()
                .and_then(|tree| fdt::console_node(tree, &uart::COMPATIBLE))
                .as_ref(),
        );
    }
    let tree = fdt::try_tree().unwrap_or_else(|| panic!("the device tree lies outside of memory"));
    params::set(fdt::command_line(tree));
    time::init();
    let bytes: usize = ram.as_slice().iter().map(|range| range.len()).sum();
    crate::log!(
        "Stile {} on arm64 at EL{}, {} MiB, image at {:#x}",
        env!("CARGO_PKG_VERSION"),
        if sysreg::at_el2() { 2 } else { 1 },
        bytes >> 20,
        mmu::virt_to_phys(image.start),
    );
    // SAFETY: the boot CPU gets here once; the map was built above, and except for the reservations
    // of the tree only the image and the tree are in use.
    unsafe { mm::init(ram.as_slice(), reserved.as_slice(), memory.initrd) }
}

/// Starts the devices and the secondary CPUs.
#[inline(never)]
fn start_devices() {
    let tree = fdt::tree();
    psci::log_hypervisor();
    gic::init(tree);
    if let Some(seed) = tree
        .find_node("/chosen")
        .and_then(|chosen| fdt::bytes(&chosen, "rng-seed"))
    {
        random::seed(seed);
    }
    cpu::publish(cpu::this());
    smp::bring_up(tree);
    features::init();
    time::start_cpu();
}

/// The physical address of an address in a boot window.
fn boot_tree_phys(virt: usize) -> usize {
    let entry = boot::TABLES[boot::IMAGE_TABLE].0[virt / PMD_SIZE % mmu::ENTRIES].load(Relaxed);
    mmu::Pte(entry).phys() + virt % PMD_SIZE
}
