//! Packet sockets (AF_PACKET): they see the frames of interfaces, and send such frames.
//!
//! On `lo` they see what has packets there: datagrams and ICMP, which are packets as long as a
//! packet socket is open, but not the connections of this machine. What they send to `lo`, other
//! packet sockets see; no protocol receives it.

mod device;
mod memberships;
mod options;
pub mod taps;

use device::Device;
use memberships::Memberships;

use super::address::{Address, Name};
use super::channel::{Channel, Found, Kind};
use super::control_message::{Ancillary, Control};
use super::socket::{Base, Outgoing, Received, Socket, copied};
use super::stream::{self, ReadMode};
use super::wait::Wait;
use super::{DATAGRAM, RAW};
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::require;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::*};
use ip::ethernet::{self, HEADER, Mac};
use linux_raw_sys::general::CAP_NET_RAW;
use linux_raw_sys::net::{AF_PACKET, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_PEEK, MSG_TRUNC};

/// Any protocol (ETH_P_ALL), and those of frames whose type is a length.
const ALL: u16 = 3;
const ETH_P_802_3: u16 = 1;
const ETH_P_802_2: u16 = 4;
/// The least type of a frame; smaller ones are lengths (`ETH_P_802_3_MIN`).
const LEAST_TYPE: u16 = 0x600;
/// The type of a VLAN's frames (ETH_P_8021Q), and the size of its tag.
const VLAN: u16 = 0x8100;
const VLAN_TAG: usize = 4;
/// `sizeof(struct sockaddr_ll)`, and the offset of the link-layer address there.
const ADDRESS: usize = 20;
const ADDRESS_HEAD: usize = 12;

/// `struct sockaddr_ll` after its family, and what else is known about a received frame.
#[derive(Clone, Copy)]
pub struct Link {
    /// The protocol.
    pub protocol: u16,
    /// The interface.
    pub index: u32,
    /// Its hardware (ARPHRD_).
    pub hardware: u16,
    /// The packet's type (PACKET_HOST and so on).
    pub kind: u8,
    /// The link-layer address, if it has one.
    pub mac: Option<Mac>,
    /// The size of a received frame, of which a filter may have left less.
    pub len: Option<u32>,
    /// Whether the card is to complete its checksum.
    pub has_open_checksum: bool,
}

impl Link {
    /// The address after its family. A received frame's is whole, that of a socket ends with the
    /// link-layer address.
    pub fn address(&self) -> ([u8; ADDRESS - 2], usize) {
        let mut rest = [0; ADDRESS - 2];
        rest[..2].copy_from_slice(&self.protocol.to_be_bytes());
        rest[2..6].copy_from_slice(&self.index.to_ne_bytes());
        rest[6..8].copy_from_slice(&self.hardware.to_ne_bytes());
        rest[8] = self.kind;
        if let Some(mac) = self.mac {
            rest[9] = mac.0.len() as u8;
            rest[10..16].copy_from_slice(&mac.0);
        }
        let end = ADDRESS_HEAD - 2 + usize::from(rest[9]);
        (rest, self.len.map_or(end, |_| rest.len()))
    }
}

/// The interface and the protocol that a socket listens to; 0 for any interface, or no protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    index: u32,
    protocol: u16,
}

impl Key {
    /// The key of all sockets that listen to its interface alone.
    fn of_interface(self) -> Key {
        Key {
            protocol: 0,
            ..self
        }
    }
}

/// A packet socket.
pub struct Packet {
    base: Base,
    inbox: Arc<Channel>,
    bound: Mutex<Key>,
    members: Mutex<Memberships>,
    options: options::Options,
    /// The number of received frames, and of those dropped for lack of room, since
    /// PACKET_STATISTICS was read.
    received: AtomicU32,
    dropped: AtomicU32,
}

/// Creates a packet socket. As on Linux, `protocol` is in network byte order.
///
/// # Errors
/// EPERM, ESOCKTNOSUPPORT, ENOMEM.
pub fn new(kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    require(CAP_NET_RAW)?;
    if !matches!(kind, RAW | DATAGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    let base = Base::new(AF_PACKET, kind, 0)?;
    let room = WaitSource::new()?;
    let limit = base.options.receive_buffer();
    let inbox = Channel::new(&base.reader, Kind::Records, limit, &base.readable, &room)?;
    let socket = try_arc(Packet {
        base,
        inbox,
        bound: Mutex::new(Key {
            index: 0,
            protocol: 0,
        }),
        members: Mutex::new(Memberships::new()),
        options: options::Options::default(),
        received: AtomicU32::new(0),
        dropped: AtomicU32::new(0),
    })?;
    socket.listen_to(Key {
        index: 0,
        protocol: u16::from_be(protocol as u16),
    })?;
    Ok(socket)
}

impl Packet {
    /// Listens to an interface and a protocol, and to nothing else. If the interface is down, the
    /// socket gets ENETDOWN, and receives once it is up.
    fn listen_to(self: &Arc<Self>, key: Key) -> Result<()> {
        let mut bound = self.bound.lock();
        if *bound == key {
            return Ok(());
        }
        taps::leave(*bound, self.base.number);
        let entered = taps::enter(key, self);
        *bound = match entered {
            Ok(()) => key,
            Err(_) => Key { protocol: 0, ..key },
        };
        drop(bound);
        let is_down = Device::by_index(key.index).is_some_and(|device| !device.is_up());
        if key.protocol != 0 && is_down {
            self.inbox.fail(Errno::ENETDOWN);
        }
        entered
    }

    /// Receives a frame with its header. Drops it if there is no room.
    fn take(&self, seen: &taps::Seen) {
        if self.options.ignores_outgoing() && seen.link.kind == taps::OUTGOING {
            return;
        }
        let bytes = match self.base.kind {
            DATAGRAM => seen.bytes.get(HEADER..).unwrap_or_default(),
            _ => seen.bytes,
        };
        let filter = self.base.reader.filter.lock().clone();
        let kept = match &filter {
            Some(filter) => filter.kept_of_frame(bytes, &seen.link),
            None => bytes.len(),
        };
        if filter.is_some() && kept == 0 {
            return;
        }
        let mut link = seen.link;
        link.len = Some(bytes.len() as u32);
        let data = &mut Source::kernel(&bytes[..kept.min(bytes.len())]);
        let ancillary = Ancillary::default();
        let name = Name::Link(link);
        let put = self
            .inbox
            .write_record(data, ancillary, name, usize::MAX, &Wait::NEVER);
        match put {
            Ok(_) => self.received.fetch_add(1, Relaxed),
            Err(_) => {
                self.inbox.count_drop();
                self.dropped.fetch_add(1, Relaxed)
            }
        };
    }

    /// The interface and the protocol of a message without an address, or with one.
    fn target(&self, address: Option<&Address>) -> Result<(Device, u16, Option<Mac>)> {
        let Some(address) = address else {
            let key = *self.bound.lock();
            let device = Device::by_index(key.index).ok_or(Errno::ENXIO)?;
            return Ok((device, key.protocol, None));
        };
        let (key, mac) = parse(address)?;
        let device = Device::by_index(key.index).ok_or(Errno::ENXIO)?;
        Ok((device, key.protocol, Some(mac)))
    }
}

/// The interface, the protocol and the link-layer address of a `struct sockaddr_ll`.
fn parse(address: &Address) -> Result<(Key, Mac)> {
    let rest = address.rest();
    let Some((rest, _)) = rest.split_first_chunk::<{ ADDRESS - 2 }>() else {
        return Err(Errno::EINVAL);
    };
    if address.len() < ADDRESS_HEAD + usize::from(rest[9]) {
        return Err(Errno::EINVAL);
    }
    let [.., u, v, w, x, y, z, _, _] = *rest;
    Ok((key_of(rest), Mac([u, v, w, x, y, z])))
}

/// The interface and the protocol of a `struct sockaddr_ll` after its family, which is whole.
fn key_of(rest: &[u8]) -> Key {
    Key {
        index: u32::from_ne_bytes([rest[2], rest[3], rest[4], rest[5]]),
        protocol: u16::from_be_bytes([rest[0], rest[1]]),
    }
}

/// The protocol of a frame, by its header.
fn protocol_of(frame: &[u8]) -> u16 {
    match ethernet::Frame::parse(frame) {
        Ok(frame) if frame.kind >= LEAST_TYPE => frame.kind,
        _ => ETH_P_802_2,
    }
}

impl Socket for Packet {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        if address.len() < ADDRESS || address.family() != AF_PACKET {
            return Err(Errno::EINVAL);
        }
        let mut key = key_of(address.rest());
        if key.protocol == 0 {
            // As on Linux, it stays the same.
            key.protocol = self.bound.lock().protocol;
        }
        if key.index != 0 && Device::by_index(key.index).is_none() {
            return Err(Errno::ENODEV);
        }
        self.listen_to(key)
    }

    fn name(&self) -> Name {
        let key = *self.bound.lock();
        let device = Device::by_index(key.index);
        Name::Link(Link {
            protocol: key.protocol,
            index: key.index,
            hardware: device.as_ref().map_or(0, Device::hardware),
            kind: 0,
            mac: device.map(|device| device.mac()),
            len: None,
            has_open_checksum: false,
        })
    }

    fn peer(&self) -> Result<Name> {
        Err(Errno::EOPNOTSUPP)
    }

    fn send(self: Arc<Self>, message: Outgoing, _wait: &Wait) -> Result<usize> {
        let (device, protocol, to) = self.target(message.to.as_ref())?;
        if !device.is_up() {
            return Err(Errno::ENETDOWN);
        }
        let len = message.data.left();
        let head = if self.base.kind == RAW { 0 } else { HEADER };
        if len + head > device.mtu() as usize + HEADER + VLAN_TAG {
            return Err(Errno::EMSGSIZE);
        }
        let header = (head > 0)
            .then(|| device.header(to, protocol, len).ok_or(Errno::EINVAL))
            .transpose()?;
        let bytes = copied(message.data, len)?;
        if head == 0 && len < HEADER {
            return Err(Errno::EINVAL);
        }
        let kind = header.map_or_else(|| protocol_of(&bytes), |_| protocol);
        if len + head > device.mtu() as usize + HEADER && kind != VLAN {
            return Err(Errno::EMSGSIZE);
        }
        let pieces: [&[u8]; 2] = [header.as_ref().map_or(&[], |header| &header[..]), &bytes];
        device.send(pieces, self.base.number)?;
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        const TAKEN: u32 = MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC | MSG_ERRQUEUE;
        if flags & !TAKEN != 0 {
            return Err(Errno::EINVAL);
        }
        if flags & MSG_ERRQUEUE != 0 {
            return Err(Errno::EAGAIN);
        }
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        stream::receive(&self.inbox, to, flags, ReadMode::RECORDS, || false, wait)
    }

    fn put_header(&self, found: &Found, control: &mut Control) -> Result<()> {
        match &found.from {
            Name::Link(link) if self.options.reports_frames() => {
                options::put_auxiliary(control, link, found.whole, self.base.kind == RAW)
            }
            _ => Ok(()),
        }
    }

    fn shutdown(&self, _read: bool, _write: bool) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.base.readable);
        }
        let mut events = Events::ROOM;
        events.set(Events::IN, self.inbox.has_data());
        events.set(Events::ERROR, self.inbox.has_error());
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.first_len()?, 0))
    }

    fn held(&self) -> usize {
        self.inbox.held() + self.members.lock().held()
    }

    fn drops(&self) -> u32 {
        self.inbox.drops()
    }

    fn take_error(&self) -> Option<Errno> {
        self.inbox.take_error()
    }

    fn options_changed(&self) {
        self.inbox.set_limit(self.base.options.receive_buffer());
        let stamping = &self.base.options.stamping;
        self.inbox.set_wants_times(stamping.wants_arrival());
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        self.get_option(level, name)
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        self.change_option(level, name, value)
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        taps::leave(*self.bound.get_mut(), self.base.number);
        self.members.get_mut().leave_all();
    }
}
