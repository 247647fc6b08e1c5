//! The firmware's power services (Arm DEN 0022), and the identity of a hypervisor that provides
//! them.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use dtoolkit::fdt::Fdt;
use smccc::arch::SMCCC_VERSION;
use smccc::psci::{PSCI_CPU_ON_64, PSCI_FEATURES, PSCI_SYSTEM_OFF, PSCI_SYSTEM_RESET};
use smccc::{hvc64, smc64};

use crate::fdt;

/// The call for the hypervisor's UID (Arm DEN 0028, section 6).
const VENDOR_UID: u32 = 0x8600_ff01;
/// The UID of KVM's interface (Linux, Documentation/virt/kvm/arm/hypercalls.rst).
const KVM_UID: [u64; 4] = [0xb66f_b428, 0xe911_c52e, 0x564b_caa9, 0x743a_004d];

const NONE: u32 = 0;
const HVC: u32 = 1;
const SMC: u32 = 2;

static CONDUIT: AtomicU32 = AtomicU32::new(NONE);

/// Reads the firmware's calling method from the device tree.
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

/// Calls the firmware; returns its results, if there is firmware.
fn call_firmware(function: u32, [first, second, third]: [usize; 3]) -> Option<[u64; 4]> {
    let mut registers = [0; 17];
    registers[..3].copy_from_slice(&[first as u64, second as u64, third as u64]);
    let answer = match CONDUIT.load(Relaxed) {
        HVC => hvc64(function, registers),
        SMC => smc64(function, registers),
        _ => return None,
    };
    answer.first_chunk().copied()
}

/// Calls the firmware; returns the first word of its results, in which zero or more is success.
fn call(function: u32, arguments: [usize; 3]) -> Result<usize, isize> {
    match call_firmware(function, arguments).map_or(-1, |answer| answer[0] as isize) {
        error @ ..0 => Err(error),
        value => Ok(value as usize),
    }
}

/// Logs which hypervisor runs this machine, if one provides the firmware services and has a UID.
pub(super) fn log_hypervisor() {
    // Firmware without SMCCC may not handle unknown calls.
    if CONDUIT.load(Relaxed) != HVC || call(PSCI_FEATURES, [SMCCC_VERSION as usize, 0, 0]).is_err()
    {
        return;
    }
    match call_firmware(VENDOR_UID, [0; 3]) {
        Some(KVM_UID) => crate::log!("a guest of KVM's interface"),
        Some([name, ..]) if name as i32 == -1 => {}
        Some(name) => crate::log!("a guest of the hypervisor {name:x?}"),
        None => {}
    }
}

/// Starts the CPU with affinity `mpidr` at the physical address `entry`, with `argument` in x0.
pub(super) fn cpu_on(mpidr: usize, entry: usize, argument: usize) -> Result<(), isize> {
    call(PSCI_CPU_ON_64, [mpidr, entry, argument]).map(drop)
}

/// Turns the machine off. Returns if the firmware cannot.
pub(super) fn system_off() {
    let _ = call(PSCI_SYSTEM_OFF, [0; 3]);
}

/// Resets the machine. Returns if the firmware cannot.
pub(super) fn system_reset() {
    let _ = call(PSCI_SYSTEM_RESET, [0; 3]);
}
