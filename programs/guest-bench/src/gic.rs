//! The interrupt controller, a GICv3 with one security state, as under KVM: Arm IHI 0069, chapters
//! 11 and 12.

use core::arch::asm;

use crate::cpus::Cpus;
use crate::platform::Platform;
use crate::sgi;

/// Distributor registers.
const CTLR: usize = 0x0;
pub const IIDR: usize = 0x8;
/// CTLR: affinity routing, and both groups.
const CTLR_ON: u32 = 1 << 4 | 1 << 1 | 1;

/// Redistributor registers: of the first frame, and of the second, for SGIs and PPIs.
const TYPER: usize = 0x8;
const TYPER_LAST: u64 = 1 << 4;
const PRIVATE_FRAME: usize = 0x1_0000;
const IGROUPR0: usize = PRIVATE_FRAME + 0x80;
const ISENABLER0: usize = PRIVATE_FRAME + 0x100;
const ICENABLER0: usize = PRIVATE_FRAME + 0x180;
const FRAMES: usize = 0x2_0000;

/// The virtual timer's interrupt.
pub const TIMER: u32 = 27;

/// Writes a device's register.
fn write(address: usize, value: u32) {
    // SAFETY: a register of the interrupt controller; all interrupts are handled.
    unsafe { (address as *mut u32).write_volatile(value) };
}

/// Reads a device's register.
pub fn read(address: usize) -> u32 {
    // SAFETY: reads of the registers used here have no side effect.
    unsafe { (address as *const u32).read_volatile() }
}

/// Enables the distributor and this CPU's interface. Every CPU enables the loud SGI and disables
/// the quiet one.
pub fn start(platform: &Platform, cpus: &Cpus) {
    write(platform.distributor + CTLR, CTLR_ON);
    let mut frame = platform.redistributors;
    for _ in 0..cpus.count {
        write(frame + IGROUPR0, u32::MAX);
        write(frame + ISENABLER0, 1 << sgi::LOUD | 1 << TIMER);
        write(frame + ICENABLER0, 1 << sgi::QUIET);
        // SAFETY: a register of 64 bits, whose reads have no side effect.
        let kind = unsafe { ((frame + TYPER) as *const u64).read_volatile() };
        if kind & TYPER_LAST != 0 {
            break;
        }
        frame += FRAMES;
    }
    start_interface();
}

/// Enables this CPU's interface, and unmasks interrupts.
pub fn start_interface() {
    // SAFETY: ICC_SRE_EL1 on, lowest priority mask, group 1 on; the vectors are set.
    unsafe {
        asm!("msr s3_0_c12_c12_5, {sre}", "isb", "msr s3_0_c4_c6_0, {mask}", "msr s3_0_c12_c12_7, {on}", "isb",
            "msr daifclr, #2", sre = in(reg) 7u64, mask = in(reg) 0xf0u64, on = in(reg) 1u64);
    }
}

/// Reads ICC_IAR1_EL1: the number of the interrupt.
pub fn acknowledge() -> u32 {
    let number: u64;
    // SAFETY: read in the interrupt's handler, which ends the interrupt.
    unsafe { asm!("mrs {}, s3_0_c12_c12_0", "dsb sy", out(reg) number) };
    number as u32
}

/// Writes ICC_EOIR1_EL1: ends the interrupt.
#[inline(always)]
pub fn end(number: u32) {
    // SAFETY: the number is of an acknowledged interrupt, or of none.
    unsafe { asm!("msr s3_0_c12_c12_1, {}", "isb", in(reg) u64::from(number)) };
}
