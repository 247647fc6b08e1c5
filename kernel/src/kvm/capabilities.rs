//! KVM_CHECK_EXTENSION: the capabilities.

use abi::kvm_capability as cap;

use super::vcpu::MAX_VCPUS;
use super::{routing, slots, vcpu_file};
use crate::arch::{cpu, features, virt};

/// The answer for a capability number; 0 if it is absent.
pub fn extension(number: usize) -> usize {
    match number {
        cap::USER_MEMORY
        | cap::USER_MEMORY2
        | cap::DESTROY_MEMORY_REGION_WORKS
        | cap::JOIN_MEMORY_REGIONS_WORKS
        | cap::READONLY_MEM
        | cap::SYNC_MMU
        | cap::COALESCED_PIO
        | cap::IMMEDIATE_EXIT
        | cap::BINARY_STATS_FD => 1,
        // There is no such exit, as on Linux's arm64.
        cap::INTERNAL_ERROR_DATA => 1,
        cap::ENABLE_CAP_VM | cap::CHECK_EXTENSION_VM | cap::DEVICE_CTRL => 1,
        cap::IRQCHIP | cap::IRQFD | cap::IRQFD_RESAMPLE | cap::SIGNAL_MSI => 1,
        cap::IOEVENTFD | cap::IOEVENTFD_ANY_LENGTH => 1,
        cap::MP_STATE | cap::ONE_REG | cap::VCPU_ATTRIBUTES | cap::VCPU_EVENTS => 1,
        cap::ARM_PSCI | cap::ARM_PSCI_0_2 | cap::ARM_SYSTEM_SUSPEND => 1,
        cap::ARM_NISV_TO_USER | cap::ARM_INJECT_EXT_DABT => 1,
        cap::SET_GUEST_DEBUG | cap::STEAL_TIME | cap::PTP_KVM | cap::COUNTER_OFFSET => 1,
        // The index of the ring among a virtual CPU's pages.
        cap::COALESCED_MMIO => vcpu_file::RING,
        cap::NR_VCPUS => cpu::count(),
        cap::NR_MEMSLOTS => slots::MAX,
        cap::MAX_VCPUS | cap::MAX_VCPU_ID => MAX_VCPUS,
        cap::GUEST_DEBUG_HW_BPS => virt::points().0,
        cap::GUEST_DEBUG_HW_WPS => virt::points().1,
        cap::ARM_INJECT_SERROR_ESR => virt::errors_have_syndromes().into(),
        cap::ARM_SVE => has_sve().into(),
        cap::ARM_PTRAUTH_ADDRESS | cap::ARM_PTRAUTH_GENERIC => has_authentication().into(),
        // Both of its arguments are supported.
        cap::MANUAL_DIRTY_LOG_PROTECT2 => 3,
        cap::IRQ_ROUTING => routing::MOST,
        cap::ARM_VM_IPA_SIZE => virt::most_address_bits() as usize,
        _ => 0,
    }
}

/// Whether guests can have SVE.
pub fn has_sve() -> bool {
    virt::sve::lengths() != 0
}

/// Whether guests can have pointer authentication, which is for addresses and generic at once.
pub fn has_authentication() -> bool {
    features().address_auth() && features().generic_auth()
}
