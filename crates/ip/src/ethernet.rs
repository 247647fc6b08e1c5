//! Ethernet frames.

use crate::{Malformed, half};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The length of a header in bytes.
pub const HEADER: usize = 14;
/// Kinds of frames (`ETH_P_`).
pub const IPV4: u16 = 0x0800;
/// ARP.
pub const ARP: u16 = 0x0806;
/// IPv6.
pub const IPV6: u16 = 0x86dd;

/// A link-layer address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether the address is a multicast or the broadcast address.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address can be that of a card.
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Mac::default()
    }

    /// The address of an IPv4 multicast group (RFC 1112).
    pub fn of_group_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The address of an IPv6 multicast group (RFC 2464).
    pub fn of_group_v6(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Mac([0x33, 0x33, a, b, c, d])
    }

    /// The interface identifier of addresses that a host generates for itself (RFC 4291, A).
    pub fn interface_identifier(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }

    /// The IPv6 link-local address of this card (RFC 4291, 2.5.6).
    pub fn link_local(self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets[..2].copy_from_slice(&[0xfe, 0x80]);
        octets[8..].copy_from_slice(&self.interface_identifier());
        octets.into()
    }
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The destination.
    pub destination: Mac,
    /// The source.
    pub source: Mac,
    /// The kind of the payload.
    pub kind: u16,
    /// The payload; padding may follow.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// The frame is shorter than a header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed)?;
        let [destination @ .., _, _, _, _, _, _, _, _] = *header;
        let [_, _, _, _, _, _, source @ .., _, _] = *header;
        Ok(Frame {
            destination: Mac(destination),
            source: Mac(source),
            kind: half(header, 12),
            payload,
        })
    }
}

/// Makes the header of a frame.
pub fn header(destination: Mac, source: Mac, kind: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&kind.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let (to, from) = (Mac([1, 2, 3, 4, 5, 6]), Mac([2, 0, 0, 0, 0, 9]));
        let mut bytes = header(to, from, ARP).to_vec();
        assert_eq!(Frame::parse(&bytes[..13]), Err(Malformed));
        bytes.push(7);
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!((frame.destination, frame.source), (to, from));
        assert_eq!((frame.kind, frame.payload), (ARP, &[7][..]));
        assert!(to.is_multicast() && from.is_unicast());
        assert!(!Mac::default().is_unicast() && !Mac::BROADCAST.is_unicast());
    }

    #[test]
    fn addresses() {
        let mac = Mac([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);
        assert_eq!(mac.link_local().to_string(), "fe80::5054:ff:fe12:3456");
        let group = Mac::of_group_v4(Ipv4Addr::new(224, 129, 2, 3));
        assert_eq!(group, Mac([1, 0, 0x5e, 1, 2, 3]));
        let group = Mac::of_group_v6("ff02::1:ff12:3456".parse().unwrap());
        assert_eq!(group, Mac([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
    }

    extern crate std;
    use std::string::ToString;
}
