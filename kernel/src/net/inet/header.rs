//! The fields of a datagram's header, which programs can set and receive as control messages.

use super::errors::Report;
use super::options::{IP, IPV6, Options, UDP};
use super::{is_broadcast, is_local};
use crate::errno::{Errno, Result};
use crate::net::address::{Address, Name};
use crate::net::control_message::Control;
use crate::net::ether::interface::by_index;
use crate::net::interface::INDEX;
use crate::net::socket::Socket;
use crate::net::timestamping;
use crate::task::{can, require};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use linux_raw_sys::general::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_raw_sys::net::{
    AF_INET, AF_INET6, SO_MARK, SO_TIMESTAMPING_NEW, SO_TIMESTAMPING_OLD, SOL_SOCKET,
};
use zerocopy::{FromBytes, IntoBytes};

/// Names of options that request a field, and of the control messages that carry it
/// (`include/uapi/linux/{in,in6,udp}.h`).
const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IP_RETOPTS: u32 = 7;
const IP_PKTINFO: u32 = 8;
const IP_RECVTTL: u32 = 12;
const IP_RECVTOS: u32 = 13;
const IP_ORIGDSTADDR: u32 = 20;
const IP_PROTOCOL: u32 = 52;
const IPV6_2292PKTINFO: u32 = 2;
const IPV6_2292HOPOPTS: u32 = 3;
const IPV6_2292DSTOPTS: u32 = 4;
const IPV6_2292HOPLIMIT: u32 = 8;
const IPV6_FLOWINFO: u32 = 11;
const IPV6_UNICAST_HOPS: u32 = 16;
const IPV6_RECVPKTINFO: u32 = 49;
const IPV6_PKTINFO: u32 = 50;
const IPV6_RECVHOPLIMIT: u32 = 51;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_HOPOPTS: u32 = 54;
const IPV6_RTHDRDSTOPTS: u32 = 55;
const IPV6_DSTOPTS: u32 = 59;
const IPV6_DONTFRAG: u32 = 62;
const IPV6_RECVTCLASS: u32 = 66;
const IPV6_TCLASS: u32 = 67;
const IPV6_ORIGDSTADDR: u32 = 74;
const UDP_SEGMENT: u32 = 103;
const UDP_GRO: u32 = 104;

const _: () = assert!(abi::options::IP_CONTROL.is_handled_by(&[
    IP_TOS as u64,
    IP_TTL as u64,
    IP_RETOPTS as u64,
    IP_PKTINFO as u64,
    IP_PROTOCOL as u64,
]));

const _: () = assert!(abi::options::IPV6_CONTROL.is_handled_by(&[
    IPV6_2292PKTINFO as u64,
    IPV6_2292HOPOPTS as u64,
    IPV6_2292DSTOPTS as u64,
    IPV6_2292HOPLIMIT as u64,
    IPV6_FLOWINFO as u64,
    IPV6_HOPOPTS as u64,
    IPV6_RTHDRDSTOPTS as u64,
    IPV6_DSTOPTS as u64,
    IPV6_PKTINFO as u64,
    IPV6_HOPLIMIT as u64,
    IPV6_DONTFRAG as u64,
    IPV6_TCLASS as u64,
]));

/// The default hop limit.
const HOPS: i32 = 64;

/// The fields.
#[derive(Clone, Copy, Default)]
pub struct Header {
    hops: Option<i32>,
    class: Option<i32>,
    to: Option<SocketAddr>,
    /// The requested source address.
    pub from: Option<IpAddr>,
    /// The size of a segment, if the data is several datagrams (UDP_SEGMENT).
    pub segment: Option<u16>,
    /// The sender's mark (SO_MARK).
    pub mark: Option<u32>,
    /// The number of bytes that UDP-Lite's checksum covers, if not all (UDPLITE_SEND_CSCOV).
    pub covered: Option<u16>,
    /// Whether it must not be fragmented (IPV6_DONTFRAG), if that was set.
    pub whole: Option<bool>,
    /// Whether the datagram has no checksum (UDP_NO_CHECK6_TX).
    pub unsummed: bool,
    /// The send timestamps that were requested for this datagram (SO_TIMESTAMPING).
    pub stamps: Option<u32>,
    /// The report, if this is not a packet but a report about one.
    pub report: Option<Report>,
    /// The index of the interface by which it arrived, if that is not `lo`.
    interface: Option<u32>,
}

/// The protocol that carries a datagram, which determines the fields of its header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// IPv4.
    V4,
    /// IPv4 from an IPv6 socket, with mapped addresses.
    Mapped,
    /// IPv6.
    V6,
}

impl Over {
    /// The protocol by which `socket` sends to `to`, or to its peer.
    pub fn of(socket: &dyn Socket, to: Option<&Address>) -> Self {
        if socket.base().domain != AF_INET6 {
            return Over::V4;
        }
        let to = match to.filter(|to| !to.is_unspecified()) {
            Some(to) if to.family() == AF_INET => return Over::Mapped,
            Some(to) => to.inet(AF_INET6).ok(),
            None => match socket.destination() {
                Name::Inet(to) => Some(to),
                _ => None,
            },
        };
        match to {
            Some(SocketAddr::V4(_)) => Over::Mapped,
            _ => Over::V6,
        }
    }
}

/// Whether the options of a packet are only padding: IPOPT_NOOP, and everything after IPOPT_END.
fn is_without_option(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut used = options.iter().skip_while(|&&option| option == NO_OPERATION);
    used.next().is_none_or(|&option| option == END)
}

fn number(data: &[u8], least: i32, most: i32) -> Result<i32> {
    let value = i32::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Errno::EINVAL)
    }
}

/// Checks an IPv6 options header, whose second byte is the number of 8-byte groups after the first:
/// it can be ignored if it contains only padding.
///
/// # Errors
/// EINVAL; EPERM: such headers require privileges.
fn check_padding(data: &[u8]) -> Result<()> {
    let [_, groups, ..] = *data else {
        return Err(Errno::EINVAL);
    };
    let options = data
        .get(2..8 * (usize::from(groups) + 1))
        .ok_or(Errno::EINVAL)?;
    require(CAP_NET_RAW)?;
    match options.iter().all(|&option| option == 0) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// The address and the interface's index of a `struct in6_pktinfo`.
fn packet_info(data: &[u8]) -> Result<(Ipv6Addr, u32)> {
    let (info, _) = <[[u8; 4]; 5]>::read_from_prefix(data).map_err(|_| Errno::EINVAL)?;
    let [ip @ .., index] = info;
    let ip: [u8; 16] = zerocopy::transmute!(ip);
    Ok((ip.into(), u32::from_ne_bytes(index)))
}

/// ENODEV for an interface that does not exist; 0 means any.
fn check_interface(index: u32) -> Result<()> {
    match index {
        0 | INDEX => Ok(()),
        index if by_index(index).is_some() => Ok(()),
        _ => Err(Errno::ENODEV),
    }
}

impl Header {
    /// The header of a packet that arrived.
    pub fn new(hops: u8, class: u8, to: SocketAddr) -> Self {
        Header {
            hops: Some(hops.into()),
            class: Some(class.into()),
            to: Some(to),
            ..Header::default()
        }
    }

    /// Sets the interface by which the packet arrived.
    pub fn came_through(self, interface: u32) -> Self {
        Header {
            interface: Some(interface),
            ..self
        }
    }

    fn index(&self) -> [u8; 4] {
        self.interface.unwrap_or(INDEX).to_ne_bytes()
    }

    /// The header of a report about a datagram.
    pub fn of_report(report: Report) -> Self {
        Header {
            report: Some(report),
            ..Header::default()
        }
    }

    /// The destination.
    pub fn to(&self) -> Option<SocketAddr> {
        self.to
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.hops.unwrap_or(HOPS) as u8
    }

    /// The traffic class.
    pub fn class(&self) -> u8 {
        self.class.unwrap_or(0) as u8
    }

    /// The header for a single datagram.
    pub fn alone(self) -> Self {
        Header {
            segment: None,
            ..self
        }
    }

    /// Sets a field from a control message; -1 means the default of the options. EINVAL for unknown
    /// fields and values.
    pub fn set(&mut self, level: u32, kind: u32, data: &[u8], over: Over) -> Result<()> {
        match (level, kind) {
            (IPV6, IPV6_PKTINFO) if over == Over::Mapped => {
                let (ip, index) = packet_info(data)?;
                let ip = ip.to_ipv4_mapped().ok_or(Errno::EINVAL)?;
                self.set_source(ip.into())?;
                check_interface(index)?;
            }
            (IP, _) if over == Over::V6 => {}
            (IPV6, _) if over != Over::V6 => {}
            // Selects a route for packets with a header of their own (IP_HDRINCL); there is only
            // one.
            (IP, IP_PROTOCOL) => _ = number(data, 1, 255)?,
            (IP, IP_RETOPTS) if is_without_option(data) => {}
            (IP, IP_TTL) => self.hops = Some(number(data, 1, 255)?),
            (IPV6, IPV6_HOPLIMIT | IPV6_2292HOPLIMIT) => self.hops = field(number(data, -1, 255)?),
            (IP, IP_TOS) => {
                self.class = Some(match data {
                    &[class] => class.into(),
                    _ => number(data, 0, 255)?,
                });
            }
            (IPV6, IPV6_TCLASS) => self.class = field(number(data, -1, 255)?),
            (IP, IP_PKTINFO) => {
                let info = <[[u8; 4]; 3]>::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
                self.set_source(Ipv4Addr::from(info[1]).into())?;
                check_interface(u32::from_ne_bytes(info[0]))?;
            }
            (IPV6, IPV6_PKTINFO | IPV6_2292PKTINFO) => {
                let (ip, index) = packet_info(data)?;
                check_interface(index)?;
                self.set_source(ip.into())?;
            }
            (IPV6, IPV6_DONTFRAG) => self.whole = Some(number(data, 0, 1)? == 1),
            (
                IPV6,
                IPV6_HOPOPTS | IPV6_2292HOPOPTS | IPV6_DSTOPTS | IPV6_2292DSTOPTS
                | IPV6_RTHDRDSTOPTS,
            ) => check_padding(data)?,
            // The flow label is not visible to anyone.
            (IPV6, IPV6_FLOWINFO) if data.len() >= size_of::<u32>() => {}
            (UDP, UDP_SEGMENT) => {
                let bytes = u16::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
                self.segment = Some(bytes);
            }
            (SOL_SOCKET, SO_MARK) => {
                let mark = u32::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
                if !can(CAP_NET_RAW) && !can(CAP_NET_ADMIN) {
                    return Err(Errno::EPERM);
                }
                self.mark = Some(mark);
            }
            (SOL_SOCKET, SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW) => {
                self.stamps = Some(timestamping::for_one(data)?);
            }
            (IP | IPV6 | UDP | SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
        Ok(())
    }

    fn set_source(&mut self, ip: IpAddr) -> Result<()> {
        if ip.is_unspecified() {
            return Ok(());
        }
        self.from = Some(ip);
        match ip {
            ip if is_broadcast(ip) => Err(Errno::ENETUNREACH),
            ip if is_local(ip) => Ok(()),
            IpAddr::V4(ip) if !ip.is_multicast() && !ip.is_broadcast() && ip.octets()[0] != 0 => {
                Err(Errno::ENETUNREACH)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets the remaining fields from the sender's options.
    pub fn complete(&mut self, options: &Options, to: SocketAddr) {
        let [hops, class] = if to.is_ipv4() {
            [(IP, IP_TTL), (IP, IP_TOS)]
        } else {
            [(IPV6, IPV6_UNICAST_HOPS), (IPV6, IPV6_TCLASS)]
        };
        let value = |(level, name)| options.value(level, name);
        let allowed = || Some(value(hops)).filter(|&hops| hops >= 0).unwrap_or(HOPS);
        self.hops.get_or_insert_with(allowed);
        self.class.get_or_insert_with(|| value(class));
        self.to = Some(to);
        let segment = || options.value(UDP, UDP_SEGMENT) as u16;
        self.segment = Some(self.segment.unwrap_or_else(segment)).filter(|&bytes| bytes > 0);
    }

    /// Sets the destination.
    pub fn set_to(&mut self, to: SocketAddr) {
        self.to = Some(to);
    }

    /// Sets the source and the destination.
    pub fn set_ends(&mut self, from: IpAddr, to: SocketAddr) {
        (self.from, self.to) = (Some(from), Some(to));
    }

    /// Whether a socket accepts several datagrams at once.
    pub fn takes_many(options: &Options) -> bool {
        options.is_on(UDP, UDP_GRO)
    }

    /// Reports the fields that the program's options request.
    pub fn put(&self, options: &Options, control: &mut Control) -> Result<()> {
        match self.to {
            Some(SocketAddr::V4(_)) => self.put_v4(options, control)?,
            Some(SocketAddr::V6(_)) => self.put_v6(options, control)?,
            None => {}
        }
        if let Some(report) = self.report {
            return report.put(control);
        }
        match self.segment {
            Some(bytes) if Self::takes_many(options) => {
                control.put(UDP, UDP_GRO, i32::from(bytes).as_bytes())
            }
            _ => Ok(()),
        }
    }

    fn put_v4(&self, options: &Options, control: &mut Control) -> Result<()> {
        let Some(SocketAddr::V4(to)) = self.to else {
            return Ok(());
        };
        if options.is_on(IPV6, IPV6_RECVPKTINFO) {
            // An IPv6 socket sees the address as a mapped one.
            let mut info = [0; 20];
            info[..16].copy_from_slice(&to.ip().to_ipv6_mapped().octets());
            info[16..].copy_from_slice(&self.index());
            control.put(IPV6, IPV6_PKTINFO, &info)?;
        }
        if options.is_on(IP, IP_PKTINFO) {
            let mut info = [0; 12];
            info[..4].copy_from_slice(&self.index());
            let own = match self.from {
                Some(IpAddr::V4(from)) if self.report.is_some() => from,
                _ if is_broadcast((*to.ip()).into()) => Ipv4Addr::LOCALHOST,
                _ => *to.ip(),
            };
            info[4..8].copy_from_slice(&own.octets());
            info[8..].copy_from_slice(&to.ip().octets());
            control.put(IP, IP_PKTINFO, &info)?;
        }
        if options.is_on(IP, IP_RECVTTL) {
            control.put(IP, IP_TTL, self.hops.unwrap_or(HOPS).as_bytes())?;
        }
        if options.is_on(IP, IP_RECVTOS) {
            control.put(IP, IP_TOS, &[self.class.unwrap_or(0) as u8])?;
        }
        if options.is_on(IP, IP_ORIGDSTADDR) {
            let address = Address::of(&Name::Inet(to.into()), AF_INET);
            control.put(IP, IP_ORIGDSTADDR, address.bytes())?;
        }
        Ok(())
    }

    fn put_v6(&self, options: &Options, control: &mut Control) -> Result<()> {
        let Some(SocketAddr::V6(to)) = self.to else {
            return Ok(());
        };
        let mut info = [0; 20];
        info[..16].copy_from_slice(&to.ip().octets());
        info[16..].copy_from_slice(&self.index());
        let hops = self.hops.unwrap_or(HOPS);
        if options.is_on(IPV6, IPV6_RECVPKTINFO) {
            control.put(IPV6, IPV6_PKTINFO, &info)?;
        }
        if options.is_on(IPV6, IPV6_RECVHOPLIMIT) {
            control.put(IPV6, IPV6_HOPLIMIT, hops.as_bytes())?;
        }
        if options.is_on(IPV6, IPV6_RECVTCLASS) {
            let class = self.class.unwrap_or(0);
            control.put(IPV6, IPV6_TCLASS, class.as_bytes())?;
        }
        // The same fields by their older names (RFC 2292).
        if options.is_on(IPV6, IPV6_2292PKTINFO) {
            control.put(IPV6, IPV6_2292PKTINFO, &info)?;
        }
        if options.is_on(IPV6, IPV6_2292HOPLIMIT) {
            control.put(IPV6, IPV6_2292HOPLIMIT, hops.as_bytes())?;
        }
        if options.is_on(IPV6, IPV6_ORIGDSTADDR) {
            let address = Address::of(&Name::Inet(to.into()), AF_INET6);
            control.put(IPV6, IPV6_ORIGDSTADDR, address.bytes())?;
        }
        Ok(())
    }
}

/// A field for which -1 means the default of the options.
fn field(value: i32) -> Option<i32> {
    (value >= 0).then_some(value)
}
