//! The layers between a card and the sockets: Ethernet, ARP, IPv4 and IPv6 with their fragments,
//! ICMP, neighbour discovery, UDP's header, routes and path MTUs.
//!
//! Values in, decisions out: there is no clock, device, lock or socket here. Times are ns of any
//! monotonic clock. Everything that a stranger can make grow is bounded by a constant:
//! [`fragments::MOST_BYTES`], [`fragments::MOST_PIECES`], [`neighbours::MOST`],
//! [`neighbours::MOST_WAITING`], [`paths::MOST`].
//!
//! # Use
//!
//! | event | call |
//! | --- | --- |
//! | a frame arrives | [`ethernet::Frame::parse`], then by its kind |
//! | … of ARP | [`arp::Packet::parse`], [`neighbours::Neighbours::learn`] |
//! | … of IP | [`input::Input::receive`], which reassembles fragments |
//! | … of ICMPv6 about neighbours | [`ndp::Message::parse`] |
//! | a packet is to be sent | [`routes::Routes::find`], [`neighbours::Neighbours::resolve`] |
//! | … and is longer than the path's MTU | [`v4::fragments`], [`v6::fragments`] |
//! | a packet finds no socket | [`icmp::error`], by [`icmp::may_report`] and [`icmp::Limiter`] |
//! | ICMP says that a packet was too big | [`icmp::Report::parse`], [`paths::Paths::learn`] |
//!
//! The formats are this crate's own: those of smoltcp need its sockets, and parse more of a packet
//! than is needed here.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod fragments;
pub mod icmp;
pub mod input;
pub mod ndp;
pub mod neighbours;
pub mod paths;
pub mod routes;
pub mod udp;
pub mod v4;
pub mod v6;

pub use ethernet::Mac;

/// One second in ns.
pub const SECOND: u64 = 1_000_000_000;

/// Protocols (`IPPROTO_`).
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMP_V6: u8 = 58;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

/// The bytes are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// The 16 bits at `at`, in network order. The bytes must exist.
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 bits at `at`.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) << 16 | u32::from(half(bytes, at + 2))
}

/// A copy of bytes, if there is memory.
pub(crate) fn copy(pieces: &[&[u8]]) -> Result<alloc::vec::Vec<u8>, NoMemory> {
    let mut copy = alloc::vec::Vec::new();
    let length = pieces.iter().map(|piece| piece.len()).sum();
    copy.try_reserve_exact(length).map_err(|_| NoMemory)?;
    pieces
        .iter()
        .for_each(|piece| copy.extend_from_slice(piece));
    Ok(copy)
}
