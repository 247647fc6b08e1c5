//! A virtio queue of outgoing bytes: the sender does not wait for the device, and the queue owns
//! the buffers in flight. It may be dropped only after a reset of the device.

use alloc::boxed::Box;
use alloc::vec::Vec;

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::{Error, Result};
use zerocopy::FromZeros;

use super::dma::KernelHal;

/// The number of buffers in a queue.
const BUFFERS: usize = 32;
/// The size of a buffer in bytes.
const BUFFER: usize = 4096;

/// Data that the device may be reading.
struct Sending {
    buffer: Box<[u8; BUFFER]>,
    len: usize,
}

/// A queue and its buffers: the free ones, and those that the device has, indexed by their tokens.
pub struct SendQueue {
    queue: VirtQueue<KernelHal, BUFFERS>,
    number: u16,
    free: Vec<Box<[u8; BUFFER]>>,
    sending: [Option<Sending>; BUFFERS],
}

impl SendQueue {
    /// Creates queue `number` of a device, without interrupts. Boxed and not inlined, since it
    /// takes more than a kilobyte, which the boot stack does not have for each function that
    /// returns it.
    #[inline(never)]
    pub fn new(transport: &mut impl Transport, number: u16) -> Result<Box<Self>> {
        let mut queue = VirtQueue::new(transport, number, false, false)?;
        queue.set_dev_notify(false);
        // Allocated directly in the heap: `Box::new` may build its value on the stack first.
        let buffer = |_| <[u8; BUFFER]>::new_box_zeroed().map_err(|_| Error::DmaError);
        Ok(Box::new(SendQueue {
            queue,
            number,
            free: (0..BUFFERS).map(buffer).collect::<Result<_>>()?,
            sending: [const { None }; BUFFERS],
        }))
    }

    /// Sends bytes. Waits for the device only if all buffers are in flight.
    pub fn send(&mut self, transport: &mut impl Transport, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(BUFFER) {
            let mut buffer = loop {
                self.reclaim()?;
                match self.free.pop() {
                    Some(buffer) => break buffer,
                    None => core::hint::spin_loop(),
                }
            };
            buffer[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: the buffer stays in `sending`, where nobody writes it, until the device has
            // returned its token.
            let token = unsafe { self.queue.add(&[&buffer[..chunk.len()]], &mut []) }?;
            let len = chunk.len();
            self.sending[usize::from(token)] = Some(Sending { buffer, len });
            if self.queue.should_notify() {
                transport.notify(self.number);
            }
        }
        Ok(())
    }

    /// Waits until the device has consumed all data.
    pub fn flush(&mut self) -> Result<()> {
        while self.free.len() < BUFFERS {
            self.reclaim()?;
            core::hint::spin_loop();
        }
        Ok(())
    }

    /// Takes back the buffers that the device has used.
    fn reclaim(&mut self) -> Result<()> {
        while let Some(token) = self.queue.peek_used() {
            let sent = self.sending.get_mut(usize::from(token));
            let Some(Sending { buffer, len }) = sent.and_then(Option::take) else {
                return Err(Error::WrongToken);
            };
            // SAFETY: these are the bytes that were added under this token.
            unsafe { self.queue.pop_used(token, &[&buffer[..len]], &mut []) }?;
            self.free.push(buffer);
        }
        Ok(())
    }
}
