//! KVM_CHECK_EXTENSION: what there is.

use super::vcpu::MAX_VCPUS;
use super::{handle, routing, slots, vm};
use crate::arch::{cpu, features, virt};

/// The answer for a capability by its number; 0 for what is not there.
pub fn extension(number: usize) -> usize {
    match number {
        // USER_MEMORY, USER_MEMORY2, MP_STATE, DESTROY_MEMORY_REGION_WORKS, JOIN_MEMORY_REGIONS_WORKS, ONE_REG, READONLY_MEM,
        // ARM_PSCI, ARM_PSCI_0_2, IMMEDIATE_EXIT.
        3 | 231 | 14 | 21 | 30 | 70 | 81 | 87 | 102 | 136 => 1,
        // COALESCED_MMIO: the ring's place among the pages of a virtual CPU; COALESCED_PIO.
        15 => handle::RING,
        162 => 1,
        // NR_VCPUS.
        9 => cpu::count(),
        // NR_MEMSLOTS.
        10 => slots::MAX,
        // MAX_VCPUS, MAX_VCPU_ID.
        66 | 128 => MAX_VCPUS,
        // IRQCHIP, IRQFD, IOEVENTFD, SIGNAL_MSI, IRQFD_RESAMPLE, DEVICE_CTRL, IOEVENTFD_ANY_LENGTH,
        // BINARY_STATS_FD; INTERNAL_ERROR_DATA, although there is no such exit.
        0 | 32 | 36 | 77 | 82 | 89 | 122 | 203 | 40 => 1,
        // SYNC_MMU, SET_GUEST_DEBUG, VCPU_EVENTS, ENABLE_CAP_VM, CHECK_EXTENSION_VM, ARM_NISV_TO_USER, ARM_INJECT_EXT_DABT, STEAL_TIME,
        // VCPU_ATTRIBUTES, PTP_KVM, ARM_SYSTEM_SUSPEND.
        16 | 23 | 41 | 98 | 105 | 127 | 177 | 178 | 187 | 198 | 216 => 1,
        // GUEST_DEBUG_HW_BPS, GUEST_DEBUG_HW_WPS.
        119 => virt::points().0,
        120 => virt::points().1,
        // ARM_INJECT_SERROR_ESR.
        158 => virt::errors_have_syndromes().into(),
        // ARM_SVE; ARM_PTRAUTH_ADDRESS, ARM_PTRAUTH_GENERIC.
        170 => has_vectors().into(),
        171 | 172 => has_authentication().into(),
        // MANUAL_DIRTY_LOG_PROTECT2: both of its arguments.
        168 => 3,
        // IRQ_ROUTING.
        25 => routing::MOST,
        // ARM_VM_IPA_SIZE.
        165 => vm::ADDRESS_BITS as usize,
        _ => 0,
    }
}

/// Whether guests can have SVE.
pub fn has_vectors() -> bool {
    virt::sve::lengths() != 0
}

/// Whether guests can have pointer authentication, which is of addresses and of all else.
pub fn has_authentication() -> bool {
    features().address_auth() && features().generic_auth()
}
