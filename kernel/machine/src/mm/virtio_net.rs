//! Virtio network cards (virtio 1.2, 5.1): frames in buffers that the card owns while it has them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::spin_loop;

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, Transport};
use virtio_drivers::{Error, Result};
use zerocopy::FromZeros;

use super::dma::KernelHal;
use super::ordered::Ordered;
use super::virtio::{self, Device};
use crate::sync::Mutex;

/// The queues; cards may have more.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// The number of descriptors in a queue: limited by the stack, on which a queue is first built.
const DESCRIPTORS: usize = 64;
/// The size of a buffer in bytes.
const BUFFER: usize = 2048;
/// The size in bytes of the header before a frame (`struct virtio_net_hdr_v1`).
const HEADER: usize = 12;
/// The maximum size of a frame in bytes.
pub const MOST: usize = BUFFER - HEADER;

/// Features (VIRTIO_NET_F_): the card completes checksums; it reports the MTU; it has an address;
/// it reports whether the link is up.
const CSUM: u64 = 1 << 0;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;

/// Offsets in the configuration space.
const CONFIG_MAC: usize = 0;
const CONFIG_STATUS: usize = 6;
const CONFIG_MTU: usize = 10;
/// A status: the link is up.
const LINK_UP: u16 = 1;
/// A flag of the header: the checksum must be completed.
const NEEDS_CSUM: u8 = 1;

/// A frame in a buffer, with room for headers before it.
pub struct Frame {
    bytes: Box<[u8; BUFFER]>,
    start: usize,
    end: usize,
}

/// There is no memory for a frame, or it would be too long.
#[derive(Debug)]
pub struct NoRoom;

impl Frame {
    /// Creates an empty frame with room for `headroom` bytes before it.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn new(headroom: usize) -> core::result::Result<Self, NoRoom> {
        let start = HEADER + headroom;
        if start > BUFFER {
            return Err(NoRoom);
        }
        let bytes = <[u8; BUFFER]>::new_box_zeroed().map_err(|_| NoRoom)?;
        let end = start;
        Ok(Frame { bytes, start, end })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Its bytes, mutably.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Makes it `count` bytes longer; the new bytes are zero, or were cut off before.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn extend(&mut self, count: usize) -> core::result::Result<&mut [u8], NoRoom> {
        let end = self.end.checked_add(count).filter(|&end| end <= BUFFER);
        let start = core::mem::replace(&mut self.end, end.ok_or(NoRoom)?);
        Ok(&mut self.bytes[start..self.end])
    }

    /// Adds bytes at its end.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn push(&mut self, bytes: &[u8]) -> core::result::Result<(), NoRoom> {
        self.extend(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Adds bytes before it.
    ///
    /// # Errors
    /// [`NoRoom`]: there is less room than that.
    pub fn prepend(&mut self, bytes: &[u8]) -> core::result::Result<(), NoRoom> {
        let start = self.start.checked_sub(bytes.len());
        let start = start.filter(|&start| start >= HEADER).ok_or(NoRoom)?;
        self.bytes[start..self.start].copy_from_slice(bytes);
        self.start = start;
        Ok(())
    }

    /// Asks the card to complete the checksum of the bytes from `from` on, whose field is at `at`.
    /// Both count from the frame's end, so that headers can be added before it.
    fn ask_checksum(&mut self, asked: Option<Checksum>) {
        let mut header = [0; HEADER];
        if let Some(Checksum { from, field }) = asked
            && let Some(from) = self.bytes().len().checked_sub(from)
        {
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&(from as u16).to_le_bytes());
            header[8..10].copy_from_slice(&(field as u16).to_le_bytes());
        }
        self.bytes[self.start - HEADER..self.start].copy_from_slice(&header);
    }

    /// Completes a checksum that the card left partial, as some cards do without being asked.
    fn finish_checksum(&mut self) {
        let header = &self.bytes[self.start - HEADER..self.start];
        let half = |at| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (flags, from, field) = (header[0], half(6), half(8));
        let frame = self.bytes_mut();
        if flags & NEEDS_CSUM == 0 || from > frame.len() || field + 2 > frame.len() - from {
            return;
        }
        let (words, rest) = frame[from..].as_chunks::<2>();
        let last = rest.first().map_or(0, |&byte| u32::from(byte) << 8);
        let sum = words
            .iter()
            .fold(last, |sum, &word| sum + u32::from(u16::from_be_bytes(word)));
        let mut sum = sum;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        frame[from + field..][..2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// A checksum that the card must complete: its field contains that of the pseudo-header.
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    /// It covers this many bytes at the end of the frame.
    pub from: usize,
    /// The offset of its field in these bytes.
    pub field: usize,
}

/// What the card reports about itself.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Its address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// The maximum size of a packet after the Ethernet header, if the card reports it.
    pub mtu: Option<u16>,
    /// Whether it completes checksums.
    pub finishes_checksums: bool,
}

struct Receiver {
    queue: Box<VirtQueue<KernelHal, DESCRIPTORS>>,
    /// The buffers that the card has, indexed by token.
    given: Vec<Option<Box<[u8; BUFFER]>>>,
    /// The number of buffers that it should have but does not.
    lacks: usize,
    /// The card has violated the protocol; it is not used any more.
    broken: bool,
}

struct Sender {
    queue: Box<VirtQueue<KernelHal, DESCRIPTORS>>,
    given: Vec<Option<Frame>>,
    broken: bool,
}

/// A started card. The receiver and the sender each have a lock.
pub struct Card {
    transport: Mutex<Ordered>,
    receiver: Mutex<Receiver>,
    sender: Mutex<Sender>,
    has_status: bool,
}

impl Card {
    /// Starts a card.
    ///
    /// # Errors
    /// Those of its queues.
    pub fn start(device: Device) -> Result<(Self, Properties)> {
        let mut transport = device.into_transport();
        let offered = virtio::negotiate(&mut transport, CSUM | MTU | MAC | STATUS);
        let has = |feature| offered & feature != 0;
        let properties = Properties {
            mac: has(MAC).then(|| read_mac(&transport)).transpose()?,
            mtu: match has(MTU) {
                true => Some(transport.read_config_space(CONFIG_MTU)?),
                false => None,
            },
            finishes_checksums: has(CSUM),
        };
        // Until `finish_init`, after which nothing fails, the card does not access memory (virtio
        // 1.2, 3.1.2).
        let mut receiver = Receiver {
            queue: new_queue(&mut transport, RECEIVE)?,
            given: (0..DESCRIPTORS).map(|_| None).collect(),
            lacks: DESCRIPTORS,
            broken: false,
        };
        let mut sender = Sender {
            queue: new_queue(&mut transport, SEND)?,
            given: (0..DESCRIPTORS).map(|_| None).collect(),
            broken: false,
        };
        sender.queue.set_dev_notify(false);
        if receiver.refill() == 0 {
            return Err(Error::DmaError);
        }
        transport.finish_init();
        if receiver.queue.should_notify() {
            transport.notify(RECEIVE);
        }
        let card = Card {
            transport: Mutex::new(transport),
            receiver: Mutex::new(receiver),
            sender: Mutex::new(sender),
            has_status: has(STATUS),
        };
        Ok((card, properties))
    }

    /// Whether its link is up.
    pub fn is_link_up(&self) -> bool {
        let read = || {
            self.transport
                .lock()
                .read_config_space::<u16>(CONFIG_STATUS)
        };
        !self.has_status || read().is_ok_and(|status| status & LINK_UP != 0)
    }

    /// Acknowledges the card's interrupt.
    pub fn acknowledge(&self) {
        self.transport.lock().ack_interrupt();
    }

    /// Sets whether the card interrupts when frames arrive. True if there already is something to
    /// receive.
    pub fn set_receive_interrupt(&self, on: bool) -> bool {
        let mut receiver = self.receiver.lock();
        receiver.queue.set_dev_notify(on);
        // The card checks the flag after it has stored a frame; this sets the flag first and checks
        // for frames afterwards.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        !receiver.broken && receiver.queue.can_pop()
    }

    /// Takes a received frame; the card gets another buffer for it. [`NoRoom`] for a frame that is
    /// lost because there is no memory for the other buffer, or that is invalid: then the card gets
    /// its buffer back.
    pub fn receive(&self) -> Option<core::result::Result<Frame, NoRoom>> {
        let mut receiver = self.receiver.lock();
        let (frame, given) = (receiver.take(), receiver.refill());
        let notifies = (frame.is_some() || given > 0) && receiver.queue.should_notify();
        drop(receiver);
        if notifies {
            self.transport.lock().notify(RECEIVE);
        }
        frame
    }

    /// Sends a frame, whose checksum the card completes if asked to. Returns the frame if the queue
    /// is full.
    ///
    /// # Errors
    /// The frame.
    pub fn send(
        &self,
        mut frame: Frame,
        checksum: Option<Checksum>,
    ) -> core::result::Result<(), Frame> {
        frame.ask_checksum(checksum);
        let mut sender = self.sender.lock();
        sender.reclaim();
        sender.add(frame)?;
        let notifies = sender.queue.should_notify();
        drop(sender);
        if notifies {
            self.transport.lock().notify(SEND);
        }
        Ok(())
    }

    /// Sets whether the card interrupts when frames were sent, for those that wait for room in the
    /// queue. True if there already is room.
    pub fn set_send_interrupt(&self, on: bool) -> bool {
        let mut sender = self.sender.lock();
        sender.queue.set_dev_notify(on);
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        sender.reclaim();
        !sender.broken && sender.queue.available_desc() > 0
    }
}

impl Receiver {
    /// Gives the card the buffers that it lacks, as far as there is memory; returns their number.
    fn refill(&mut self) -> usize {
        let mut count = 0;
        while self.lacks > 0
            && !self.broken
            && let Ok(bytes) = <[u8; BUFFER]>::new_box_zeroed()
        {
            self.lacks -= 1;
            if !self.give(bytes) {
                break;
            }
            count += 1;
        }
        count
    }

    /// Gives the card a buffer; on failure it lacks one more.
    fn give(&mut self, mut bytes: Box<[u8; BUFFER]>) -> bool {
        // SAFETY: the buffer belongs to `given`, where nobody looks at it, until `pop_used` has
        // returned this token.
        let added = unsafe { self.queue.add(&[], &mut [&mut bytes[..]]) };
        match added {
            Ok(token) => self.given[usize::from(token)] = Some(bytes),
            Err(_) => self.lacks += 1,
        }
        added.is_ok()
    }

    /// Takes a received frame. Its buffer is only replaced, never removed: a card without buffers
    /// would never interrupt again.
    fn take(&mut self) -> Option<core::result::Result<Frame, NoRoom>> {
        if self.broken {
            return None;
        }
        let token = self.queue.peek_used()?;
        let place = self.given.get_mut(usize::from(token));
        let Some(mut bytes) = place.and_then(Option::take) else {
            self.broken = true;
            crate::log!("virtio-net: the card used a buffer that it did not have");
            return None;
        };
        // SAFETY: the buffer that was added under this token.
        let popped = unsafe { self.queue.pop_used(token, &[], &mut [&mut bytes[..]]) };
        // The length that the card reports is not trusted.
        let end = popped.map_or(0, |len| len as usize).min(BUFFER);
        let fresh = match end > HEADER {
            true => <[u8; BUFFER]>::new_box_zeroed().ok(),
            false => None,
        };
        let Some(fresh) = fresh else {
            self.give(bytes);
            return Some(Err(NoRoom));
        };
        self.give(fresh);
        let mut frame = Frame {
            bytes,
            start: HEADER,
            end,
        };
        frame.finish_checksum();
        Some(Ok(frame))
    }
}

impl Sender {
    fn add(&mut self, frame: Frame) -> core::result::Result<(), Frame> {
        if self.broken {
            // The frame is dropped, as on a link that is down.
            return Ok(());
        }
        let bytes = &frame.bytes[frame.start - HEADER..frame.end];
        // SAFETY: the frame belongs to `given`, where nobody writes it, until `pop_used` has
        // returned this token.
        let Ok(token) = (unsafe { self.queue.add(&[bytes], &mut []) }) else {
            return Err(frame);
        };
        self.given[usize::from(token)] = Some(frame);
        Ok(())
    }

    /// Frees the frames that the card has sent.
    fn reclaim(&mut self) {
        while !self.broken
            && let Some(token) = self.queue.peek_used()
        {
            let place = self.given.get_mut(usize::from(token));
            let Some(frame) = place.and_then(Option::take) else {
                self.broken = true;
                return crate::log!("virtio-net: the card sent what it did not have");
            };
            let bytes = &frame.bytes[frame.start - HEADER..frame.end];
            // SAFETY: the bytes that were added under this token.
            if unsafe { self.queue.pop_used(token, &[bytes], &mut []) }.is_err() {
                self.broken = true;
            }
        }
    }
}

impl Drop for Card {
    /// Resets the card and waits until it is done: then it no longer uses its queues and buffers,
    /// which are freed next (virtio 1.2, 2.4.2).
    fn drop(&mut self) {
        let mut transport = self.transport.lock();
        transport.set_status(DeviceStatus::empty());
        while !transport.get_status().is_empty() {
            spin_loop();
        }
    }
}

/// Creates a queue. Boxed and not inlined, since it takes more than the boot stack has for each
/// function that returns it.
#[inline(never)]
fn new_queue(
    transport: &mut Ordered,
    number: u16,
) -> Result<Box<VirtQueue<KernelHal, DESCRIPTORS>>> {
    Ok(Box::new(VirtQueue::new(transport, number, false, false)?))
}

fn read_mac(transport: &Ordered) -> Result<[u8; 6]> {
    let mut mac = [0; 6];
    for (at, byte) in mac.iter_mut().enumerate() {
        *byte = transport.read_config_space(CONFIG_MAC + at)?;
    }
    match mac[0] & 1 {
        0 if mac != [0; 6] => Ok(mac),
        _ => Err(Error::Unsupported),
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_card_leaves_a_checksum_open() {
        let mut frame = Frame::new(0).unwrap();
        frame.push(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0, 0]).unwrap();
        frame.ask_checksum(Some(Checksum { from: 8, field: 6 }));
        frame.finish_checksum();
        assert_eq!(frame.bytes()[6..], (!0xe6fau16).to_be_bytes());
        // Offsets beyond the frame.
        for (from, field) in [(9u16, 0u16), (8, 0), (0, 7), (0, u16::MAX), (u16::MAX, u16::MAX)] {
            let header = &mut frame.bytes[frame.start - HEADER..frame.start];
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&from.to_le_bytes());
            header[8..10].copy_from_slice(&field.to_le_bytes());
            frame.finish_checksum();
        }
    }

    fn a_frame_has_so_much_room() {
        let mut frame = Frame::new(20).unwrap();
        assert!(frame.prepend(&[1; 21]).is_err() && frame.prepend(&[1; 20]).is_ok());
        assert!(frame.prepend(&[1]).is_err());
        assert!(frame.extend(MOST - 20).is_ok() && frame.push(&[1]).is_err());
        assert!(frame.extend(usize::MAX).is_err());
        assert_eq!(frame.bytes().len(), MOST);
        assert!(Frame::new(MOST + 1).is_err());
    }
}
