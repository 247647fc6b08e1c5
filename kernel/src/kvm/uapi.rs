//! Numbers of Linux's `include/uapi/linux/kvm.h` and `arch/arm64/include/uapi/asm/kvm.h`.

/// KVM_API_VERSION.
pub const API_VERSION: usize = 12;

const TYPE: u32 = 0xae << 8;
const WRITE: u32 = 1 << 30;
const READ: u32 = 2 << 30;
const fn sized(direction: u32, number: u32, size: u32) -> u32 {
    direction | size << 16 | TYPE | number
}

// Of /dev/kvm.
pub const GET_API_VERSION: u32 = TYPE;
pub const CREATE_VM: u32 = TYPE | 0x01;
pub const CHECK_EXTENSION: u32 = TYPE | 0x03;
pub const GET_VCPU_MMAP_SIZE: u32 = TYPE | 0x04;
// Of a VM.
pub const CREATE_VCPU: u32 = TYPE | 0x41;
pub const SET_USER_MEMORY_REGION: u32 = sized(WRITE, 0x46, 32);
pub const ARM_PREFERRED_TARGET: u32 = sized(READ, 0xaf, 32);
pub const CREATE_DEVICE: u32 = sized(READ | WRITE, 0xe0, 12);
pub const IRQ_LINE: u32 = sized(WRITE, 0x61, 8);
// Of a device.
pub const SET_DEVICE_ATTR: u32 = sized(WRITE, 0xe1, 24);
pub const GET_DEVICE_ATTR: u32 = sized(WRITE, 0xe2, 24);
pub const HAS_DEVICE_ATTR: u32 = sized(WRITE, 0xe3, 24);
// Of a virtual CPU.
pub const RUN: u32 = TYPE | 0x80;
pub const GET_MP_STATE: u32 = sized(READ, 0x98, 4);
pub const SET_MP_STATE: u32 = sized(WRITE, 0x99, 4);
pub const GET_ONE_REG: u32 = sized(WRITE, 0xab, 16);
pub const SET_ONE_REG: u32 = sized(WRITE, 0xac, 16);
pub const ARM_VCPU_INIT: u32 = sized(WRITE, 0xae, 32);
pub const GET_REG_LIST: u32 = sized(READ | WRITE, 0xb0, 8);
pub const GET_STATS_FD: u32 = TYPE | 0xce;

/// `struct kvm_userspace_memory_region`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct MemoryRegion {
    pub slot: u32,
    pub flags: u32,
    pub guest_address: u64,
    pub len: u64,
    pub address: u64,
}

/// Guests read it only.
pub const MEM_READONLY: u32 = 1 << 1;

/// `struct kvm_vcpu_init`.
#[derive(
    zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, Clone, Copy, PartialEq, Eq,
)]
#[repr(C)]
pub struct VcpuInit {
    pub target: u32,
    pub features: [u32; 7],
}

/// The target of any CPU of Arm's version 8.
pub const TARGET_GENERIC_V8: u32 = 5;
/// Features of `VcpuInit`, by bit.
pub const FEATURE_POWER_OFF: u32 = 0;
pub const FEATURE_PSCI_0_2: u32 = 2;
/// How many features Linux knows.
pub const FEATURES: u32 = 8;

/// `struct kvm_one_reg`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct OneRegister {
    pub id: u64,
    pub address: u64,
}

/// States of a virtual CPU.
pub const MP_STATE_RUNNABLE: u32 = 0;
pub const MP_STATE_STOPPED: u32 = 5;

/// Why RUN came back.
pub const EXIT_MMIO: u32 = 6;
pub const EXIT_INTR: u32 = 10;
pub const EXIT_SYSTEM_EVENT: u32 = 24;
/// Kinds of `EXIT_SYSTEM_EVENT`.
pub const EVENT_SHUTDOWN: u32 = 1;
pub const EVENT_RESET: u32 = 2;

/// `struct kvm_create_device`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
pub struct CreateDevice {
    pub kind: u32,
    pub fd: u32,
    pub flags: u32,
}

/// Its kind for a GICv3, and its flag that only asks whether there is such a device.
pub const DEVICE_VGIC_V3: u32 = 7;
pub const DEVICE_TEST: u32 = 1;

/// `struct kvm_device_attr`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct DeviceAttribute {
    pub flags: u32,
    pub group: u32,
    pub number: u64,
    pub address: u64,
}

/// Groups and numbers of a GICv3's attributes.
pub mod vgic {
    pub const ADDRESS: u32 = 0;
    pub const DISTRIBUTOR: u64 = 2;
    pub const REDISTRIBUTORS: u64 = 3;
    pub const REGION: u64 = 5;
    pub const INTERRUPTS: u32 = 3;
    pub const CONTROL: u32 = 4;
    pub const INIT: u64 = 0;
}

/// `struct kvm_irq_level`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct InterruptLevel {
    pub interrupt: u32,
    pub level: u32,
}

/// Kinds of its interrupt: a CPU's own line, a shared one, or one of a virtual CPU's own.
pub const LINE_CPU: u32 = 0;
pub const LINE_SHARED: u32 = 1;
pub const LINE_PRIVATE: u32 = 2;
