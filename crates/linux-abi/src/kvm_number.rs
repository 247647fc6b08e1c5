//! KVM's numbers of exits, events, states of a virtual CPU and devices (include/uapi/linux/kvm.h).

/// Declares the numbers, and a list of them for the test.
macro_rules! numbers {
    ($($name:ident = $number:literal,)*) => {
        $(
            #[doc = concat!("KVM_", stringify!($name))]
            pub const $name: u32 = $number;
        )*

        /// All numbers, with their names.
        pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $name),)*];
    };
}

numbers! {
    EXIT_UNKNOWN = 0,
    EXIT_HYPERCALL = 3,
    EXIT_DEBUG = 4,
    EXIT_MMIO = 6,
    EXIT_INTR = 10,
    EXIT_SYSTEM_EVENT = 24,
    EXIT_ARM_NISV = 28,
    SYSTEM_EVENT_SHUTDOWN = 1,
    SYSTEM_EVENT_RESET = 2,
    SYSTEM_EVENT_WAKEUP = 4,
    SYSTEM_EVENT_SUSPEND = 5,
    MP_STATE_RUNNABLE = 0,
    MP_STATE_STOPPED = 5,
    MP_STATE_SUSPENDED = 10,
    CREATE_DEVICE_TEST = 1,
    DEV_TYPE_ARM_VGIC_V3 = 7,
    DEV_TYPE_ARM_VGIC_ITS = 8,
}
