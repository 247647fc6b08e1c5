//! Virtio 9P transports (virtio's device 9): messages to a server and its replies. An exchange owns
//! its memory until the device has returned it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use virtio_drivers::transport::Transport;
use virtio_drivers::{Error, Result};
use zerocopy::FromZeros;

use super::ordered::Ordered;
use super::virtio::{self, Device};
use super::virtio_blk::Part;
use super::virtio_queue::{DESCRIPTORS, EVENT_IDX, RequestQueue};

/// The maximum number of parts of data in an exchange.
pub const MOST_PARTS: usize = 16;
/// The room for the head of a request, and for that of a reply.
pub const REQUEST: usize = 640;
pub const REPLY: usize = 256;

/// The feature that the device tells its tag (VIRTIO_9P_MOUNT_TAG).
const MOUNT_TAG: u64 = 1;
/// The length of the tag in the configuration space, which it follows.
const TAG_LEN: usize = 0;
const TAG: usize = 2;
/// The longest tag that is read.
const MOST_TAG: usize = 255;

/// The heads of a request and of its reply.
#[derive(FromZeros)]
struct Heads {
    request: [u8; REQUEST],
    reply: [u8; REPLY],
}

/// A request and the room for its reply. The device sees the heads first, then the data.
pub struct Exchange {
    heads: Box<Heads>,
    /// The length of the request's head.
    asks: usize,
    /// The room for the reply's head.
    room: usize,
    /// Data of the request.
    pub send: Vec<Part>,
    /// The place of data of the reply.
    pub receive: Vec<Part>,
}

impl Exchange {
    /// An empty one, with room for the head of a reply of at most `room` bytes.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(room: usize) -> core::result::Result<Self, crate::errno::Errno> {
        let _room = super::heap::check_room()?;
        let heads = Heads::new_box_zeroed().map_err(|_| crate::errno::Errno::ENOMEM)?;
        Ok(Exchange {
            heads,
            asks: 0,
            room: room.min(REPLY),
            send: Vec::new(),
            receive: Vec::new(),
        })
    }

    /// Writes the head of the request by `write`, which returns its length; false if that is none.
    pub fn ask(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let len = write(&mut self.heads.request);
        self.asks = len.map_or(0, |len| len.min(REQUEST));
        len.is_some()
    }

    /// The head of the reply, of which the device wrote `written` bytes in all.
    pub fn reply(&self, written: usize) -> &[u8] {
        &self.heads.reply[..written.min(self.room)]
    }
}

/// An exchange that the device has returned.
pub struct Done {
    /// The token that [`Queue::submit`] returned.
    pub token: u16,
    /// The exchange.
    pub exchange: Exchange,
    /// The number of bytes that the device says it wrote, no more than there is room for.
    pub written: usize,
}

/// A started device.
pub struct Queue(RequestQueue<Exchange>);

impl Queue {
    /// The maximum number of exchanges in flight, which is more than any token.
    pub const MOST: usize = DESCRIPTORS;

    /// Starts a device; returns its tag, too.
    ///
    /// # Errors
    /// The errors of its queue; `Unsupported` for a device without a tag.
    pub fn start(device: Device) -> Result<(Self, Vec<u8>)> {
        let mut transport = device.into_transport();
        let offered = virtio::negotiate(&mut transport, MOUNT_TAG | EVENT_IDX);
        if offered & MOUNT_TAG == 0 {
            return Err(Error::Unsupported);
        }
        let tag = read_tag(&transport)?;
        let queue = RequestQueue::start("virtio-9p", transport, offered)?;
        Ok((Queue(queue), tag))
    }

    /// Whether the device is not used any more.
    pub fn is_broken(&self) -> bool {
        self.0.is_broken()
    }

    /// Hands an exchange to the device. Returns its token, or the exchange if there is no room.
    ///
    /// # Panics
    /// If there are more parts than an exchange may have, or a part exceeds its frame.
    pub fn submit(&mut self, mut exchange: Exchange) -> core::result::Result<u16, Exchange> {
        let parts = exchange.send.len() + exchange.receive.len();
        assert!(parts <= MOST_PARTS, "too many parts");
        if !self.0.has_room(parts + 2) {
            return Err(exchange);
        }
        let mut buffers = Buffers::new(&mut exchange);
        let (reads, writes) = buffers.counts();
        // SAFETY: heads and frames belong to the exchange, which the queue keeps, and nothing
        // refers to them until it has been taken and finished. Programs that map a frame may see
        // it change.
        let added = unsafe {
            self.0
                .submit(&buffers.inputs[..reads], &mut buffers.outputs[..writes])
        };
        let Some(token) = added else {
            return Err(exchange);
        };
        self.0.keep(token, exchange);
        Ok(token)
    }

    /// Takes an exchange that the device has returned.
    pub fn complete(&mut self) -> Option<Done> {
        let (token, mut exchange) = self.0.take()?;
        let room = exchange.room + exchange.receive.iter().map(|part| part.len).sum::<usize>();
        let mut buffers = Buffers::new(&mut exchange);
        let (reads, writes) = buffers.counts();
        // SAFETY: the same buffers that were added under this token.
        let popped = unsafe {
            self.0.finish(
                token,
                &buffers.inputs[..reads],
                &mut buffers.outputs[..writes],
            )
        };
        exchange
            .receive
            .iter()
            .for_each(|part| part.frame.written());
        let written = popped.map_or(0, |written| written as usize).min(room);
        Some(Done {
            token,
            exchange,
            written,
        })
    }

    /// Acknowledges the device's interrupt.
    pub fn acknowledge(&mut self) {
        self.0.acknowledge();
    }
}

fn read_tag(transport: &Ordered) -> Result<Vec<u8>> {
    let len: u16 = transport.read_config_space(TAG_LEN)?;
    let place: Range<usize> = TAG..TAG + usize::from(len).min(MOST_TAG);
    place.map(|at| transport.read_config_space(at)).collect()
}

/// The buffers of an exchange, for the queue: those that the device reads, and those that it
/// writes.
struct Buffers<'a> {
    inputs: [&'a [u8]; MOST_PARTS + 1],
    outputs: [&'a mut [u8]; MOST_PARTS + 1],
    sent: usize,
    received: usize,
}

impl<'a> Buffers<'a> {
    fn new(exchange: &'a mut Exchange) -> Self {
        let mut buffers = Buffers {
            inputs: [&[]; MOST_PARTS + 1],
            outputs: core::array::from_fn(|_| &mut [][..]),
            sent: exchange.send.len(),
            received: exchange.receive.len(),
        };
        let Heads { request, reply } = &mut *exchange.heads;
        buffers.inputs[0] = &request[..exchange.asks];
        buffers.outputs[0] = &mut reply[..exchange.room];
        for (part, input) in exchange.send.iter().zip(&mut buffers.inputs[1..]) {
            let start = part.frame.range(part.offset, part.len);
            // SAFETY: `range` has checked that this is memory of the frame, which the exchange
            // holds. The slice is an address and a length for the queue, which does not read it.
            *input = unsafe { core::slice::from_raw_parts(start, part.len) };
        }
        for (part, output) in exchange.receive.iter().zip(&mut buffers.outputs[1..]) {
            let start = part.frame.range(part.offset, part.len);
            // SAFETY: as above; the queue does not write it either.
            *output = unsafe { core::slice::from_raw_parts_mut(start, part.len) };
        }
        buffers
    }

    /// How many there are of each.
    fn counts(&self) -> (usize, usize) {
        (self.sent + 1, self.received + 1)
    }
}
