//! The guest's physical address map, much like that of QEMU's `virt` machine, and interrupt
//! numbers.

/// The interrupt controller's distributor, 64 KiB.
pub const DISTRIBUTOR: u64 = 0x0800_0000;
/// The size of the distributor's registers.
pub const DISTRIBUTOR_LEN: u64 = 0x1_0000;
/// The console, a PL011.
pub const UART: u64 = 0x0900_0000;
/// The status register: the value written here is the exit status after power-off.
pub const STATUS: u64 = 0x0901_0000;
/// The first virtio device; the others follow.
pub const VIRTIO: u64 = 0x0a00_0000;
/// The size of a device's registers.
pub const DEVICE_LEN: u64 = 0x1000;
/// The redistributors, in sequence.
pub const REDISTRIBUTORS: u64 = 0x1000_0000;
/// The size of one redistributor.
pub const REDISTRIBUTOR_LEN: u64 = 0x2_0000;
/// The start of memory.
pub const RAM: u64 = 0x4000_0000;

/// The console's interrupt: its SPI number, from 0.
pub const UART_INTERRUPT: u32 = 1;
/// The SPI of the first virtio device; the others follow.
pub const VIRTIO_INTERRUPT: u32 = 16;
/// PPI numbers of the generic timer, from 0: secure, physical, virtual, hypervisor.
pub const TIMER_INTERRUPTS: [u32; 4] = [13, 14, 11, 10];
