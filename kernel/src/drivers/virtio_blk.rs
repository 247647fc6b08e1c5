//! Virtio disks: /dev/vda and so on.

use crate::arch::irq;
use crate::block::{self, BlockDevice, Piece};
use crate::errno::{Errno, Result};
use crate::mm::fault_inject::NoFail;
use crate::mm::frame;
use crate::mm::heap::{try_arc, try_box};
use crate::mm::virtio::Device;
use crate::mm::virtio_blk::{Disk, Done, ID, Operation, Part, Properties, Request};
use crate::sync::{Mutex, Once};
use crate::task::sched::cond_resched_killable;
use crate::task::wait_queue::WaitQueue;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// The maximum number of disks: as many as QEMU's machines have slots for.
const MOST: usize = 32;

static DISKS: [Once<Arc<VirtioBlk>>; MOST] = [const { Once::new() }; MOST];
static FOUND: AtomicUsize = AtomicUsize::new(0);

macro_rules! handlers {
    ($($index:literal)*) => { [$(interrupt::<$index>),*] };
}

/// The handlers of their interrupts.
const HANDLERS: [fn(); MOST] = handlers!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

/// A disk.
struct VirtioBlk {
    queue: Mutex<Queue>,
    /// Threads that found the queue full.
    room: WaitQueue,
    properties: Properties,
    serial: Once<Vec<u8>>,
}

struct Queue {
    disk: Box<Disk>,
    /// The batches of the requests in flight, by token.
    batches: Vec<Option<Arc<Batch>>>,
}

/// Requests that a thread waits for together.
struct Batch {
    /// The number of requests that are not done, plus one while more may be added.
    left: AtomicUsize,
    failed: AtomicBool,
    done: WaitQueue,
}

impl Batch {
    /// Called when one of the requests is done.
    fn end(&self, succeeded: bool) {
        if !succeeded {
            self.failed.store(true, Relaxed);
        }
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.done.wake_all();
        }
    }
}

/// Starts a disk with the interrupt `number`.
pub fn start(device: Device, number: u32) {
    let index = FOUND.load(Relaxed);
    if index == MOST {
        return crate::log!("virtio-blk: no more than {MOST} disks");
    }
    match new_disk(device) {
        Ok(disk) => {
            DISKS[index].call_once(|| disk.clone());
            FOUND.store(index + 1, Relaxed);
            irq::register(number, HANDLERS[index]);
            irq::enable(number);
            if let Err(error) = block::add_disk(index, disk) {
                crate::log!("virtio-blk: {error:?}");
            }
        }
        Err(reason) => crate::log!("virtio-blk: {reason}"),
    }
}

/// Reads the serial numbers of all disks. May sleep.
pub fn identify() {
    for disk in DISKS.iter().filter_map(Once::get) {
        let serial = disk.read_serial().unwrap_or_default();
        disk.serial.call_once(|| serial);
    }
}

fn new_disk(device: Device) -> core::result::Result<Arc<VirtioBlk>, &'static str> {
    let (disk, properties) = Disk::start(device).map_err(|_| "the device does not start")?;
    const SHORT: &str = "no memory";
    let disk = try_box(disk).map_err(|_| SHORT)?;
    let queue = Queue {
        disk,
        batches: Vec::new(),
    };
    try_arc(VirtioBlk {
        queue: Mutex::new(queue),
        room: WaitQueue::new(),
        properties,
        serial: Once::new(),
    })
    .map_err(|_| SHORT)
}

fn interrupt<const INDEX: usize>() {
    if let Some(disk) = DISKS[INDEX].get() {
        disk.queue.lock().disk.acknowledge();
        disk.complete();
    }
}

impl VirtioBlk {
    /// Ends the requests that the device has answered, each without the lock held.
    fn complete(&self) {
        while let Some((done, batch)) = self.take_done() {
            if let Some(batch) = batch {
                batch.end(done.succeeded);
            }
            drop(done.parts);
            self.room.wake_all();
        }
    }

    fn take_done(&self) -> Option<(Done, Option<Arc<Batch>>)> {
        let mut queue = self.queue.lock();
        let done = queue.disk.complete()?;
        let batch = queue.batches.get_mut(usize::from(done.token));
        Some((done, batch.and_then(Option::take)))
    }

    /// Submits a request of `batch` to the device. Waits for room in its queue.
    fn submit(&self, batch: &Arc<Batch>, request: Request) {
        batch.left.fetch_add(1, Relaxed);
        let mut request = Some(request);
        self.room.wait(|| {
            let Some(handed) = request.take() else {
                return true;
            };
            let mut queue = self.queue.lock();
            match queue.disk.submit(handed) {
                Ok(token) => queue.keep(token, batch.clone()),
                Err(back) => request = Some(back),
            }
            request.is_none()
        });
    }

    /// Submits requests for an extent, each of at most `most` sectors, one after another.
    fn run_extent(
        &self,
        operation: Operation,
        sectors: Range<u64>,
        most: u32,
        unmap: bool,
    ) -> Result<()> {
        if most == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut sector = sectors.start;
        while sector < sectors.end {
            let count = (sectors.end - sector).min(most.into()) as u32;
            let request = Request {
                sector,
                count,
                unmap,
                ..Request::new(operation)
            };
            self.run(|batch| Ok(self.submit(batch, request)))?;
            sector += u64::from(count);
            cond_resched_killable()?;
        }
        Ok(())
    }

    /// Runs `submit`, and waits for the requests that it submits.
    fn run(&self, submit: impl FnOnce(&Arc<Batch>) -> Result<()>) -> Result<()> {
        // This is from the kernel's reserve, since pages must be written even if memory is short.
        let reserved = NoFail::begin();
        let batch = Arc::new(Batch {
            left: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            done: WaitQueue::new(),
        });
        drop(reserved);
        let submitted = submit(&batch);
        batch.end(true);
        batch.done.wait(|| batch.left.load(Acquire) == 0);
        submitted?;
        match batch.failed.load(Relaxed) {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    fn read_serial(&self) -> Result<Vec<u8>> {
        let frame = frame::alloc_zeroed()?;
        let mut serial = alloc::vec![0; ID];
        let mut parts = Vec::new();
        parts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        parts.push(Part {
            frame: frame.clone(),
            offset: 0,
            len: ID,
        });
        let request = Request {
            parts,
            ..Request::new(Operation::Id)
        };
        self.run(|batch| Ok(self.submit(batch, request)))?;
        frame.read(0, &mut serial);
        let len = serial.iter().position(|&byte| byte == 0).unwrap_or(ID);
        serial.truncate(len);
        Ok(serial)
    }
}

impl Queue {
    /// Records the batch of the request with this token.
    fn keep(&mut self, token: u16, batch: Arc<Batch>) {
        let token = usize::from(token);
        if self.batches.len() <= token {
            self.batches.resize(token + 1, None);
        }
        self.batches[token] = Some(batch);
    }
}

impl BlockDevice for VirtioBlk {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn serial(&self) -> &[u8] {
        self.serial.get().map_or(&[], Vec::as_slice)
    }

    fn transfer(&self, write: bool, pieces: &[Piece]) -> Result<()> {
        let operation = match write {
            true => Operation::Write,
            false => Operation::Read,
        };
        self.run(|batch| {
            for run in pieces.chunk_by(|one, next| one.end() == next.sector) {
                for request in run.chunks(self.properties.parts) {
                    let mut parts = Vec::new();
                    let room = parts.try_reserve_exact(request.len());
                    room.map_err(|_| Errno::ENOMEM)?;
                    parts.extend(request.iter().map(|piece| piece.part.clone()));
                    let request = Request {
                        sector: request[0].sector,
                        parts,
                        ..Request::new(operation)
                    };
                    self.submit(batch, request);
                }
            }
            Ok(())
        })
    }

    fn flush(&self) -> Result<()> {
        if !self.properties.has_cache || self.properties.read_only {
            return Ok(());
        }
        self.run(|batch| Ok(self.submit(batch, Request::new(Operation::Flush))))
    }

    fn discard(&self, sectors: Range<u64>) -> Result<()> {
        let most = self.properties.most_discarded;
        self.run_extent(Operation::Discard, sectors, most, false)
    }

    fn write_zeroes(&self, sectors: Range<u64>, unmap: bool) -> Result<()> {
        let most = self.properties.most_zeroed;
        self.run_extent(Operation::WriteZeroes, sectors, most, unmap)
    }
}
