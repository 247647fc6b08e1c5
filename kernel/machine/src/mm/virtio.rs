//! Virtio devices for drivers: an interface to their data that exposes no addresses that a device
//! reads or writes.

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

/// Number of input buffers.
const BUFFERS: usize = 4;
/// Size of an input buffer, in bytes.
pub const BUFFER: usize = 512;

bitflags::bitflags! {
    /// All features; the crate's own set has only a few.
    #[derive(Debug)]
    struct Features: u64 {
        const _ = !0;
    }
}

/// Begins to initialize a device of virtio 1; returns those of the features `wanted` that it has.
/// After they are accepted, it learns of no more (virtio 1.2, 3.1.1).
pub(super) fn negotiate(transport: &mut Ordered, wanted: u64) -> u64 {
    let wanted = Features::from_bits_retain(wanted | Feature::VERSION_1.bits());
    transport.begin_init(wanted).bits()
}

/// The register ranges of devices that are in use.
static TAKEN: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// A device that is not started yet.
pub struct Device(Ordered);

impl Device {
    /// Finds the device whose registers are at `base`, from the device tree; `None` if there is
    /// none, or it is in use.
    pub fn find(base: usize, len: usize) -> Option<Self> {
        let registers = vmalloc::map_device(base, len).ok()?;
        let mut taken = TAKEN.lock();
        let touches = |other: &Range<usize>| other.start < base + len && base < other.end;
        if taken.iter().any(touches) || taken.try_reserve(1).is_err() {
            return None;
        }
        let header = NonNull::new(registers as *mut VirtIOHeader).filter(|at| at.is_aligned())?;
        // SAFETY: `len` bytes of device registers, in which `new` checks for a virtio device; the
        // mapping stays forever, and no other transport uses it.
        let transport = unsafe { MmioTransport::new(header, len) }.ok()?;
        taken.push(base..base + len);
        Some(Device(Ordered(transport)))
    }

    /// The device's type.
    pub fn device_type(&self) -> DeviceType {
        self.0.device_type()
    }

    pub(super) fn into_transport(self) -> Ordered {
        self.0
    }
}

/// A device that sends and receives bytes.
pub struct Stream {
    transport: Ordered,
    receive: OwningQueue<KernelHal, BUFFERS, BUFFER>,
    send: Box<SendQueue>,
}

impl Stream {
    /// Starts a device that receives bytes through queue `receive` and sends them through queue
    /// `transmit`.
    pub fn start(device: Device, receive: u16, transmit: u16) -> Result<Self> {
        let Device(mut transport) = device;
        transport.begin_init(Feature::VERSION_1);
        // Until `finish_init`, after which nothing fails, the device does not access memory (virtio
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

    /// Sends bytes. Waits for the device only if all buffers are in flight.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send.send(&mut self.transport, bytes)
    }

    /// Waits until the device has consumed all data.
    pub fn flush(&mut self) -> Result<()> {
        self.send.flush()
    }

    /// Acknowledges the device's interrupt.
    pub fn acknowledge(&mut self) {
        self.transport.ack_interrupt();
    }

    /// Copies the content of one input buffer; returns its length.
    pub fn receive(&mut self, bytes: &mut [u8; BUFFER]) -> Result<Option<usize>> {
        let copy = |input: &[u8]| {
            bytes[..input.len()].copy_from_slice(input);
            Ok(Some(input.len()))
        };
        self.receive.poll(&mut self.transport, copy)
    }
}

impl Drop for Stream {
    /// Resets the device and waits until it is done: then it no longer uses its queues, whose
    /// memory is freed next (virtio 1.2, 2.4.2).
    fn drop(&mut self) {
        self.transport.set_status(DeviceStatus::empty());
        while !self.transport.get_status().is_empty() {
            spin_loop();
        }
    }
}
