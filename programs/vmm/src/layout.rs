//! Where things are in a guest's physical memory, much as on QEMU's `virt` machine, and their
//! interrupts.

/// The interrupt controller's distributor, 64 KiB.
pub const DISTRIBUTOR: u64 = 0x0800_0000;
/// Length of the distributor's registers.
pub const DISTRIBUTOR_LEN: u64 = 0x1_0000;
/// The console, a PL011.
pub const UART: u64 = 0x0900_0000;
/// The status register: what is written here is the exit status after power-off.
pub const STATUS: u64 = 0x0901_0000;
/// The first virtio device; the others follow.
pub const VIRTIO: u64 = 0x0a00_0000;
/// Length of a device's registers.
pub const DEVICE_LEN: u64 = 0x1000;
/// The redistributors, one after the other.
pub const REDISTRIBUTORS: u64 = 0x1000_0000;
/// Length of one redistributor.
pub const REDISTRIBUTOR_LEN: u64 = 0x2_0000;
/// Memory, to as far as there is.
pub const RAM: u64 = 0x4000_0000;

/// The console's shared interrupt: its number beyond 32.
pub const UART_INTERRUPT: u32 = 1;
/// The first virtio device's; the others follow.
pub const VIRTIO_INTERRUPT: u32 = 16;
/// Private interrupts of the generic timer, beyond 16: secure, physical, virtual, hypervisor.
pub const TIMER_INTERRUPTS: [u32; 4] = [13, 14, 11, 10];
