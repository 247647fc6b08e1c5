//! KVM's capabilities by number (include/uapi/linux/kvm.h, Documentation/virt/kvm/api.rst).

/// Declares the capabilities, and a list of them for the test.
macro_rules! capabilities {
    ($($name:ident = $number:literal,)*) => {
        $(
            #[doc = concat!("KVM_CAP_", stringify!($name))]
            pub const $name: usize = $number;
        )*

        /// All capabilities, with their names.
        pub const ALL: &[(&str, usize)] = &[$((stringify!($name), $name),)*];
    };
}

capabilities! {
    IRQCHIP = 0,
    USER_MEMORY = 3,
    NR_VCPUS = 9,
    NR_MEMSLOTS = 10,
    MP_STATE = 14,
    COALESCED_MMIO = 15,
    SYNC_MMU = 16,
    DESTROY_MEMORY_REGION_WORKS = 21,
    SET_GUEST_DEBUG = 23,
    IRQ_ROUTING = 25,
    JOIN_MEMORY_REGIONS_WORKS = 30,
    IRQFD = 32,
    IOEVENTFD = 36,
    INTERNAL_ERROR_DATA = 40,
    VCPU_EVENTS = 41,
    MAX_VCPUS = 66,
    ONE_REG = 70,
    SIGNAL_MSI = 77,
    READONLY_MEM = 81,
    IRQFD_RESAMPLE = 82,
    ARM_PSCI = 87,
    DEVICE_CTRL = 89,
    ENABLE_CAP_VM = 98,
    ARM_PSCI_0_2 = 102,
    CHECK_EXTENSION_VM = 105,
    GUEST_DEBUG_HW_BPS = 119,
    GUEST_DEBUG_HW_WPS = 120,
    IOEVENTFD_ANY_LENGTH = 122,
    VCPU_ATTRIBUTES = 127,
    MAX_VCPU_ID = 128,
    MSI_DEVID = 131,
    IMMEDIATE_EXIT = 136,
    ARM_INJECT_SERROR_ESR = 158,
    COALESCED_PIO = 162,
    ARM_VM_IPA_SIZE = 165,
    MANUAL_DIRTY_LOG_PROTECT2 = 168,
    ARM_SVE = 170,
    ARM_PTRAUTH_ADDRESS = 171,
    ARM_PTRAUTH_GENERIC = 172,
    ARM_NISV_TO_USER = 177,
    ARM_INJECT_EXT_DABT = 178,
    STEAL_TIME = 187,
    PTP_KVM = 198,
    BINARY_STATS_FD = 203,
    ARM_SYSTEM_SUSPEND = 216,
    COUNTER_OFFSET = 227,
    USER_MEMORY2 = 231,
}
