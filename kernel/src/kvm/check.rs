//! KVM_CHECK_EXTENSION: what there is.

use super::vcpu::MAX_VCPUS;
use super::{slots, vm};
use crate::arch::cpu;

/// The answer for a capability by its number; 0 for what is not there.
pub fn extension(number: usize) -> usize {
    match number {
        // USER_MEMORY, MP_STATE, DESTROY_MEMORY_REGION_WORKS, JOIN_MEMORY_REGIONS_WORKS, ONE_REG, READONLY_MEM,
        // ARM_PSCI, ARM_PSCI_0_2, IMMEDIATE_EXIT.
        3 | 14 | 21 | 30 | 70 | 81 | 87 | 102 | 136 => 1,
        // NR_VCPUS.
        9 => cpu::count(),
        // NR_MEMSLOTS.
        10 => slots::MAX,
        // MAX_VCPUS, MAX_VCPU_ID.
        66 | 128 => MAX_VCPUS,
        // IRQCHIP, DEVICE_CTRL, BINARY_STATS_FD.
        0 | 89 | 203 => 1,
        // ARM_VM_IPA_SIZE.
        165 => vm::ADDRESS_BITS as usize,
        _ => 0,
    }
}
