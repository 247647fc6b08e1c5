//! The interrupt controller: GICv3 (Arm IHI 0069).

use spin::Once;

use dtoolkit::fdt::Fdt;

use super::cpu;
use super::mmio::Registers;
use super::sysreg::{isb, read, write};
use crate::fdt;
use crate::sync::Mutex;

/// Interrupts below this number are private to a CPU.
const PRIVATE: u32 = 32;
/// Size of a redistributor frame in bytes: a redistributor has two frames, or four with virtual
/// LPIs (12.10).
const FRAME: usize = 0x1_0000;

/// Distributor registers (12.9).
mod gicd {
    pub const CTLR: usize = 0x0000;
    pub const TYPER: usize = 0x0004;
    pub const IGROUPR: usize = 0x0080;
    pub const ISENABLER: usize = 0x0100;
    pub const ICENABLER: usize = 0x0180;
    pub const ISACTIVER: usize = 0x0300;
    pub const ICACTIVER: usize = 0x0380;
    pub const IPRIORITYR: usize = 0x0400;
    pub const IROUTER: usize = 0x6000;
    /// EnableGrp1, EnableGrp1A, ARE_NS.
    pub const ENABLE: u32 = 1 << 0 | 1 << 1 | 1 << 4;
    pub const WRITE_PENDING: u32 = 1 << 31;
}

/// Redistributor registers (12.11); those of private interrupts are in the second frame.
mod gicr {
    pub const TYPER: usize = 0x0008;
    pub const WAKER: usize = 0x0014;
    pub const PROCESSOR_SLEEP: u32 = 1 << 1;
    pub const CHILDREN_ASLEEP: u32 = 1 << 2;
    pub const VIRTUAL: u64 = 1 << 1;
    pub const LAST: u64 = 1 << 4;
}

/// All interrupts have the same priority.
const PRIORITY: u32 = 0xa0a0_a0a0;

struct Gic {
    distributor: Mutex<Registers>,
    redistributors: fdt::Ranges<8>,
    /// The maintenance interrupt of guests' CPU interfaces.
    maintenance: Option<u32>,
}

static GIC: Once<Gic> = Once::new();

/// Finds the controller and sets it up for all CPUs. Panics if there is none.
pub(super) fn init(tree: Fdt) {
    let node = fdt::find(tree, &["arm,gic-v3"])
        .next()
        .expect("a GICv3 interrupt controller in the device tree");
    let mut regions = fdt::regions(node);
    let registers = regions
        .next()
        .expect("the interrupt controller's registers");
    let distributor =
        Registers::map(registers.start, FRAME).expect("the interrupt controller's registers");
    let mut redistributors = fdt::Ranges::new();
    let count = fdt::number(&node, "#redistributor-regions").unwrap_or(1);
    regions.take(count).for_each(|region| {
        redistributors.add(region);
    });
    // Disabled during setup.
    distributor.write(gicd::CTLR, 0);
    wait_for_writes(distributor);
    let lines = 32 * ((distributor.read(gicd::TYPER) & 0x1f) + 1);
    let here = route(
        cpu::this()
            .mpidr
            .load(core::sync::atomic::Ordering::Relaxed),
    );
    for interrupt in (PRIVATE..lines.min(1020)).step_by(32) {
        let word = interrupt as usize / 32 * 4;
        distributor.write(gicd::ICENABLER + word, !0);
        distributor.write(gicd::IGROUPR + word, !0);
    }
    for interrupt in (PRIVATE..lines.min(1020)).step_by(4) {
        distributor.write(gicd::IPRIORITYR + interrupt as usize, PRIORITY);
    }
    wait_for_writes(distributor);
    distributor.write(gicd::CTLR, gicd::ENABLE);
    wait_for_writes(distributor);
    for interrupt in PRIVATE..lines.min(1020) {
        distributor.write_u64(gicd::IROUTER + 8 * interrupt as usize, here);
    }
    GIC.call_once(|| Gic {
        distributor: Mutex::new(distributor),
        redistributors,
        maintenance: super::irq::of_node(&node),
    });
    start_cpu();
}

fn wait_for_writes(distributor: Registers) {
    while distributor.read(gicd::CTLR) & gicd::WRITE_PENDING != 0 {
        core::hint::spin_loop();
    }
}

/// An affinity in the format of GICD_IROUTER: the same fields as MPIDR_EL1.
fn route(mpidr: usize) -> u64 {
    mpidr as u64
}

/// Sets up this CPU's redistributor and CPU interface.
pub(super) fn start_cpu() {
    let cpu = cpu::this();
    let redistributor = redistributor().expect("a redistributor for each CPU");
    cpu.redistributor.set(redistributor.base());
    redistributor.write(
        gicr::WAKER,
        redistributor.read(gicr::WAKER) & !gicr::PROCESSOR_SLEEP,
    );
    while redistributor.read(gicr::WAKER) & gicr::CHILDREN_ASLEEP != 0 {
        core::hint::spin_loop();
    }
    redistributor.write(FRAME + gicd::ICENABLER, !0);
    redistributor.write(FRAME + gicd::IGROUPR, !0);
    for interrupt in (0..PRIVATE as usize).step_by(4) {
        redistributor.write(FRAME + gicd::IPRIORITYR + interrupt, PRIORITY);
    }
    // SAFETY: the CPU interface's registers, by their encodings: ICC_SRE_EL1.SRE, ICC_PMR_EL1 (all
    // priorities), ICC_BPR1_EL1, ICC_CTLR_EL1 (end of interrupt also deactivates), ICC_IGRPEN1_EL1.
    // Interrupts are masked.
    unsafe {
        write!("S3_0_C12_C12_5", read!("S3_0_C12_C12_5") | 1);
        isb();
        write!("S3_0_C4_C6_0", 0xffusize);
        write!("S3_0_C12_C12_3", 0usize);
        write!("S3_0_C12_C12_4", 0usize);
        write!("S3_0_C12_C12_7", 1usize);
    }
    isb();
    enable(super::irq::IPI);
    super::virt::start_cpu(maintenance());
}

/// Finds this CPU's redistributor: the one whose GICR_TYPER holds the CPU's affinity.
fn redistributor() -> Option<Registers> {
    let mpidr = read!("mpidr_el1");
    let affinity = (mpidr & 0xff_ffff | mpidr >> 8 & 0xff00_0000) as u64;
    for region in GIC.get()?.redistributors.as_slice() {
        let mut base = region.start;
        while base + 2 * FRAME <= region.end {
            let registers = Registers::map(base, 2 * FRAME).ok()?;
            let kind = registers.read_u64(gicr::TYPER);
            if kind >> 32 == affinity {
                return Some(registers);
            }
            if kind & gicr::LAST != 0 {
                break;
            }
            base += if kind & gicr::VIRTUAL != 0 { 4 } else { 2 } * FRAME;
        }
    }
    None
}

/// Enables an interrupt: on this CPU if it is private, otherwise on the boot CPU.
pub(super) fn enable(interrupt: u32) {
    let bit = 1 << (interrupt % 32);
    if interrupt < PRIVATE {
        private().write(FRAME + gicd::ISENABLER, bit);
    } else if let Some(gic) = GIC.get() {
        gic.distributor
            .lock()
            .write(gicd::ISENABLER + interrupt as usize / 32 * 4, bit);
    }
}

/// Acknowledges the next pending interrupt, which becomes active (ICC_IAR1_EL1).
pub(super) fn acknowledge() -> Option<u32> {
    let interrupt = read!("S3_0_C12_C12_0") as u32;
    // The acknowledgement must take effect before the handler accesses the device (IHI 0069,
    // 4.1.2). SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
    (interrupt < 1020).then_some(interrupt)
}

/// Signals the end of an interrupt (ICC_EOIR1_EL1).
pub(super) fn end(interrupt: u32) {
    // SAFETY: ends an interrupt that `acknowledge` returned.
    unsafe { write!("S3_0_C12_C12_1", interrupt as usize) };
    isb();
}

/// The maintenance interrupt of guests' CPU interfaces.
#[inline]
pub(super) fn maintenance() -> Option<u32> {
    GIC.get()?.maintenance
}

/// Drops the priority of an acknowledged interrupt, so that others can come, but leaves it active
/// until a guest deactivates it (ICC_CTLR_EL1.EOImode, ICC_EOIR1_EL1).
pub(super) fn hand_over(interrupt: u32) {
    const SPLIT: usize = 1 << 1;
    let control = read!("S3_0_C12_C12_4");
    // SAFETY: the mode applies only to this end of interrupt, with interrupts masked.
    unsafe {
        write!("S3_0_C12_C12_4", control | SPLIT);
        isb();
        write!("S3_0_C12_C12_1", interrupt as usize);
        isb();
        write!("S3_0_C12_C12_4", control);
    }
    isb();
}

/// Sets or clears the active state of private interrupts of this CPU.
pub(super) fn set_active(interrupts: u32, active: bool) {
    let register = if active {
        gicd::ISACTIVER
    } else {
        gicd::ICACTIVER
    };
    private().write(FRAME + register, interrupts);
}

/// This CPU's redistributor.
fn private() -> Registers {
    // SAFETY: mapped by `start_cpu`, forever.
    unsafe { Registers::at(cpu::this().redistributor.get(), 2 * FRAME) }
}

/// Sends software-generated interrupt `interrupt` to the CPU with affinity `mpidr` (ICC_SGI1R_EL1,
/// 12.2.21).
pub(super) fn send(interrupt: u32, mpidr: usize) {
    let level = |n: usize| mpidr >> [0, 8, 16, 32][n] & 0xff;
    let value = level(3) << 48
        | (level(0) / 16) << 44
        | level(2) << 32
        | (interrupt as usize) << 24
        | level(1) << 16
        | 1 << (level(0) % 16);
    // Earlier writes must be visible to the CPU that the interrupt wakes. SAFETY: a barrier, and a
    // register that only raises an interrupt.
    unsafe {
        core::arch::asm!("dsb ishst", options(nostack, preserves_flags));
        write!("S3_0_C12_C11_5", value);
    }
    isb();
}
