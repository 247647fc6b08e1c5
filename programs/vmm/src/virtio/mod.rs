//! virtio devices over MMIO (Virtual I/O Device 1.2, 4.2): the registers for set-up by a driver,
//! the queues, and the interrupt. Each device handles its buffers in a file of its own.

mod block;
mod console;
mod entropy;
mod vsock;

pub use block::Block;
pub use console::Console;
pub use entropy::Entropy;
pub use vsock::{Arrival, Vsock};

use anyhow::Result;
use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_NEEDS_RESET, VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_mmio::*;
use virtio_queue::{DescriptorChain, Queue, QueueT};

use crate::line::Line;
use crate::memory::Memory;

/// The first registers: "virt", version 2.
const MAGIC: u32 = 0x7472_6976;
const VERSION: u32 = 2;
/// The maximum size of a queue.
const QUEUE_LEN: u16 = 256;

/// A descriptor chain: buffers that the device reads, then buffers that it writes.
pub type Chain<'a> = DescriptorChain<&'a Memory>;

/// The device behind the registers.
pub trait Device: Send {
    /// Its device ID (section 5).
    fn kind(&self) -> u32;

    /// The number of its queues.
    fn queues(&self) -> usize {
        1
    }

    /// The feature bits of its device type.
    fn features(&self) -> u64 {
        0
    }

    /// The configuration space of its device type.
    fn configuration(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Serves its queues after the driver has added buffers, or data has arrived; returns whether
    /// it used buffers. After an error the device needs a reset.
    fn work(&mut self, queues: &mut [Queue], memory: &Memory) -> Result<bool>;

    /// Handles data from outside; `source` is the device's id of its origin, and empty data its
    /// end.
    fn arrive(&mut self, _source: u64, _bytes: &[u8]) {}

    /// The driver has reset the device.
    fn reset(&mut self) {}
}

/// A device and its registers.
pub struct Transport {
    device: Box<dyn Device>,
    queues: Vec<Queue>,
    memory: Memory,
    line: Line,
    status: u32,
    interrupts: u32,
    /// The selected half of the features, and the selected queue.
    half: u32,
    selected: usize,
}

impl Transport {
    /// Wraps `device`, whose buffers are in `memory`, and which interrupts by `line`.
    pub fn new(device: Box<dyn Device>, memory: Memory, line: Line) -> Result<Self> {
        let queues = (0..device.queues()).map(|_| Queue::new(QUEUE_LEN));
        Ok(Self {
            queues: queues.collect::<Result<_, _>>()?,
            device,
            memory,
            line,
            status: 0,
            interrupts: 0,
            half: 0,
            selected: 0,
        })
    }

    /// True if a driver has set DRIVER_OK.
    pub fn is_driven(&self) -> bool {
        self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0
    }

    /// Reads the register at `offset`.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        if let Some(offset) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            let configuration = self.device.configuration();
            let there = configuration.get(offset as usize..).unwrap_or_default();
            let len = there.len().min(data.len());
            data[..len].copy_from_slice(&there[..len]);
            return;
        }
        let features = self.device.features() | 1 << VIRTIO_F_VERSION_1;
        let queue = self.queues.get(self.selected);
        let value = match offset as u32 {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.device.kind(),
            VIRTIO_MMIO_DEVICE_FEATURES => features.checked_shr(32 * self.half).unwrap_or(0) as u32,
            VIRTIO_MMIO_QUEUE_NUM_MAX => queue.map_or(0, |queue| queue.max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => queue.is_some_and(Queue::ready).into(),
            VIRTIO_MMIO_INTERRUPT_STATUS => self.interrupts,
            VIRTIO_MMIO_STATUS => self.status,
            _ => 0,
        };
        let len = data.len().min(4);
        data[..len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Writes the register at `offset`.
    pub fn write(&mut self, offset: u64, value: u32) -> Result<()> {
        match offset as u32 {
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.half = value,
            VIRTIO_MMIO_QUEUE_SEL => self.selected = value as usize,
            VIRTIO_MMIO_QUEUE_NOTIFY => return self.work(),
            VIRTIO_MMIO_INTERRUPT_ACK => {
                self.interrupts &= !value;
                return self.line.set(self.interrupts != 0);
            }
            VIRTIO_MMIO_STATUS if value == 0 => {
                self.queues.iter_mut().for_each(Queue::reset);
                self.device.reset();
                (self.status, self.interrupts) = (0, 0);
                return self.line.set(false);
            }
            VIRTIO_MMIO_STATUS => {
                self.status = value;
                if self.is_driven() {
                    return self.work();
                }
            }
            register => {
                if let Some(queue) = self.queues.get_mut(self.selected) {
                    set_up(queue, register, value);
                }
            }
        }
        Ok(())
    }

    /// Passes data to the device.
    pub fn arrive(&mut self, source: u64, bytes: &[u8]) -> Result<()> {
        self.device.arrive(source, bytes);
        self.work()
    }

    /// Lets the device serve its queues, if a driver has set up valid ones, and interrupts if
    /// buffers were used.
    fn work(&mut self) -> Result<()> {
        let sound = |queue: &Queue| !queue.ready() || queue.is_valid(&self.memory);
        if !self.is_driven() || !self.queues.iter().all(sound) {
            return Ok(());
        }
        match self.device.work(&mut self.queues, &self.memory) {
            Ok(false) => return Ok(()),
            Ok(true) => self.interrupts |= VIRTIO_MMIO_INT_VRING,
            // A mistake of the guest's driver: only the driver is informed.
            Err(_) => {
                self.status = VIRTIO_CONFIG_S_NEEDS_RESET;
                self.interrupts |= VIRTIO_MMIO_INT_CONFIG;
            }
        }
        self.line.set(true)
    }
}

/// Writes a register of a queue.
fn set_up(queue: &mut Queue, register: u32, value: u32) {
    match register {
        VIRTIO_MMIO_QUEUE_NUM => queue.set_size(value as u16),
        VIRTIO_MMIO_QUEUE_READY => queue.set_ready(value == 1),
        VIRTIO_MMIO_QUEUE_DESC_LOW => queue.set_desc_table_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_DESC_HIGH => queue.set_desc_table_address(None, Some(value)),
        VIRTIO_MMIO_QUEUE_AVAIL_LOW => queue.set_avail_ring_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_AVAIL_HIGH => queue.set_avail_ring_address(None, Some(value)),
        VIRTIO_MMIO_QUEUE_USED_LOW => queue.set_used_ring_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_USED_HIGH => queue.set_used_ring_address(None, Some(value)),
        _ => {}
    }
}

/// Passes each chain of a queue to `serve`, which returns the number of bytes written, and puts it
/// into the used ring. Returns true if there was one.
fn each(
    queue: &mut Queue,
    memory: &Memory,
    mut serve: impl FnMut(Chain) -> Result<u32>,
) -> Result<bool> {
    let mut any = false;
    while queue.ready()
        && let Some(chain) = queue.pop_descriptor_chain(memory)
    {
        let head = chain.head_index();
        let written = serve(chain)?;
        queue.add_used(memory, head, written)?;
        any = true;
    }
    Ok(any)
}
