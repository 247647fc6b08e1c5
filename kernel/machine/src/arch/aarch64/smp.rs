//! Secondary CPUs: started by the firmware, they probe their features and wait until the boot CPU
//! has finalized those that are common to all.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::*, fence};

use alloc::boxed::Box;

use dtoolkit::Node;
use dtoolkit::fdt::Fdt;

use super::cpu::{self, Cpu};
use super::{MAX_CPUS, boot, features, gic, irq, memory_map, mmu, psci, sysreg, time};
use crate::arch::{cpus, emulation};
use crate::fdt;
use crate::mm::vmalloc::KernelStack;
use crate::upcall;

/// The affinity fields of MPIDR_EL1.
pub(super) const AFFINITY: usize = 0xff_00ff_ffff;

static PROBED: AtomicUsize = AtomicUsize::new(0);

/// Starts all other CPUs of the device tree, and waits until they have probed their features.
pub(super) fn bring_up(tree: Fdt) {
    let mut started = 0;
    let boot = cpu::this().mpidr.load(Relaxed);
    let nodes = tree
        .find_node("/cpus")
        .into_iter()
        .flat_map(|node| node.children());
    for node in nodes
        .filter(|node| fdt::text_of(node, "device_type") == Some("cpu") && fdt::is_enabled(node))
    {
        let Some(mpidr) = fdt::number_of_cells(&node, "reg") else {
            continue;
        };
        if mpidr == boot {
            continue;
        }
        if started + 1 == MAX_CPUS {
            crate::log!("CPU {mpidr:#x} and those after it stay off: {MAX_CPUS} is the limit");
            break;
        }
        match start(started + 1, mpidr) {
            Ok(()) => started += 1,
            Err(why) => crate::log!("CPU {mpidr:#x} does not start: {why}"),
        }
    }
    let deadline = time::now_ticks() + time::ns_to_ticks(cpus::PATIENCE_NS);
    while PROBED.load(Acquire) < started && time::now_ticks() < deadline {
        core::hint::spin_loop();
    }
}

fn start(index: usize, mpidr: usize) -> Result<(), isize> {
    const NO_MEMORY: isize = -12;
    let (Ok(stack), Ok(overflow)) = (KernelStack::new(), KernelStack::new()) else {
        return Err(NO_MEMORY);
    };
    let cpu: &'static Cpu = Box::leak(Box::new(Cpu::new(index)));
    // SAFETY: nobody else can access it yet.
    unsafe { cpu.init_above() };
    cpu.start_stack.set(stack.top());
    cpu.overflow_stack.set(overflow.top());
    cpu.mpidr.store(mpidr, Relaxed);
    // A CPU that starts has caches off, but reads this with the MMU and caches on: coherent by
    // then.
    let entry = mmu::virt_to_phys(boot::start_other as *const () as usize);
    cpu::expect(index);
    psci::cpu_on(mpidr, entry, cpu as *const Cpu as usize)?;
    // The CPU uses them forever.
    core::mem::forget((stack, overflow));
    Ok(())
}

/// The first Rust code on a secondary CPU.
pub(super) extern "C" fn other_cpu() -> ! {
    memory_map::clear_identity_map();
    features::fold();
    PROBED.fetch_add(1, AcqRel);
    while !cpus::are_released() {
        // SAFETY: waits for an event, which `start_others` sends.
        unsafe { asm!("wfe", options(nomem, nostack, preserves_flags)) };
    }
    // Code may have been patched meanwhile (Arm ARM, "Concurrent modification and execution of
    // instructions").
    sysreg::isb();
    if !features::start_cpu() {
        loop {
            // SAFETY: waiting has no side effects.
            unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
        }
    }
    gic::start_cpu();
    time::start_cpu();
    upcall::start_cpu();
    cpu::publish(cpu::this());
    // A CPU that changed the modes earlier did not wait for this one.
    fence(SeqCst);
    emulation::apply_modes();
    upcall::idle()
}

/// Lets the secondary CPUs run threads.
pub fn start_others() {
    cpus::release();
    // SAFETY: a barrier and an event.
    unsafe { asm!("dsb ishst", "sev", options(nostack, preserves_flags)) };
}

/// Sends a CPU an IPI, so that it looks for work.
pub fn kick(index: usize) {
    if let Some(cpu) = cpu::get(index) {
        gic::send(irq::IPI, cpu.mpidr.load(Relaxed));
    }
}

/// Interrupts the guest that a CPU runs, so that its pending interrupts are checked.
pub fn kick_guest(index: usize) {
    if let Some(cpu) = cpu::get(index) {
        gic::send(irq::KICK, cpu.mpidr.load(Relaxed));
    }
}
