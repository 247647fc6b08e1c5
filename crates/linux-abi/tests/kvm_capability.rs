//! Compares the numbers of capabilities with those of `kvm-bindings`, from Linux's headers.

use abi::kvm_capability::ALL;

macro_rules! linux {
    ($($name:ident)*) => {
        &[$((&stringify!($name)["KVM_CAP_".len()..], kvm_bindings::$name as usize),)*]
    };
}

#[test]
fn capabilities_have_the_numbers_of_linux() {
    let linux: &[(&str, usize)] = linux! {
        KVM_CAP_IRQCHIP
        KVM_CAP_USER_MEMORY
        KVM_CAP_NR_VCPUS
        KVM_CAP_NR_MEMSLOTS
        KVM_CAP_MP_STATE
        KVM_CAP_COALESCED_MMIO
        KVM_CAP_SYNC_MMU
        KVM_CAP_DESTROY_MEMORY_REGION_WORKS
        KVM_CAP_SET_GUEST_DEBUG
        KVM_CAP_IRQ_ROUTING
        KVM_CAP_JOIN_MEMORY_REGIONS_WORKS
        KVM_CAP_IRQFD
        KVM_CAP_IOEVENTFD
        KVM_CAP_INTERNAL_ERROR_DATA
        KVM_CAP_VCPU_EVENTS
        KVM_CAP_MAX_VCPUS
        KVM_CAP_ONE_REG
        KVM_CAP_SIGNAL_MSI
        KVM_CAP_READONLY_MEM
        KVM_CAP_IRQFD_RESAMPLE
        KVM_CAP_ARM_PSCI
        KVM_CAP_DEVICE_CTRL
        KVM_CAP_ENABLE_CAP_VM
        KVM_CAP_ARM_PSCI_0_2
        KVM_CAP_CHECK_EXTENSION_VM
        KVM_CAP_GUEST_DEBUG_HW_BPS
        KVM_CAP_GUEST_DEBUG_HW_WPS
        KVM_CAP_IOEVENTFD_ANY_LENGTH
        KVM_CAP_VCPU_ATTRIBUTES
        KVM_CAP_MAX_VCPU_ID
        KVM_CAP_MSI_DEVID
        KVM_CAP_IMMEDIATE_EXIT
        KVM_CAP_ARM_INJECT_SERROR_ESR
        KVM_CAP_COALESCED_PIO
        KVM_CAP_ARM_VM_IPA_SIZE
        KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2
        KVM_CAP_ARM_SVE
        KVM_CAP_ARM_PTRAUTH_ADDRESS
        KVM_CAP_ARM_PTRAUTH_GENERIC
        KVM_CAP_ARM_NISV_TO_USER
        KVM_CAP_ARM_INJECT_EXT_DABT
        KVM_CAP_STEAL_TIME
        KVM_CAP_PTP_KVM
        KVM_CAP_BINARY_STATS_FD
        KVM_CAP_ARM_SYSTEM_SUSPEND
        KVM_CAP_COUNTER_OFFSET
        KVM_CAP_USER_MEMORY2
    };
    assert_eq!(ALL, linux);
}
