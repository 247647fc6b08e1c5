//! Virtio devices, as drivers have them: what they carry, and nothing that says where in memory a
//! device reads and writes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::ops::Range;
use core::ptr::NonNull;

use virtio_drivers::Result;
use virtio_drivers::device::common::Feature;
use virtio_drivers::queue::{OwningQueue, VirtQueue};
use virtio_drivers::transport::mmio::{MmioTransport, VirtIOHeader};
use virtio_drivers::transport::{DeviceStatus, Transport};

pub use virtio_drivers::transport::DeviceType;

use super::dma::KernelHal;
use super::ordered::Ordered;
use super::send_queue::SendQueue;
use super::vmalloc;
use crate::sync::Mutex;

/// Buffers that wait for input.
const BUFFERS: usize = 4;
/// Bytes that come in at a time.
pub const BUFFER: usize = 512;

/// Where the registers of devices are that somebody has.
static TAKEN: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// A device that does nothing yet.
pub struct Device(Ordered);

impl Device {
    /// The device whose registers are at `base`, from the device tree; `None` where there is none
    /// behind them, or it was found before.
    pub fn find(base: usize, len: usize) -> Option<Self> {
        let registers = vmalloc::map_device(base, len).ok()?;
        let mut taken = TAKEN.lock();
        let touches = |other: &Range<usize>| other.start < base + len && base < other.end;
        if taken.iter().any(touches) || taken.try_reserve(1).is_err() {
            return None;
        }
        let header = NonNull::new(registers as *mut VirtIOHeader).filter(|at| at.is_aligned())?;
        // SAFETY: `len` bytes of a device, of which `new` reads whether it is a virtio device; the
        // mapping stays for ever, and no other transport has it.
        let transport = unsafe { MmioTransport::new(header, len) }.ok()?;
        taken.push(base..base + len);
        Some(Device(Ordered(transport)))
    }

    /// What it is.
    pub fn device_type(&self) -> DeviceType {
        self.0.device_type()
    }
}

/// A device that bytes come from and go to.
pub struct Stream {
    transport: Ordered,
    receive: OwningQueue<KernelHal, BUFFERS, BUFFER>,
    send: Box<SendQueue>,
}

impl Stream {
    /// Starts a device, whose bytes come by queue `receive` and go by queue `transmit`.
    pub fn start(device: Device, receive: u16, transmit: u16) -> Result<Self> {
        let Device(mut transport) = device;
        transport.begin_init(Feature::VERSION_1);
        // Until the end of this, which nothing fails after, the device leaves memory alone (virtio
        // 1.2, 3.1.2).
        let queue = VirtQueue::new(&mut transport, receive, false, false)?;
        let queue = OwningQueue::new(queue)?;
        let send = SendQueue::new(&mut transport, transmit)?;
        transport.finish_init();
        if queue.should_notify() {
            transport.notify(receive);
        }
        Ok(Stream {
            transport,
            receive: queue,
            send,
        })
    }

    /// Sends bytes. Waits for the device only where all buffers are on their way.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send.send(&mut self.transport, bytes)
    }

    /// Waits until the device has taken all that was sent.
    pub fn flush(&mut self) -> Result<()> {
        self.send.flush()
    }

    /// Says to the device that its interrupt was seen.
    pub fn acknowledge(&mut self) {
        self.transport.ack_interrupt();
    }

    /// Copies what one buffer holds that came in; how much that is.
    pub fn receive(&mut self, bytes: &mut [u8; BUFFER]) -> Result<Option<usize>> {
        let copy = |input: &[u8]| {
            bytes[..input.len()].copy_from_slice(input);
            Ok(Some(input.len()))
        };
        self.receive.poll(&mut self.transport, copy)
    }
}

impl Drop for Stream {
    /// The device forgets its queues, whose memory is freed next, when it says so (virtio 1.2,
    /// 2.4.2).
    fn drop(&mut self) {
        self.transport.set_status(DeviceStatus::empty());
        while !self.transport.get_status().is_empty() {
            spin_loop();
        }
    }
}
