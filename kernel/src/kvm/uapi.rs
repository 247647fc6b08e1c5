//! Numbers of Linux's `include/uapi/linux/kvm.h` and `arch/arm64/include/uapi/asm/kvm.h`.

pub use abi::kvm_number::*;
use core::ops::Range;

/// KVM_API_VERSION.
pub const API_VERSION: usize = 12;

const TYPE: u32 = 0xae << 8;
const WRITE: u32 = 1 << 30;
const READ: u32 = 2 << 30;
const fn sized(direction: u32, number: u32, size: u32) -> u32 {
    direction | size << 16 | TYPE | number
}

// Requests to /dev/kvm.
pub const GET_API_VERSION: u32 = TYPE;
pub const CREATE_VM: u32 = TYPE | 0x01;
pub const CHECK_EXTENSION: u32 = TYPE | 0x03;
pub const GET_VCPU_MMAP_SIZE: u32 = TYPE | 0x04;
// Requests to a VM.
pub const CREATE_VCPU: u32 = TYPE | 0x41;
pub const SET_USER_MEMORY_REGION: u32 = sized(WRITE, 0x46, 32);
pub const SET_USER_MEMORY_REGION2: u32 = sized(WRITE, 0x49, 160);
pub const ARM_PREFERRED_TARGET: u32 = sized(READ, 0xaf, 32);
pub const CREATE_DEVICE: u32 = sized(READ | WRITE, 0xe0, 12);
pub const IRQ_LINE: u32 = sized(WRITE, 0x61, 8);
pub const IRQ_LINE_STATUS: u32 = sized(READ | WRITE, 0x67, 8);
pub const GET_DIRTY_LOG: u32 = sized(WRITE, 0x42, 16);
pub const CLEAR_DIRTY_LOG: u32 = sized(READ | WRITE, 0xc0, 24);
pub const ENABLE_CAP: u32 = sized(WRITE, 0xa3, 104);
pub const SET_GSI_ROUTING: u32 = sized(WRITE, 0x6a, 8);
pub const IRQFD: u32 = sized(WRITE, 0x76, 32);
pub const IOEVENTFD: u32 = sized(WRITE, 0x79, 64);
pub const REGISTER_COALESCED_MMIO: u32 = sized(WRITE, 0x67, 16);
pub const UNREGISTER_COALESCED_MMIO: u32 = sized(WRITE, 0x68, 16);
pub const SIGNAL_MSI: u32 = sized(WRITE, 0xa5, 32);
pub const ARM_SET_COUNTER_OFFSET: u32 = sized(WRITE, 0xb5, 16);
// Requests to a device.
pub const SET_DEVICE_ATTR: u32 = sized(WRITE, 0xe1, 24);
pub const GET_DEVICE_ATTR: u32 = sized(WRITE, 0xe2, 24);
pub const HAS_DEVICE_ATTR: u32 = sized(WRITE, 0xe3, 24);
// Requests to a virtual CPU.
pub const RUN: u32 = TYPE | 0x80;
pub const GET_MP_STATE: u32 = sized(READ, 0x98, 4);
pub const SET_MP_STATE: u32 = sized(WRITE, 0x99, 4);
pub const GET_ONE_REG: u32 = sized(WRITE, 0xab, 16);
pub const SET_ONE_REG: u32 = sized(WRITE, 0xac, 16);
pub const ARM_VCPU_INIT: u32 = sized(WRITE, 0xae, 32);
pub const GET_REG_LIST: u32 = sized(READ | WRITE, 0xb0, 8);
pub const SET_SIGNAL_MASK: u32 = sized(WRITE, 0x8b, 4);
pub const SET_GUEST_DEBUG: u32 = sized(WRITE, 0x9b, 520);
pub const GET_VCPU_EVENTS: u32 = sized(READ, 0x9f, 64);
pub const SET_VCPU_EVENTS: u32 = sized(WRITE, 0xa0, 64);
pub const FINALIZE: u32 = sized(WRITE, 0xc2, 4);
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

impl MemoryRegion {
    /// The range of the VMM's memory; its addresses were checked.
    pub fn host(&self) -> Range<usize> {
        self.address as usize..(self.address + self.len) as usize
    }
}

/// `struct kvm_userspace_memory_region2`: a region, with more fields for flags that arm64 does not
/// have.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct MemoryRegion2 {
    pub region: MemoryRegion,
    pub unused: [u64; 16],
}

/// Flags of a slot: writes are logged; the guest may only read.
pub const MEM_LOG: u32 = 1;
pub const MEM_READONLY: u32 = 1 << 1;

/// `struct kvm_arm_counter_offset`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct CounterOffset {
    pub offset: u64,
    pub reserved: u64,
}

/// `struct kvm_coalesced_mmio_zone`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct Zone {
    pub address: u64,
    pub len: u32,
    pub ports: u32,
}

/// `struct kvm_dirty_log`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct DirtyLog {
    pub slot: u32,
    pub unused: u32,
    pub bitmap: u64,
}

/// `struct kvm_clear_dirty_log`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct ClearLog {
    pub slot: u32,
    pub count: u32,
    pub first: u64,
    pub bitmap: u64,
}

/// `struct kvm_enable_cap`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct EnableCap {
    pub capability: u32,
    pub flags: u32,
    pub arguments: [u64; 4],
    pub unused: [u64; 8],
}

/// Arguments of KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2: the VMM clears the log itself; and a log starts
/// with all pages marked as written.
pub const MANUAL_LOG: u64 = 1;
pub const MANUAL_LOG_ALL_WRITTEN: u64 = 1 << 1;

/// `struct kvm_vcpu_init`.
#[derive(
    zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, Clone, Copy, PartialEq, Eq,
)]
#[repr(C)]
pub struct VcpuInit {
    pub target: u32,
    pub features: [u32; 7],
}

impl VcpuInit {
    /// Whether the VMM asks for a feature.
    pub fn has(&self, feature: u32) -> bool {
        self.features[0] >> feature & 1 != 0
    }
}

/// The target for any Armv8 CPU.
pub const TARGET_GENERIC_V8: u32 = 5;
/// Bits of features in `VcpuInit`.
pub const FEATURE_POWER_OFF: u32 = 0;
pub const FEATURE_PSCI_0_2: u32 = 2;
pub const FEATURE_SVE: u32 = 4;
pub const FEATURE_ADDRESS_AUTH: u32 = 5;
pub const FEATURE_GENERIC_AUTH: u32 = 6;
/// The number of features that Linux knows.
pub const FEATURES: u32 = 8;

/// `struct kvm_one_reg`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct OneRegister {
    pub id: u64,
    pub address: u64,
}

/// `struct kvm_guest_debug`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct GuestDebug {
    pub control: u32,
    pub unused: u32,
    pub break_controls: [u64; 16],
    pub break_values: [u64; 16],
    pub watch_controls: [u64; 16],
    pub watch_values: [u64; 16],
}

/// Bits of `control`: enable debugging, single steps, break instructions, breakpoints and
/// watchpoints.
pub const DEBUG_ENABLE: u32 = 1;
pub const DEBUG_STEP: u32 = 1 << 1;
pub const DEBUG_BREAK_INSTRUCTIONS: u32 = 1 << 16;
pub const DEBUG_POINTS: u32 = 1 << 17;

/// `struct kvm_vcpu_events`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, Default)]
#[repr(C)]
pub struct VcpuEvents {
    pub error_pending: u8,
    pub error_has_syndrome: u8,
    pub abort_pending: u8,
    pub unused: [u8; 5],
    pub error_syndrome: u64,
    pub reserved: [u32; 12],
}

/// Groups and numbers of a virtual CPU's attributes.
pub mod vcpu {
    pub const PERFORMANCE: u32 = 0;
    pub const TIMER: u32 = 1;
    pub const VIRTUAL_TIMER: u64 = 0;
    pub const PHYSICAL_TIMER: u64 = 1;
    pub const STOLEN_TIME: u32 = 2;
    pub const ADDRESS: u64 = 0;
}

/// The reset was requested by PSCI's SYSTEM_RESET2.
pub const RESET2: u64 = 1;
/// The call of `EXIT_HYPERCALL` was made by SMC.
pub const HYPERCALL_BY_SMC: u64 = 1;

/// `struct kvm_create_device`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
pub struct CreateDevice {
    pub kind: u32,
    pub fd: u32,
    pub flags: u32,
}

/// `struct kvm_device_attr`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct DeviceAttribute {
    pub flags: u32,
    pub group: u32,
    pub number: u64,
    pub address: u64,
}

/// Group and number of a machine's own attribute, KVM_ARM_VM_SMCCC_FILTER.
pub const CALLS: u32 = 0;
pub const CALLS_FILTER: u64 = 0;

/// `struct kvm_smccc_filter`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct CallFilter {
    pub first: u32,
    pub count: u32,
    pub action: u8,
    pub zeroes: [u8; 15],
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
    pub const SAVE_PENDING_TABLES: u64 = 3;
    // Groups of registers, and the shifts of fields in their numbers.
    pub const DISTRIBUTOR_REGISTERS: u32 = 1;
    pub const REDISTRIBUTOR_REGISTERS: u32 = 5;
    pub const CPU_REGISTERS: u32 = 6;
    pub const LEVELS: u32 = 7;
    pub const AFFINITY: u32 = 32;
    pub const LEVELS_KIND: u32 = 10;
    pub const LINE_LEVEL: u64 = 0;
}

/// Groups and numbers of an ITS's attributes, which are [`vgic`]'s otherwise.
pub mod its {
    pub const FRAME: u64 = 4;
    pub const REGISTERS: u32 = 8;
    pub const SAVE_TABLES: u64 = 1;
    pub const RESTORE_TABLES: u64 = 2;
    pub const RESET: u64 = 4;
}

/// `struct kvm_irq_level`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct InterruptLevel {
    pub interrupt: u32,
    pub level: u32,
}

/// Kinds of interrupts: a CPU's own line, a shared interrupt, or a private interrupt of a virtual
/// CPU.
pub const LINE_CPU: u32 = 0;
pub const LINE_SHARED: u32 = 1;
pub const LINE_PRIVATE: u32 = 2;

/// `struct kvm_irqfd`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct Irqfd {
    pub fd: i32,
    pub gsi: u32,
    pub flags: u32,
    pub resample: i32,
    pub unused: [u64; 2],
}

/// Its flags: the assignment ends; the interrupt is a level that is resampled after the guest has
/// ended it.
pub const IRQFD_DEASSIGN: u32 = 1;
pub const IRQFD_RESAMPLE: u32 = 1 << 1;

/// `struct kvm_ioeventfd`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct Ioeventfd {
    pub value: u64,
    pub address: u64,
    pub len: u32,
    pub fd: i32,
    pub flags: u32,
    pub unused: [u32; 9],
}

/// Its flags: only this value; ports (two kinds, on other architectures only); the assignment ends;
/// and one without meaning here.
pub const IOEVENTFD_VALUE: u32 = 1;
pub const IOEVENTFD_PORT: u32 = 1 << 1;
pub const IOEVENTFD_DEASSIGN: u32 = 1 << 2;
pub const IOEVENTFD_CHANNEL: u32 = 1 << 3;
pub const IOEVENTFD_FAST: u32 = 1 << 4;

/// `struct kvm_irq_routing`, without its entries.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
pub struct Routing {
    pub count: u32,
    pub flags: u32,
}

/// `struct kvm_irq_routing_entry`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, Clone, Copy)]
#[repr(C)]
pub struct RoutingEntry {
    pub gsi: u32,
    pub kind: u32,
    pub flags: u32,
    pub unused: u32,
    pub words: [u32; 8],
}

/// Kinds of entries.
pub const ROUTE_LINE: u32 = 1;
pub const ROUTE_MSI: u32 = 2;

/// `struct kvm_msi`.
#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, Clone, Copy, Default)]
#[repr(C)]
pub struct Msi {
    pub address: [u32; 2],
    pub data: u32,
    pub flags: u32,
    pub device: u32,
    pub unused: [u32; 3],
}

/// Its flag, also that of a routing entry: the device is given.
pub const MSI_DEVICE: u32 = 1;
