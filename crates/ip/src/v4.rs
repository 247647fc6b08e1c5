//! IPv4's header (RFC 791).

use crate::checksum::Sum;
use crate::{Malformed, half};
use core::net::Ipv4Addr;

/// The length of a header in bytes without options, and with the most options.
pub const HEADER: usize = 20;
/// With options.
pub const MOST_HEADER: usize = 60;
/// The most bytes of a packet.
pub const MOST: usize = 65535;
/// The least MTU of a link, and the lower limit of a path's (`net.ipv4.route.min_pmtu`).
pub const LEAST_MTU: usize = 68;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of service.
    pub class: u8,
    /// The identification of the fragment's datagram.
    pub number: u16,
    /// Whether it must not be fragmented (DF).
    pub whole: bool,
    /// Whether more fragments follow (MF).
    pub more: bool,
    /// The offset of the payload in the datagram in bytes, a multiple of 8.
    pub offset: usize,
    /// The time to live.
    pub hops: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The source.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Reads a packet: the header, and where options and payload end in `bytes`. What follows the
    /// packet is padding.
    ///
    /// # Errors
    /// The packet is shorter than its length field, has another version, or a wrong checksum.
    pub fn parse(bytes: &[u8]) -> Result<(Self, [usize; 2]), Malformed> {
        let fixed = bytes.first_chunk::<HEADER>().ok_or(Malformed)?;
        let start = usize::from(fixed[0] & 0xf) * 4;
        let length = usize::from(half(fixed, 2));
        let fits =
            fixed[0] >> 4 == 4 && (HEADER..=length).contains(&start) && length <= bytes.len();
        if !fits || Sum::new().with(&bytes[..start]).checksum() != 0 {
            return Err(Malformed);
        }
        let flags = half(fixed, 6);
        let [.., a, b, c, d] = *fixed;
        let [_, _, _, _, _, _, _, _, _, _, _, _, e, f, g, h, ..] = *fixed;
        let header = Header {
            class: fixed[1],
            number: half(fixed, 4),
            whole: flags & DONT_FRAGMENT != 0,
            more: flags & MORE != 0,
            offset: usize::from(flags & OFFSET) * 8,
            hops: fixed[8],
            protocol: fixed[9],
            source: [e, f, g, h].into(),
            destination: [a, b, c, d].into(),
        };
        Ok((header, [start, length]))
    }

    /// Whether the packet is a fragment of a datagram.
    pub fn is_fragment(&self) -> bool {
        self.more || self.offset != 0
    }

    /// The bytes of the header, for a payload of this length, without options.
    ///
    /// # Panics
    /// If the packet would be longer than [`MOST`].
    pub fn bytes(&self, payload: usize) -> [u8; HEADER] {
        let length = u16::try_from(HEADER + payload).expect("a packet that is not too long");
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&[0x45, self.class]);
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.number.to_be_bytes());
        let flags = [(self.whole, DONT_FRAGMENT), (self.more, MORE)];
        let flags = flags.iter().filter(|flag| flag.0).map(|flag| flag.1);
        let flags = flags.sum::<u16>() | (self.offset / 8) as u16 & OFFSET;
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        bytes[8..10].copy_from_slice(&[self.hops, self.protocol]);
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..].copy_from_slice(&self.destination.octets());
        let sum = Sum::new().with(&bytes).checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// Whether options prescribe a packet's route (LSRR, SSRR). Such packets are not accepted, as the
/// answer would take the route that the sender chose (RFC 7126, 4.3 and 4.4).
pub fn is_source_routed(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut rest = options;
    loop {
        rest = match *rest {
            [] | [END, ..] => return false,
            [LOOSE | STRICT, ..] => return true,
            [NO_OPERATION, ref rest @ ..] => rest,
            [_, length, ..] => rest.get(usize::from(length).max(2)..).unwrap_or_default(),
            [_] => return false,
        };
    }
}

/// Whether an address is a valid source: not multicast, broadcast, loopback or in 0.0.0.0/8,
/// except 0.0.0.0 itself.
pub fn can_send(source: Ipv4Addr) -> bool {
    !(source.is_multicast() || source.is_broadcast() || source.is_loopback())
        && (source.octets()[0] != 0 || source.is_unspecified())
}

/// The fragments of a datagram with `length` bytes of payload if packets have at most `mtu` bytes:
/// for each its offset, its length, and whether more follow. There are none if the MTU is too small
/// for IPv4.
pub fn fragments(length: usize, mtu: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    pieces(length, if mtu < LEAST_MTU { 0 } else { mtu - HEADER })
}

/// Pieces of at most `room` bytes, all but the last a multiple of 8.
pub(crate) fn pieces(length: usize, room: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    let step = if length <= room { room } else { room & !7 };
    let count = if step == 0 {
        0
    } else {
        length.div_ceil(step).max(1)
    };
    (0..count).map(move |index| {
        let at = index * step;
        let here = step.min(length - at);
        (at, here, at + here < length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            class: 0x10,
            number: 77,
            whole: false,
            more: true,
            offset: 1480,
            hops: 64,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 2, 15),
            destination: Ipv4Addr::new(10, 0, 2, 3),
        }
    }

    #[test]
    fn both_ways() {
        let mut bytes = header().bytes(3).to_vec();
        bytes.extend([1, 2, 3, 0, 0, 0]);
        assert_eq!(Header::parse(&bytes), Ok((header(), [20, 23])));
        assert_eq!(Header::parse(&bytes[..22]), Err(Malformed));
        for at in 0..HEADER {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(Header::parse(&damaged), Err(Malformed), "byte {at}");
        }
    }

    /// A header that is longer than the packet, and one of fewer than five words.
    #[test]
    fn lengths() {
        for (words, length) in [(6, 20), (4, 20), (15, 59), (5, 19)] {
            let mut bytes = [0; 64];
            bytes[..HEADER].copy_from_slice(&header().bytes(0));
            bytes[0] = 0x40 | words;
            bytes[2..4].copy_from_slice(&u16::to_be_bytes(length));
            bytes[10..12].fill(0);
            let sum = Sum::new().with(&bytes[..usize::from(words) * 4]).checksum();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(Header::parse(&bytes), Err(Malformed), "{words} {length}");
        }
    }

    #[test]
    fn routes_of_the_sender() {
        let route = [131, 7, 4, 10, 0, 0, 1];
        for (options, is) in [
            (&[][..], false),
            (&[1, 1, 1, 0], false),
            (&[7, 7, 4, 131, 137, 0, 0, 1], false),
            (&[0, 131, 3, 4], false),
            (&[7, 0, 131], true),
            (&[7, 255, 131], false),
            (&[7], false),
            (&route, true),
            (&[&[1, 7, 3, 4], &route[..]].concat(), true),
            (&[137, 3, 4], true),
        ] {
            assert_eq!(is_source_routed(options), is, "{options:?}");
        }
    }

    #[test]
    fn senders() {
        for (ip, can) in [
            ([10, 0, 2, 2], true),
            ([0, 0, 0, 0], true),
            ([0, 0, 0, 1], false),
            ([127, 0, 0, 1], false),
            ([224, 0, 0, 1], false),
            ([255, 255, 255, 255], false),
        ] {
            assert_eq!(can_send(ip.into()), can, "{ip:?}");
        }
    }

    #[test]
    fn pieces_of_datagrams() {
        let of = |length, mtu| fragments(length, mtu).collect::<Vec<_>>();
        assert_eq!(of(1480, 1500), [(0, 1480, false)]);
        assert_eq!(of(1481, 1500), [(0, 1480, true), (1480, 1, false)]);
        assert_eq!(of(0, 1500), [(0, 0, false)]);
        // 1006 bytes of room hold 1000 bytes, except in the last fragment.
        assert_eq!(of(1010, 1026), [(0, 1000, true), (1000, 10, false)]);
        assert_eq!(of(1, 67), []);
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 20..80), mend in any::<bool>()) {
            if mend {
                bytes[0] = 0x45 + bytes[0] % 3;
                let length = (bytes.len() as u16).to_be_bytes();
                bytes[2..4].copy_from_slice(&length);
                bytes[10..12].fill(0);
                let end = (usize::from(bytes[0] & 0xf) * 4).min(bytes.len());
                let sum = Sum::new().with(&bytes[..end]).checksum();
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            if let Ok((_, [start, length])) = Header::parse(&bytes) {
                prop_assert!(start <= length && length <= bytes.len());
            }
        }

        #[test]
        fn pieces_cover(length in 0usize..66_000, mtu in 68usize..10_000) {
            let mut next = 0;
            for (at, here, more) in fragments(length, mtu) {
                prop_assert_eq!(at, next);
                prop_assert!(here + HEADER <= mtu && at % 8 == 0);
                next += here;
                prop_assert_eq!(more, next < length);
            }
            prop_assert_eq!(next, length);
        }
    }
}
