//! Compares KVM's numbers with those of `kvm-bindings`, from Linux's headers.

use abi::kvm_number::ALL;

/// Numbers that Linux defines by macros, and the kinds of devices, which are an enum.
macro_rules! linux {
    ($($name:ident)*; $($kind:ident)*) => {
        &[
            $((&stringify!($name)["KVM_".len()..], kvm_bindings::$name),)*
            $((&stringify!($kind)["kvm_device_type_KVM_".len()..], kvm_bindings::$kind),)*
        ]
    };
}

#[test]
fn numbers_are_those_of_linux() {
    let linux: &[(&str, u32)] = linux! {
        KVM_EXIT_UNKNOWN
        KVM_EXIT_HYPERCALL
        KVM_EXIT_DEBUG
        KVM_EXIT_MMIO
        KVM_EXIT_INTR
        KVM_EXIT_SYSTEM_EVENT
        KVM_EXIT_ARM_NISV
        KVM_SYSTEM_EVENT_SHUTDOWN
        KVM_SYSTEM_EVENT_RESET
        KVM_SYSTEM_EVENT_WAKEUP
        KVM_SYSTEM_EVENT_SUSPEND
        KVM_MP_STATE_RUNNABLE
        KVM_MP_STATE_STOPPED
        KVM_MP_STATE_SUSPENDED
        KVM_CREATE_DEVICE_TEST;
        kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3
        kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_ITS
    };
    assert_eq!(ALL, linux);
}
