//! IP packets. Connections and datagrams between sockets of this machine have none: a packet exists
//! if a raw socket sends or receives it, and for each ICMP message.

use super::Header;
use super::{icmp, leaves, raw, udp};
use crate::errno::{Errno, Result};
use crate::net::ether::{self, Carried};
use crate::net::mib::{self, Event};
use crate::net::packet::taps;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Protocols whose packets are not only received by raw sockets.
pub const ICMP: u8 = 1;
pub const UDP: u8 = 17;
pub const ICMP_V6: u8 = 58;
/// The sizes of IPv4's header without options, and of IPv6's.
pub const HEAD_V4: usize = 20;
pub const HEAD_V6: usize = 40;
/// The maximum size of an IPv4 packet, and of an IPv6 payload.
pub const MOST: usize = 65535;
/// IPv4's "don't fragment" flag (DF).
const WHOLE: u16 = 0x4000;

/// Identification numbers of packets that could be fragmented.
static NUMBER: AtomicU16 = AtomicU16::new(0);

/// The addresses of a packet, and its protocol.
#[derive(Clone, Copy)]
pub struct Route {
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's address.
    pub to: IpAddr,
    /// The protocol of its payload.
    pub protocol: u8,
}

/// A packet.
pub struct Packet {
    /// The source and the destination.
    pub route: Route,
    /// The rest of its header, as it is reported in control messages.
    pub header: Header,
    bytes: Vec<u8>,
    /// The end of its header.
    start: usize,
}

fn reserved(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
    Ok(bytes)
}

impl Packet {
    /// Creates a packet from the pieces of its payload. With `whole`, it must never be fragmented.
    /// EMSGSIZE, ENOBUFS.
    pub fn new(route: Route, header: Header, pieces: &[&[u8]], whole: bool) -> Result<Self> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let start = match route.to {
            IpAddr::V4(_) => HEAD_V4,
            IpAddr::V6(_) => HEAD_V6,
        };
        let counted = if route.to.is_ipv4() { start + len } else { len };
        if counted > MOST {
            return Err(Errno::EMSGSIZE);
        }
        let mut bytes = reserved(start + len)?;
        let (class, hops) = (header.class(), header.hop_limit());
        match (route.from, route.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let number = if whole {
                    0
                } else {
                    NUMBER.fetch_add(1, Relaxed)
                };
                let mut head = [0; HEAD_V4];
                head[..2].copy_from_slice(&[0x45, class]);
                head[2..4].copy_from_slice(&(counted as u16).to_be_bytes());
                head[4..6].copy_from_slice(&number.to_be_bytes());
                head[6..8].copy_from_slice(&(if whole { WHOLE } else { 0 }).to_be_bytes());
                head[8..10].copy_from_slice(&[hops, route.protocol]);
                head[12..16].copy_from_slice(&from.octets());
                head[16..].copy_from_slice(&to.octets());
                let sum = fold(add(0, &head));
                head[10..12].copy_from_slice(&sum.to_be_bytes());
                bytes.extend_from_slice(&head);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut head = [0; HEAD_V6];
                head[..2].copy_from_slice(&[0x60 | class >> 4, class << 4]);
                head[4..6].copy_from_slice(&(counted as u16).to_be_bytes());
                head[6..8].copy_from_slice(&[route.protocol, hops]);
                head[8..24].copy_from_slice(&from.octets());
                head[24..].copy_from_slice(&to.octets());
                bytes.extend_from_slice(&head);
            }
            _ => return Err(Errno::ENETUNREACH),
        }
        pieces
            .iter()
            .for_each(|piece| bytes.extend_from_slice(piece));
        Ok(Packet {
            route,
            header,
            bytes,
            start,
        })
    }

    /// A packet whose header a program wrote (IP_HDRINCL); in an IPv4 header the kernel fills in
    /// the length, the checksum and a missing source. EINVAL if the header is invalid.
    pub fn written(mut bytes: Vec<u8>, sender: IpAddr) -> Result<Self> {
        let least = if sender.is_ipv4() { HEAD_V4 } else { HEAD_V6 };
        if bytes.len() < least {
            return Err(Errno::EINVAL);
        }
        let start = match sender {
            IpAddr::V4(sender) => complete(&mut bytes, sender)?,
            IpAddr::V6(_) => HEAD_V6,
        };
        let head = &bytes[..start];
        let (route, class, hops) = if sender.is_ipv4() {
            let route = Route {
                from: ip_v4(&head[12..16]),
                to: ip_v4(&head[16..20]),
                protocol: head[9],
            };
            (route, head[1], head[8])
        } else {
            let route = Route {
                from: ip_v6(&head[8..24]),
                to: ip_v6(&head[24..]),
                protocol: head[6],
            };
            (route, head[0] << 4 | head[1] >> 4, head[7])
        };
        Ok(Packet {
            route,
            header: Header::new(hops, class, SocketAddr::new(route.to, 0)),
            bytes,
            start,
        })
    }

    /// A packet that arrived through an interface.
    ///
    /// # Errors
    /// ENOBUFS.
    pub fn came(interface: u32, packet: &ip::input::Packet) -> Result<Self> {
        let whole = packet.bytes.as_slice();
        let (from, to) = (packet.source, packet.destination);
        let mut bytes = reserved(whole.len())?;
        bytes.extend_from_slice(whole);
        let header = Header::new(packet.hops, packet.class, SocketAddr::new(to, 0));
        Ok(Packet {
            route: Route {
                from,
                to,
                protocol: packet.protocol,
            },
            header: header.came_through(interface),
            bytes,
            start: packet.at,
        })
    }

    /// Sends the packet to this machine, or to another; with `from_any`, its sender may use any
    /// address.
    ///
    /// # Errors
    /// The errors of the route; EMSGSIZE.
    pub fn go(self, from_any: bool) -> Result<()> {
        if !leaves(self.route.to) {
            self.arrive();
            return Ok(());
        }
        let Route { from, to, protocol } = self.route;
        let way = match from_any {
            true => ether::routing::find_for_any(to, Some(from)),
            false => ether::routing::find(to, Some(from)),
        }?;
        if self.bytes.len() <= way.mtu as usize {
            return ether::send_made(&way, to, &self.bytes);
        }
        let carried = Carried {
            from,
            to,
            protocol,
            hops: self.header.hop_limit(),
            class: self.header.class(),
            whole: false,
        };
        ether::send(&way, &carried, &[self.body()])
    }

    /// Its payload.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The whole packet, including its header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part that a raw socket receives: with the header over IPv4, without it over IPv6.
    pub fn seen(&self) -> &[u8] {
        match self.route.to {
            IpAddr::V4(_) => self.bytes(),
            IpAddr::V6(_) => self.body(),
        }
    }

    /// The checksum of its payload, which is 0 if the checksum field is correct; for IPv6, and for
    /// UDP, it includes addresses and length.
    pub fn sum(&self) -> u16 {
        let alone = self.route.to.is_ipv4() && self.route.protocol == ICMP;
        let start = if alone {
            0
        } else {
            pseudo(&self.route, self.body().len())
        };
        fold(add(start, self.body()))
    }

    /// Passes the packet to all raw sockets that accept it, and to its protocol.
    pub fn arrive(self) {
        let v6 = self.route.to.is_ipv6();
        mib::packet(v6, self.bytes.len());
        if taps::is_used() {
            taps::looped(&self.bytes);
        }
        let taken = raw::deliver(&self);
        match (self.route.protocol, self.route.to) {
            (ICMP, IpAddr::V4(_)) | (ICMP_V6, IpAddr::V6(_)) => icmp::receive(&self),
            (UDP, _) => udp::receive(&self),
            _ if !taken => {
                mib::add(Event::Unknown, v6, 1);
                icmp::refuse(&self, icmp::Why::Protocol);
            }
            _ => {}
        }
    }
}

fn ip_v4(bytes: &[u8]) -> IpAddr {
    <[u8; 4]>::try_from(bytes)
        .map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
        .into()
}

fn ip_v6(bytes: &[u8]) -> IpAddr {
    <[u8; 16]>::try_from(bytes)
        .map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from)
        .into()
}

/// Fills in the fields of an IPv4 header that the kernel sets, and returns the header's end.
fn complete(bytes: &mut [u8], sender: Ipv4Addr) -> Result<usize> {
    let start = usize::from(bytes[0] & 0xf) * 4;
    if !(HEAD_V4..=bytes.len()).contains(&start) {
        return Err(Errno::EINVAL);
    }
    let len = u16::try_from(bytes.len()).map_err(|_| Errno::EMSGSIZE)?;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    if bytes[12..16] == [0; 4] {
        bytes[12..16].copy_from_slice(&sender.octets());
    }
    if bytes[4..6] == [0; 2] {
        bytes[4..6].copy_from_slice(&NUMBER.fetch_add(1, Relaxed).to_be_bytes());
    }
    bytes[10..12].fill(0);
    let sum = fold(add(0, &bytes[..start]));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(start)
}

/// Adds bytes to a sum, as 16-bit words in network byte order.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |&byte| u64::from(byte) << 8);
    words.iter().fold(sum + last, |sum, &word| {
        sum + u64::from(u16::from_be_bytes(word))
    })
}

/// The checksum of a sum.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The sum of the pseudo-header: addresses, protocol and length.
pub fn pseudo(route: &Route, len: usize) -> u64 {
    let address = |sum, ip: IpAddr| match ip {
        IpAddr::V4(ip) => add(sum, &ip.octets()),
        IpAddr::V6(ip) => add(sum, &ip.octets()),
    };
    let addresses = address(address(0, route.from), route.to);
    addresses + u64::from(route.protocol) + len as u64
}
