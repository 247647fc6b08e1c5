//! The queue of a virtio device whose requests own their memory until the device has returned them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{Ordering, fence};

use virtio_drivers::Result;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, Transport};

use super::dma::KernelHal;
use super::ordered::Ordered;

/// The number of descriptors in the queue: limited by the stack, on which a queue is first built.
pub const DESCRIPTORS: usize = 64;
/// VIRTIO_F_EVENT_IDX: both sides choose from which request on they are notified of requests and
/// answers.
pub const EVENT_IDX: u64 = 1 << 29;
/// The first queue of a device.
const QUEUE: u16 = 0;

/// The first queue of a started device, and its requests in flight.
pub struct RequestQueue<R> {
    name: &'static str,
    transport: Ordered,
    queue: Box<VirtQueue<KernelHal, DESCRIPTORS>>,
    /// Indexed by token.
    in_flight: Vec<Option<R>>,
    /// The device has returned what nobody sent; it is not used any more.
    broken: bool,
}

impl<R> RequestQueue<R> {
    /// The queue of a device that has been offered these features; it is started by it. `name`
    /// is for the log.
    ///
    /// # Errors
    /// Those of the queue.
    pub fn start(name: &'static str, mut transport: Ordered, features: u64) -> Result<Self> {
        let queue = new_queue(&mut transport, features & EVENT_IDX != 0)?;
        transport.finish_init();
        Ok(RequestQueue {
            name,
            transport,
            queue,
            in_flight: (0..DESCRIPTORS).map(|_| None).collect(),
            broken: false,
        })
    }

    /// Whether the device is not used any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether there is room for a request of so many parts.
    pub fn has_room(&self, parts: usize) -> bool {
        !self.broken && self.queue.available_desc() >= parts
    }

    /// Hands a request to the device: it reads `inputs`, then it writes `outputs`. Returns the
    /// token, or `None` if there is no room. [`RequestQueue::keep`] must follow.
    ///
    /// # Safety
    /// Nothing refers to this memory, and it lives, until [`RequestQueue::take`] has returned the
    /// token and [`RequestQueue::finish`] has been called.
    pub unsafe fn submit<'a>(
        &mut self,
        inputs: &'a [&'a [u8]],
        outputs: &'a mut [&'a mut [u8]],
    ) -> Option<u16> {
        // SAFETY: as the caller says.
        unsafe { self.queue.add(inputs, outputs) }.ok()
    }

    /// Keeps the request with this token, which owns the memory, and tells the device of it.
    pub fn keep(&mut self, token: u16, request: R) {
        self.in_flight[usize::from(token)] = Some(request);
        if self.queue.should_notify() {
            self.transport.notify(QUEUE);
        }
    }

    /// Takes a request that the device has returned, and its token. [`RequestQueue::finish`] must
    /// follow.
    pub fn take(&mut self) -> Option<(u16, R)> {
        if self.broken {
            return None;
        }
        let token = self.queue.peek_used().or_else(|| {
            // Since the last check, the device may have read that it need not interrupt yet.
            fence(Ordering::SeqCst);
            self.queue.peek_used()
        })?;
        let place = self.in_flight.get_mut(usize::from(token));
        let Some(request) = place.and_then(Option::take) else {
            self.broken = true;
            crate::log!("{}: the device answered what nobody asked", self.name);
            return None;
        };
        Some((token, request))
    }

    /// Ends the request that was taken last; returns how many bytes the device says it wrote.
    ///
    /// # Safety
    /// The buffers are those that were submitted under this token.
    pub unsafe fn finish<'a>(
        &mut self,
        token: u16,
        inputs: &'a [&'a [u8]],
        outputs: &'a mut [&'a mut [u8]],
    ) -> Result<u32> {
        // SAFETY: as the caller says.
        unsafe { self.queue.pop_used(token, inputs, outputs) }
    }

    /// Acknowledges the device's interrupt.
    pub fn acknowledge(&mut self) {
        self.transport.ack_interrupt();
    }
}

impl<R> Drop for RequestQueue<R> {
    /// Resets the device and waits until it is done: then it no longer uses its queue and the
    /// memory of its requests, which is freed next (virtio 1.2, 2.4.2).
    fn drop(&mut self) {
        self.transport.set_status(DeviceStatus::empty());
        while !self.transport.get_status().is_empty() {
            spin_loop();
        }
    }
}

/// Creates the queue. Boxed and not inlined, since it takes more than the boot stack has for each
/// function that returns it.
#[inline(never)]
fn new_queue(
    transport: &mut Ordered,
    event_idx: bool,
) -> Result<Box<VirtQueue<KernelHal, DESCRIPTORS>>> {
    let queue = VirtQueue::new(transport, QUEUE, false, event_idx)?;
    Ok(Box::new(queue))
}
