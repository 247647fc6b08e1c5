//! Received packets: checks, and reassembly of fragments.

use crate::fragments::{Fragments, Key, Piece, Taken};
use crate::v6::{Carried, Refused};
use crate::{ethernet, v4, v6};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::IpAddr;

/// The bytes of a packet, as received or reassembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes<'a> {
    /// Bytes of the frame.
    Frame(&'a [u8]),
    /// Bytes reassembled from several frames.
    Made(Vec<u8>),
}

impl Bytes<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Frame(bytes) => bytes,
            Bytes::Made(bytes) => bytes,
        }
    }
}

/// A complete packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The whole packet, from its header on.
    pub bytes: Bytes<'a>,
    /// The source.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The offset of the payload.
    pub at: usize,
    /// The remaining hop limit.
    pub hops: u8,
    /// The traffic class, or type of service.
    pub class: u8,
    /// For IPv6, the offset of the protocol's number, for a report that the protocol is unknown.
    pub named_at: usize,
}

impl Packet<'_> {
    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_slice()[self.at..]
    }
}

/// The result of receiving a frame's payload.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A packet, perhaps completed by this fragment.
    Packet(Packet<'a>),
    /// A fragment of an incomplete packet.
    Waits,
    /// The packet is damaged, or its source address is impossible.
    Damaged,
    /// A fragment was dropped, for lack of room or because it contradicts others.
    LostPart,
    /// The sender must be notified (Parameter Problem), with the code, the offset, the packet, and
    /// whether this also applies to multicast packets.
    Problem {
        /// The code.
        code: u8,
        /// The offset in the packet.
        at: usize,
        /// The packet.
        packet: &'a [u8],
        /// Whether to report even if the packet was multicast.
        also_of_groups: bool,
    },
}

/// The receive path.
pub struct Input<S> {
    /// The incomplete datagrams.
    pub fragments: Fragments<S>,
}

impl<S: BuildHasher> Input<S> {
    /// An input with nothing received yet.
    pub const fn new(hasher: S) -> Self {
        Input {
            fragments: Fragments::new(hasher),
        }
    }

    /// Takes the payload of a frame of this kind that arrived on an interface. The destination is
    /// ignored.
    pub fn receive<'a>(
        &mut self,
        now: u64,
        interface: u32,
        kind: u16,
        payload: &'a [u8],
    ) -> Received<'a> {
        match kind {
            ethernet::IPV4 => self.receive_v4(now, interface, payload),
            ethernet::IPV6 => self.receive_v6(now, interface, payload),
            _ => Received::Damaged,
        }
    }

    fn receive_v4<'a>(&mut self, now: u64, interface: u32, payload: &'a [u8]) -> Received<'a> {
        let Ok((header, [start, end])) = v4::Header::parse(payload) else {
            return Received::Damaged;
        };
        let options = &payload[v4::HEADER..start];
        if !v4::can_send(header.source) || v4::is_source_routed(options) {
            return Received::Damaged;
        }
        let bytes = &payload[..end];
        let mut packet = Packet {
            bytes: Bytes::Frame(bytes),
            source: header.source.into(),
            destination: header.destination.into(),
            protocol: header.protocol,
            at: start,
            hops: header.hops,
            class: header.class,
            named_at: 9,
        };
        if !header.is_fragment() {
            return Received::Packet(packet);
        }
        let key = Key {
            source: packet.source,
            destination: packet.destination,
            number: header.number.into(),
            protocol: header.protocol,
            interface,
        };
        let piece = Piece {
            header: &bytes[..start],
            offset: header.offset,
            more: header.more,
            payload: &bytes[start..],
        };
        match self.fragments.take(now, key, piece) {
            Taken::Waits => Received::Waits,
            Taken::Lost => Received::LostPart,
            Taken::Whole(bytes, _) if bytes.len() > v4::MOST => Received::LostPart,
            Taken::Whole(mut bytes, start) => {
                whole_v4(&mut bytes, start);
                (packet.bytes, packet.at) = (Bytes::Made(bytes), start);
                Received::Packet(packet)
            }
        }
    }

    fn receive_v6<'a>(&mut self, now: u64, interface: u32, payload: &'a [u8]) -> Received<'a> {
        let Ok((header, end)) = v6::Header::parse(payload) else {
            return Received::Damaged;
        };
        if !v6::can_send(header.source) || header.destination.to_ipv4_mapped().is_some() {
            return Received::Damaged;
        }
        let bytes = &payload[..end];
        let refused = |refused| match refused {
            Refused::Silently => Received::Damaged,
            Refused::Problem {
                code,
                at,
                also_of_groups,
            } => Received::Problem {
                code,
                at,
                packet: bytes,
                also_of_groups,
            },
        };
        let packet = |bytes, protocol, at, named_at| Packet {
            bytes,
            source: header.source.into(),
            destination: header.destination.into(),
            protocol,
            at,
            hops: header.hops,
            class: header.class,
            named_at,
        };
        let (fragment, at, named_at) = match v6::carried(bytes, header.next, v6::HEADER, 6, false) {
            Err(error) => return refused(error),
            Ok(Carried::Nothing) => return Received::Damaged,
            Ok(Carried::Protocol { protocol, at }) => {
                return Received::Packet(packet(Bytes::Frame(bytes), protocol, at, 6));
            }
            Ok(Carried::Fragment {
                fragment,
                at,
                named_at,
            }) => (fragment, at, named_at),
        };
        let key = Key {
            source: header.source.into(),
            destination: header.destination.into(),
            number: fragment.number,
            protocol: 0,
            interface,
        };
        let before = at - v6::FRAGMENT;
        let piece = Piece {
            header: &bytes[..before],
            offset: fragment.offset,
            more: fragment.more,
            payload: &bytes[at..],
        };
        let whole = match fragment.offset == 0 && !fragment.more {
            // This fragment is the whole datagram, whatever others have its number (RFC 6946).
            true => match crate::copy(&[piece.header, piece.payload]) {
                Ok(whole) => whole,
                Err(_) => return Received::LostPart,
            },
            false => match self.fragments.take(now, key, piece) {
                Taken::Waits => return Received::Waits,
                Taken::Lost => return Received::LostPart,
                Taken::Whole(whole, _) => whole,
            },
        };
        whole_v6(whole, fragment.next, named_at, packet).unwrap_or(Received::LostPart)
    }
}

/// Turns the header of the first fragment into that of the whole packet.
fn whole_v4(bytes: &mut [u8], start: usize) {
    let length = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&length);
    bytes[6..8].fill(0);
    bytes[10..12].fill(0);
    let sum = crate::checksum::Sum::new().with(&bytes[..start]).checksum();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The same for IPv6: `next` takes the place of the fragment's header. `None` if the packet is
/// dropped.
fn whole_v6<'a>(
    mut bytes: Vec<u8>,
    next: u8,
    named_at: usize,
    packet: impl Fn(Bytes<'a>, u8, usize, usize) -> Packet<'a>,
) -> Option<Received<'a>> {
    let length = u16::try_from(bytes.len().checked_sub(v6::HEADER)?).ok()?;
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    *bytes.get_mut(named_at)? = next;
    let first = bytes[6];
    // The headers before the fragment header were checked on arrival; those after it were not.
    match v6::carried(&bytes, first, v6::HEADER, 6, false).ok()? {
        Carried::Protocol { protocol, at } => Some(Received::Packet(packet(
            Bytes::Made(bytes),
            protocol,
            at,
            named_at,
        ))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasherDefault;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    extern crate std;
    type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

    fn input() -> Input<Hasher> {
        Input::new(Hasher::default())
    }

    fn v4_header() -> v4::Header {
        v4::Header {
            class: 4,
            number: 9,
            whole: false,
            more: false,
            offset: 0,
            hops: 63,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 2, 2),
            destination: Ipv4Addr::new(10, 0, 2, 15),
        }
    }

    fn v6_header(next: u8) -> v6::Header {
        v6::Header {
            class: 4,
            flow: 1,
            next,
            hops: 63,
            source: "fec0::2".parse().unwrap(),
            destination: "fec0::1".parse().unwrap(),
        }
    }

    /// The fragments of a datagram.
    fn cut(v6: bool, payload: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let v4_piece = |(offset, length, more)| {
            let header = v4::Header {
                offset,
                more,
                ..v4_header()
            };
            [&header.bytes(length)[..], &payload[offset..offset + length]].concat()
        };
        let v6_piece = |(offset, length, more)| {
            let fragment = v6::Fragment {
                next: 17,
                offset,
                more,
                number: 5,
            };
            let rest = [&fragment.bytes(), &payload[offset..offset + length]].concat();
            [&v6_header(44).bytes(rest.len())[..], &rest].concat()
        };
        match v6 {
            false => v4::fragments(payload.len(), mtu).map(v4_piece).collect(),
            true => v6::fragments(payload.len(), mtu).map(v6_piece).collect(),
        }
    }

    fn kind(v6: bool) -> u16 {
        if v6 { ethernet::IPV6 } else { ethernet::IPV4 }
    }

    #[test]
    fn whole_packets() {
        for v6 in [false, true] {
            let mut bytes = match v6 {
                false => [&v4_header().bytes(3)[..], &[1, 2, 3]].concat(),
                true => [&v6_header(17).bytes(3)[..], &[1, 2, 3]].concat(),
            };
            let end = bytes.len();
            bytes.extend([0; 5]);
            let mut input = input();
            let Received::Packet(packet) = input.receive(0, 2, kind(v6), &bytes) else {
                panic!("it is one");
            };
            assert_eq!((packet.payload(), packet.protocol), (&[1, 2, 3][..], 17));
            assert_eq!((packet.hops, packet.class), (63, 4));
            assert_eq!(packet.bytes, Bytes::Frame(&bytes[..end]));
            assert_eq!(input.receive(0, 2, kind(!v6), &bytes), Received::Damaged);
            assert_eq!(input.receive(0, 2, 0x1234, &bytes), Received::Damaged);
        }
    }

    #[test]
    fn strangers() {
        let from = |source: [u8; 4]| {
            v4::Header {
                source: source.into(),
                ..v4_header()
            }
            .bytes(0)
        };
        for source in [[127, 0, 0, 1], [255; 4], [224, 0, 0, 5], [0, 1, 2, 3]] {
            assert_eq!(
                input().receive(0, 2, ethernet::IPV4, &from(source)),
                Received::Damaged
            );
        }
        for source in ["::1", "ff02::1", "::ffff:10.0.0.1"] {
            let header = v6::Header {
                source: source.parse().unwrap(),
                ..v6_header(17)
            };
            let received = input()
                .receive(0, 2, ethernet::IPV6, &header.bytes(0))
                .clone_kind();
            assert_eq!(received, "damaged", "{source}");
        }
    }

    #[test]
    fn routes_of_the_sender() {
        let with = |options: [u8; 8]| {
            let mut bytes = [&v4_header().bytes(8)[..], &options].concat();
            bytes[0] = 0x47;
            bytes[10..12].fill(0);
            let sum = crate::checksum::Sum::new().with(&bytes).checksum();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            input().receive(0, 2, ethernet::IPV4, &bytes).clone_kind()
        };
        assert_eq!(with([7, 7, 4, 10, 0, 0, 1, 0]), "other");
        assert_eq!(with([131, 7, 4, 10, 0, 0, 1, 0]), "damaged");
    }

    impl Received<'_> {
        fn clone_kind(&self) -> &'static str {
            match self {
                Received::Damaged => "damaged",
                _ => "other",
            }
        }
    }

    /// A header that depends on those after a fragment header: they are checked after reassembly.
    #[test]
    fn behind_a_fragment() {
        let mut input = input();
        let fragment = v6::Fragment {
            next: 60,
            offset: 0,
            more: false,
            number: 5,
        };
        let rest = [&fragment.bytes()[..], &[17, 0, 1, 4, 0, 0, 0, 0], b"data"].concat();
        let bytes = [&v6_header(44).bytes(rest.len())[..], &rest].concat();
        let Received::Packet(packet) = input.receive(0, 2, ethernet::IPV6, &bytes) else {
            panic!("it is one");
        };
        assert_eq!((packet.payload(), packet.at), (&b"data"[..], 48));
        // A fragment inside a fragment is rejected.
        let inner = v6::Fragment {
            next: 17,
            offset: 8,
            more: true,
            number: 6,
        };
        let rest = [
            &v6::Fragment {
                next: 44,
                ..fragment
            }
            .bytes()[..],
            &inner.bytes(),
            b"12345678",
        ]
        .concat();
        let bytes = [&v6_header(44).bytes(rest.len())[..], &rest].concat();
        assert_eq!(
            input.receive(0, 2, ethernet::IPV6, &bytes),
            Received::LostPart
        );
    }

    proptest! {
        /// Fragments in any order, duplicated and mixed with others, make the original datagram.
        #[test]
        fn put_together(
            v6 in any::<bool>(),
            length in 1usize..6000,
            mtu in 600usize..1600,
            order in proptest::collection::vec(any::<u16>(), 30),
        ) {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let mut parts = cut(v6, &payload, mtu);
            let count = parts.len();
            let mut keys = order.iter().cycle();
            parts.extend(parts.clone());
            parts.sort_by_cached_key(|_| keys.next());
            let (mut input, mut whole) = (input(), 0);
            for part in &parts {
                match input.receive(0, 2, kind(v6), part) {
                    Received::Packet(packet) => {
                        prop_assert_eq!(packet.payload(), &payload[..]);
                        whole += 1;
                        // The result is a packet.
                        let bytes = packet.bytes.as_slice().to_vec();
                        let again = Input::new(Hasher::default());
                        let mut again = again;
                        let is_packet = matches!(again.receive(0, 2, kind(v6), &bytes), Received::Packet(_));
                        prop_assert!(is_packet);
                    }
                    Received::Waits => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert!(whole >= 1 && (whole <= 2 || count == 1));
        }

        #[test]
        fn any_bytes(
            v6 in any::<bool>(),
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..20),
        ) {
            let mut input = input();
            for mut frame in frames {
                if v6 && frame.len() > 44 {
                    (frame[0], frame[4], frame[5]) = (0x60, 0, (frame.len() - 40) as u8);
                    (frame[6], frame[39]) = ([0, 43, 44, 60][usize::from(frame[6]) % 4], 1);
                }
                if let Received::Packet(packet) = input.receive(0, 2, kind(v6), &frame) {
                    prop_assert!(packet.at <= packet.bytes.as_slice().len());
                }
                prop_assert!(input.fragments.bytes() <= crate::fragments::MOST_BYTES);
            }
        }
    }
}
