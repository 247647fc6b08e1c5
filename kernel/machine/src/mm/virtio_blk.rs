//! Virtio block devices (virtio 1.2, 5.2): requests whose data are parts of frames. A request owns
//! its frames until the device has answered it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use virtio_drivers::transport::Transport;
use virtio_drivers::{Error, Result};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::PAGE_SIZE;
use super::frame::FrameRef;
use super::ordered::Ordered;
use super::virtio::{self, Device};
use super::virtio_queue::{DESCRIPTORS, EVENT_IDX, RequestQueue};

/// The number of descriptors of a request without data: its header, its extent, and its status.
const FRAMING: usize = 3;
/// The maximum number of requests in flight.
const REQUESTS: usize = DESCRIPTORS / FRAMING;
/// The maximum number of parts in a request.
const MOST_PARTS: usize = 16;

/// The unit of sizes and addresses on the device, in bytes.
pub const SECTOR: usize = 512;
/// The length of the answer to [`Operation::Id`].
pub const ID: usize = 20;

/// Features (VIRTIO_BLK_F_): the device reports how many parts a request may have; it is read-only;
/// it reports its block size; it has a cache that must be flushed; it reports its physical block
/// size; it can discard and zero sectors.
const SEG_MAX: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const TOPOLOGY: u64 = 1 << 10;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;

/// Offsets in the configuration space.
const CAPACITY: usize = 0;
const CONFIG_SEG_MAX: usize = 12;
const CONFIG_BLK_SIZE: usize = 20;
const PHYSICAL_EXPONENT: usize = 24;
const MOST_DISCARDED: usize = 36;
const MOST_ZEROED: usize = 48;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read sectors.
    Read = 0,
    /// Write sectors.
    Write = 1,
    /// Write all earlier data to the medium.
    Flush = 4,
    /// Get the device's serial number, of at most [`ID`] bytes.
    Id = 8,
    /// Discard sectors: afterwards their content is undefined.
    Discard = 11,
    /// Fill sectors with zeroes.
    WriteZeroes = 13,
}

impl Operation {
    /// Whether it has an extent instead of data.
    fn has_extent(self) -> bool {
        matches!(self, Operation::Discard | Operation::WriteZeroes)
    }
}

/// A request to the device.
pub struct Request {
    /// The kind of request.
    pub operation: Operation,
    /// The first sector.
    pub sector: u64,
    /// The data.
    pub parts: Vec<Part>,
    /// For [`Operation::Discard`] and [`Operation::WriteZeroes`]: the number of sectors.
    pub count: u32,
    /// For [`Operation::WriteZeroes`]: the device may release the sectors' space on the medium.
    pub unmap: bool,
}

/// Part of a frame.
#[derive(Clone)]
pub struct Part {
    /// The frame.
    pub frame: FrameRef,
    /// The first byte of the part.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}

impl Request {
    /// A request without data, for sector 0.
    pub fn new(operation: Operation) -> Self {
        Request {
            operation,
            sector: 0,
            parts: Vec::new(),
            count: 0,
            unmap: false,
        }
    }
}

/// What the device reports about itself.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Its size in sectors of [`SECTOR`] bytes.
    pub sectors: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether written data must be flushed.
    pub has_cache: bool,
    /// The size of a logical block in bytes.
    pub block_size: usize,
    /// The size of a physical block in bytes.
    pub physical_block_size: usize,
    /// The maximum number of parts in a request.
    pub parts: usize,
    /// The maximum number of sectors that a request may discard, a multiple of blocks; 0 if not
    /// supported.
    pub most_discarded: u32,
    /// The maximum number of sectors that a request may zero, a multiple of blocks; 0 if not
    /// supported.
    pub most_zeroed: u32,
}

/// A completed request: its token, whether it succeeded, and its data.
pub struct Done {
    /// The token that [`Disk::submit`] returned.
    pub token: u16,
    /// Whether the device executed it successfully.
    pub succeeded: bool,
    /// The parts of the request.
    pub parts: Vec<Part>,
}

/// The header of a request, which the device reads.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    operation: u32,
    reserved: u32,
    sector: u64,
}

/// The sectors that a request applies to (virtio_blk_discard_write_zeroes).
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct Extent {
    sector: u64,
    count: u32,
    /// 1: the device may unmap them.
    flags: u32,
}

/// The data of a request that it shares with the device besides its parts.
#[derive(FromZeros)]
struct Framing {
    header: Header,
    extent: Extent,
    status: u8,
}

struct InFlight {
    operation: Operation,
    parts: Vec<Part>,
    /// The index of its framing.
    place: u8,
}

/// A started device. The queue is dropped first, which stops the device.
pub struct Disk {
    queue: RequestQueue<InFlight>,
    framings: Box<[Framing; REQUESTS]>,
    /// The indices of framings that no request uses.
    free: Vec<u8>,
}

impl Disk {
    /// Starts a device.
    ///
    /// # Errors
    /// The errors of its queue; `Unsupported` for a device whose blocks are larger than pages.
    pub fn start(device: Device) -> Result<(Self, Properties)> {
        let mut transport = device.into_transport();
        let wanted = SEG_MAX | READ_ONLY | BLK_SIZE | FLUSH | TOPOLOGY | DISCARD | WRITE_ZEROES;
        let offered = virtio::negotiate(&mut transport, wanted | EVENT_IDX);
        let properties = properties(&transport, offered)?;
        let disk = Disk {
            framings: <[Framing; REQUESTS]>::new_box_zeroed().map_err(|_| Error::DmaError)?,
            free: (0..REQUESTS as u8).collect(),
            queue: RequestQueue::start("virtio-blk", transport, offered)?,
        };
        Ok((disk, properties))
    }

    /// Submits a request to the device. Returns its token, or the request if the queue is full.
    ///
    /// # Panics
    /// If there are more parts than a request may have, or a part exceeds its frame.
    pub fn submit(&mut self, request: Request) -> core::result::Result<u16, Request> {
        assert!(request.parts.len() <= MOST_PARTS, "too many parts");
        if !self.queue.has_room(request.parts.len() + FRAMING) {
            return Err(request);
        }
        let Some(place) = self.free.pop() else {
            return Err(request);
        };
        let operation = request.operation;
        let framing = &mut self.framings[usize::from(place)];
        framing.header = Header {
            operation: operation as u32,
            reserved: 0,
            sector: request.sector,
        };
        framing.extent = Extent {
            sector: request.sector,
            count: request.count,
            flags: request.unmap.into(),
        };
        // If the device does not write a status, the request has failed.
        framing.status = u8::MAX;
        let mut buffers = Buffers::new(operation, framing, &request.parts);
        let (reads, writes) = (buffers.reads, buffers.writes);
        // SAFETY: the framing is this request's, and the frames belong to what the queue keeps;
        // nothing refers to them until it has been taken and finished. Programs that map a frame
        // may see it change, as they may write it meanwhile.
        let added = unsafe {
            self.queue
                .submit(&buffers.inputs[..reads], &mut buffers.outputs[..writes])
        };
        let Some(token) = added else {
            self.free.push(place);
            return Err(request);
        };
        let parts = request.parts;
        let kept = InFlight {
            operation,
            parts,
            place,
        };
        self.queue.keep(token, kept);
        Ok(token)
    }

    /// Takes a request that the device has completed.
    pub fn complete(&mut self) -> Option<Done> {
        let (token, request) = self.queue.take()?;
        let framing = &mut self.framings[usize::from(request.place)];
        let (operation, parts) = (request.operation, request.parts);
        let mut buffers = Buffers::new(operation, framing, &parts);
        let (inputs, outputs) = (&buffers.inputs[..buffers.reads], &mut buffers.outputs);
        // SAFETY: the same buffers that were added under this token.
        let popped = unsafe {
            self.queue
                .finish(token, inputs, &mut outputs[..buffers.writes])
        };
        self.free.push(request.place);
        if operation == Operation::Read {
            parts.iter().for_each(|part| part.frame.written());
        }
        Some(Done {
            token,
            succeeded: popped.is_ok() && framing.status == 0,
            parts,
        })
    }

    /// Acknowledges the device's interrupt.
    pub fn acknowledge(&mut self) {
        self.queue.acknowledge();
    }
}

fn properties(transport: &Ordered, features: u64) -> Result<Properties> {
    let has = |feature| features & feature != 0;
    let sectors = transport.read_consistent(|| {
        let low: u32 = transport.read_config_space(CAPACITY)?;
        let high: u32 = transport.read_config_space(CAPACITY + 4)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    })?;
    // The size must also be countable in bytes.
    let sectors = sectors.min(i64::MAX as u64 / SECTOR as u64);
    let mut block_size = SECTOR;
    if has(BLK_SIZE) {
        block_size = transport.read_config_space::<u32>(CONFIG_BLK_SIZE)? as usize;
    }
    if !block_size.is_power_of_two() || !(SECTOR..=PAGE_SIZE).contains(&block_size) {
        return Err(Error::Unsupported);
    }
    let mut physical_block_size = block_size;
    if has(TOPOLOGY) {
        let exponent: u8 = transport.read_config_space(PHYSICAL_EXPONENT)?;
        physical_block_size = block_size << exponent.min(16);
    }
    // A device that does not report how many parts it accepts accepts one.
    let mut parts = 1;
    if has(SEG_MAX) {
        parts = transport.read_config_space::<u32>(CONFIG_SEG_MAX)? as usize;
    }
    let blocks = (block_size / SECTOR) as u32;
    let most = |feature, place| -> Result<u32> {
        if !has(feature) {
            return Ok(0);
        }
        let most: u32 = transport.read_config_space(place)?;
        Ok(most.max(blocks) / blocks * blocks)
    };
    Ok(Properties {
        sectors,
        read_only: has(READ_ONLY),
        has_cache: has(FLUSH),
        block_size,
        physical_block_size,
        parts: parts.clamp(1, MOST_PARTS),
        most_discarded: most(DISCARD, MOST_DISCARDED)?,
        most_zeroed: most(WRITE_ZEROES, MOST_ZEROED)?,
    })
}

/// The buffers of a request, for the queue: those that the device reads, and those that it writes.
struct Buffers<'a> {
    inputs: [&'a [u8]; MOST_PARTS + 2],
    outputs: [&'a mut [u8]; MOST_PARTS + 1],
    reads: usize,
    writes: usize,
}

impl<'a> Buffers<'a> {
    fn new(operation: Operation, framing: &'a mut Framing, parts: &'a [Part]) -> Self {
        let mut buffers = Buffers {
            inputs: [&[]; MOST_PARTS + 2],
            outputs: core::array::from_fn(|_| &mut [][..]),
            reads: 1,
            writes: 0,
        };
        buffers.inputs[0] = framing.header.as_bytes();
        if operation.has_extent() {
            buffers.inputs[1] = framing.extent.as_bytes();
            buffers.reads = 2;
        }
        for part in parts {
            let start = part.frame.range(part.offset, part.len);
            if operation == Operation::Write {
                // SAFETY: `range` has checked that this is memory of the frame, which the caller
                // holds. The slice is an address and a length for the queue, which does not read
                // it.
                let input = unsafe { core::slice::from_raw_parts(start, part.len) };
                buffers.inputs[buffers.reads] = input;
                buffers.reads += 1;
            } else {
                // SAFETY: as above; the queue does not write it either.
                let output = unsafe { core::slice::from_raw_parts_mut(start, part.len) };
                buffers.outputs[buffers.writes] = output;
                buffers.writes += 1;
            }
        }
        buffers.outputs[buffers.writes] = core::slice::from_mut(&mut framing.status);
        buffers.writes += 1;
        buffers
    }
}
