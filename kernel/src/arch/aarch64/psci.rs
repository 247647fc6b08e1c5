//! The firmware's power services (Arm DEN 0022).

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use dtoolkit::fdt::Fdt;

use crate::drivers::fdt;

const CPU_ON: usize = 0xc400_0003;
const SYSTEM_OFF: usize = 0x8400_0008;
const SYSTEM_RESET: usize = 0x8400_0009;

const NONE: u32 = 0;
const HVC: u32 = 1;
const SMC: u32 = 2;

static CONDUIT: AtomicU32 = AtomicU32::new(NONE);

/// Learns how the firmware is called.
pub(super) fn init(tree: Fdt) {
    let node = fdt::find(tree, &["arm,psci-1.0", "arm,psci-0.2"]).next();
    let method = node.and_then(|node| fdt::text_of(&node, "method"));
    let conduit = match method {
        Some("hvc") => HVC,
        Some("smc") => SMC,
        _ => NONE,
    };
    CONDUIT.store(conduit, Relaxed);
}

/// What the firmware answers: zero or more is success.
fn call(function: usize, arguments: [usize; 3]) -> Result<usize, isize> {
    let result: isize;
    macro_rules! call {
        ($instruction:literal) => {
            // SAFETY: the firmware keeps all registers but x0 to x17 (Arm DEN 0028, section 2.6).
            unsafe {
                asm!($instruction, inlateout("x0") function => result, in("x1") arguments[0], in("x2") arguments[1],
                    in("x3") arguments[2], clobber_abi("C"))
            }
        };
    }
    match CONDUIT.load(Relaxed) {
        HVC => call!("hvc #0"),
        SMC => call!("smc #0"),
        _ => return Err(-1),
    }
    if result < 0 {
        Err(result)
    } else {
        Ok(result as usize)
    }
}

/// Starts the CPU with affinity `mpidr` at the physical address `entry`, with `argument` in x0.
pub(super) fn cpu_on(mpidr: usize, entry: usize, argument: usize) -> Result<(), isize> {
    call(CPU_ON, [mpidr, entry, argument]).map(drop)
}

/// Turns the machine off. Returns if the firmware cannot.
pub(super) fn system_off() {
    let _ = call(SYSTEM_OFF, [0; 3]);
}

/// Resets the machine. Returns if the firmware cannot.
pub(super) fn system_reset() {
    let _ = call(SYSTEM_RESET, [0; 3]);
}
