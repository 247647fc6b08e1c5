//! TCP, UDP and ICMP over IPv4 and IPv6.
//!
//! Between sockets of this machine, TCP and UDP have no packets: nothing is lost, reordered or
//! resent. The parts of the protocols that programs see remain: names, ports, connections, their
//! ends and their errors. Only raw and ping sockets have packets here; `outside` handles packets
//! from other machines.

mod bind;
pub mod connections;
mod coverage;
mod errors;
mod header;
mod icmp;
mod mailbox;
pub mod memory_limits;
mod options;
pub mod outside;
mod packet;
pub mod ping;
mod port_set;
pub mod ports;
pub mod raw;
pub mod tcp;
pub mod tcp_memory;
mod udp;
pub mod udp_memory;

pub use header::{Header, Over};

use super::ether::addresses::{self, Own};
use super::ether::routing;
use super::socket::{Base, Socket};
use super::{DATAGRAM, RAW, STREAM};
use crate::errno::{Errno, Result};
use crate::task::can;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use linux_raw_sys::general::CAP_NET_RAW;
use linux_raw_sys::net::{
    AF_INET, AF_INET6, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE,
    SO_BROADCAST,
};

/// Creates a socket.
pub fn new(domain: u32, kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    const TCP: u32 = IPPROTO_TCP as u32;
    const UDP: u32 = IPPROTO_UDP as u32;
    const ICMP: u32 = IPPROTO_ICMP as u32;
    const ICMP_V6: u32 = IPPROTO_ICMPV6;
    const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
    if protocol as usize >= raw::PROTOCOLS {
        return Err(Errno::EINVAL);
    }
    match (kind, protocol) {
        (STREAM, 0 | TCP) => Ok(tcp::Tcp::new(domain)?),
        (DATAGRAM, 0 | UDP) => Ok(udp::Udp::new(domain, UDP, &ports::UDP)?),
        (DATAGRAM, UDP_LITE) => Ok(udp::Udp::new(domain, UDP_LITE, &ports::UDP_LITE)?),
        (DATAGRAM, ICMP) if domain == AF_INET => ping::new(domain, protocol),
        (DATAGRAM, ICMP_V6) if domain == AF_INET6 => ping::new(domain, protocol),
        // TCP has no packets that could be seen or sent.
        (RAW, 0 | TCP) => Err(Errno::EPROTONOSUPPORT),
        (RAW, _) if !can(CAP_NET_RAW) => Err(Errno::EPERM),
        (RAW, _) => Ok(raw::Raw::new(domain, protocol)?),
        (STREAM | DATAGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// The size of UDP's header.
pub const UDP_HEAD: usize = 8;

/// Whether a family is one of IP.
pub fn is_family(domain: u32) -> bool {
    matches!(domain, AF_INET | AF_INET6)
}

/// Whether a protocol is UDP or UDP-Lite.
pub fn is_udp(protocol: u32) -> bool {
    const UDP: u32 = IPPROTO_UDP as u32;
    const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
    matches!(protocol, UDP | UDP_LITE)
}

/// Whether this machine has the address.
pub fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || addresses::own(ip) == Some(Own::Host)
}

/// Whether `ip` is the broadcast address of a network, that of `lo` or of a card.
pub fn is_broadcast(ip: IpAddr) -> bool {
    match ip.is_loopback() {
        true => ip == Ipv4Addr::new(127, 255, 255, 255),
        false => addresses::own(ip) == Some(Own::Broadcast),
    }
}

/// Whether packets to an address leave the machine.
fn leaves(ip: IpAddr) -> bool {
    !is_local(ip)
}

/// EINVAL for packets that would leave the machine with a source address that is only valid here.
fn check_leaving(from: IpAddr, to: IpAddr) -> Result<()> {
    match from.is_loopback() && leaves(to) {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// ENETUNREACH for a packet that would leave the machine from a socket that is bound to `lo`.
fn check_device(base: &Base, to: IpAddr) -> Result<()> {
    match base.options.stays_inside() && leaves(to) {
        true => Err(Errno::ENETUNREACH),
        false => Ok(()),
    }
}

/// Whether a socket receives packets from an address: one that is bound to `lo` only receives from
/// this machine.
fn hears(base: &Base, from: IpAddr) -> bool {
    !base.options.stays_inside() || !leaves(from)
}

/// The address of this machine that is used if a program gave "any".
fn reached(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// The source address of packets whose sender is bound to `own`; `chosen` is the one that fits
/// their destination.
fn sender(own: IpAddr, chosen: IpAddr) -> IpAddr {
    let foreign = own.is_ipv4() != chosen.is_ipv4();
    if own.is_unspecified() || is_broadcast(own) || foreign {
        chosen
    } else {
        own
    }
}

/// EACCES for a broadcast address and a socket without SO_BROADCAST.
fn check_broadcast(base: &Base, to: IpAddr) -> Result<()> {
    if is_broadcast(to) && !base.options.is_on(SO_BROADCAST) {
        return Err(Errno::EACCES);
    }
    Ok(())
}

/// The source address of a packet to `to`. ENETUNREACH if there is no interface for it, and the
/// other errors of [`routing::find`].
fn source(to: IpAddr) -> Result<IpAddr> {
    match to {
        IpAddr::V4(ip) if ip.is_loopback() => Ok(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_loopback() => Ok(Ipv6Addr::LOCALHOST.into()),
        _ if !leaves(to) => Ok(to),
        _ => Ok(routing::find(to, None)?.source),
    }
}
