//! IPv6's header and its extension headers (RFC 8200).

use crate::{Malformed, half, word};
use core::net::Ipv6Addr;

/// The length of a header in bytes.
pub const HEADER: usize = 40;
/// The length of a fragment header in bytes.
pub const FRAGMENT: usize = 8;
/// The most bytes after a header.
pub const MOST: usize = 65535;
/// The least MTU of a link.
pub const LEAST_MTU: usize = 1280;

/// Extension headers.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENTED: u8 = 44;
const NONE: u8 = 59;
const DESTINATION: u8 = 60;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The traffic class.
    pub class: u8,
    /// The flow label, 20 bits.
    pub flow: u32,
    /// The next header: a protocol or an extension header.
    pub next: u8,
    /// The hop limit.
    pub hops: u8,
    /// The source.
    pub source: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Reads a packet: the header, and where in `bytes` the packet ends. What follows is padding.
    ///
    /// # Errors
    /// It is shorter than its length field (as jumbograms are), or has another version.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let fixed = bytes.first_chunk::<HEADER>().ok_or(Malformed)?;
        let end = HEADER + usize::from(half(fixed, 4));
        if fixed[0] >> 4 != 6 || end > bytes.len() {
            return Err(Malformed);
        }
        let first = word(fixed, 0);
        let ip = |at: usize| core::array::from_fn::<u8, 16, _>(|byte| fixed[at + byte]).into();
        let header = Header {
            class: (first >> 20) as u8,
            flow: first & 0xf_ffff,
            next: fixed[6],
            hops: fixed[7],
            source: ip(8),
            destination: ip(24),
        };
        Ok((header, end))
    }

    /// The bytes of the header, for a payload of this length, which includes extension headers.
    ///
    /// # Panics
    /// If the payload is longer than [`MOST`].
    pub fn bytes(&self, payload: usize) -> [u8; HEADER] {
        let length = u16::try_from(payload).expect("a packet that is not too long");
        let mut bytes = [0; HEADER];
        let first = 6 << 28 | u32::from(self.class) << 20 | self.flow & 0xf_ffff;
        bytes[..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        bytes[6..8].copy_from_slice(&[self.next, self.hops]);
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..].copy_from_slice(&self.destination.octets());
        bytes
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The next header in the datagram.
    pub next: u8,
    /// The offset of the payload in the datagram in bytes, a multiple of 8.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// The identification of the datagram.
    pub number: u32,
}

impl Fragment {
    /// Its bytes.
    pub fn bytes(&self) -> [u8; FRAGMENT] {
        let mut bytes = [self.next, 0, 0, 0, 0, 0, 0, 0];
        let offset = self.offset as u16 & !7 | u16::from(self.more);
        bytes[2..4].copy_from_slice(&offset.to_be_bytes());
        bytes[4..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

/// What follows the extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The payload of a protocol.
    Protocol {
        /// The protocol.
        protocol: u8,
        /// Its offset in the packet.
        at: usize,
    },
    /// A fragment of a datagram.
    Fragment {
        /// Its header.
        fragment: Fragment,
        /// The offset of its payload.
        at: usize,
        /// The offset of the field that names the fragment header in the header before.
        named_at: usize,
    },
    /// There is no payload.
    Nothing,
}

/// Why a packet is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is dropped silently.
    Silently,
    /// The sender must be notified: the code of Parameter Problem, and its pointer.
    Problem {
        /// The code.
        code: u8,
        /// The offset in the packet.
        at: usize,
        /// Whether to report even if the packet was multicast.
        also_of_groups: bool,
    },
}

const HEADER_FIELD: u8 = 0;
/// The code for an unknown header.
pub const UNKNOWN_HEADER: u8 = 1;
const UNKNOWN_OPTION: u8 = 2;

/// Walks the extension headers of a packet (all of it, no padding): `next` at `named_at` names the
/// first, at `at`. `last`: they belong to a reassembled datagram, which has no further fragment
/// header.
pub fn carried(
    packet: &[u8],
    mut next: u8,
    mut at: usize,
    mut named_at: usize,
    last: bool,
) -> Result<Carried, Refused> {
    let first = at;
    loop {
        let problem = |code, at| Refused::Problem {
            code,
            at,
            also_of_groups: false,
        };
        match next {
            HOP_BY_HOP if at != first || last => return Err(problem(UNKNOWN_HEADER, named_at)),
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let head = packet.get(at..at + 2).ok_or(Refused::Silently)?;
                let end = at + 8 * (usize::from(head[1]) + 1);
                let rest = packet.get(at + 2..end).ok_or(Refused::Silently)?;
                if next == ROUTING {
                    // This is no router: no segments may be left (RFC 5095 for the old kind).
                    if rest[1] != 0 {
                        return Err(problem(HEADER_FIELD, at + 2));
                    }
                } else {
                    check_options(rest, at + 2)?;
                }
                (next, named_at, at) = (head[0], at, end);
            }
            FRAGMENTED if last => return Err(problem(UNKNOWN_HEADER, named_at)),
            FRAGMENTED => {
                let head = packet.get(at..at + FRAGMENT).ok_or(Refused::Silently)?;
                let (field, end) = (half(head, 2), at + FRAGMENT);
                let fragment = Fragment {
                    next: head[0],
                    offset: usize::from(field & !7),
                    more: field & 1 != 0,
                    number: word(head, 4),
                };
                if fragment.more && !(packet.len() - end).is_multiple_of(8) {
                    return Err(problem(HEADER_FIELD, 4));
                }
                if fragment.offset + (packet.len() - end) > MOST {
                    return Err(problem(HEADER_FIELD, at + 2));
                }
                return Ok(Carried::Fragment {
                    fragment,
                    at: end,
                    named_at,
                });
            }
            NONE => return Ok(Carried::Nothing),
            protocol => return Ok(Carried::Protocol { protocol, at }),
        }
    }
}

/// Checks options: the upper bits of an unknown one say what to do (RFC 8200, 4.2).
fn check_options(mut options: &[u8], mut at: usize) -> Result<(), Refused> {
    while let [kind, rest @ ..] = options {
        let length = match *kind {
            0 => 1,
            _ => 2 + usize::from(*rest.first().ok_or(Refused::Silently)?),
        };
        let is_known = matches!(*kind, 0 | 1 | 5);
        let unknown = |also_of_groups| Refused::Problem {
            code: UNKNOWN_OPTION,
            at,
            also_of_groups,
        };
        match kind >> 6 {
            _ if is_known => {}
            0 => {}
            1 => return Err(Refused::Silently),
            2 => return Err(unknown(true)),
            _ => return Err(unknown(false)),
        }
        options = options.get(length..).ok_or(Refused::Silently)?;
        at += length;
    }
    Ok(())
}

/// As [`crate::v4::fragments`].
pub fn fragments(length: usize, mtu: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    crate::v4::pieces(length, mtu.max(LEAST_MTU) - HEADER - FRAGMENT)
}

/// Whether an address is a valid source.
pub fn can_send(source: Ipv6Addr) -> bool {
    !(source.is_multicast() || source.is_loopback() || source.to_ipv4_mapped().is_some())
}

/// The multicast group to which solicitations for an address are sent (RFC 4291, 2.7.1).
pub fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Whether an address is valid only on its link.
pub fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80 || ip.is_multicast() && ip.octets()[1] & 0xf == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn header(next: u8) -> Header {
        Header {
            class: 0xa5,
            flow: 0x12345,
            next,
            hops: 64,
            source: "fec0::1".parse().unwrap(),
            destination: "fec0::2".parse().unwrap(),
        }
    }

    fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
        [&header(next).bytes(rest.len()), rest].concat()
    }

    fn walk(next: u8, rest: &[u8]) -> Result<Carried, Refused> {
        carried(&packet(next, rest), next, HEADER, 6, false)
    }

    #[test]
    fn both_ways() {
        let mut bytes = packet(17, &[1, 2, 3]);
        assert_eq!(Header::parse(&bytes), Ok((header(17), 43)));
        bytes.push(0);
        assert_eq!(Header::parse(&bytes), Ok((header(17), 43)));
        assert_eq!(Header::parse(&bytes[..42]), Err(Malformed));
        bytes[0] = 0x4a;
        assert_eq!(Header::parse(&bytes), Err(Malformed));
    }

    #[test]
    fn extensions() {
        let at = |protocol, at| Ok(Carried::Protocol { protocol, at });
        assert_eq!(walk(17, &[]), at(17, 40));
        assert_eq!(walk(59, &[1]), Ok(Carried::Nothing));
        // Hop-by-hop with padding, then destination options, then UDP.
        let both = [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(walk(0, &both), at(17, 56));
        // Hop-by-hop is only allowed first.
        let late = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
        let problem = |code, at| {
            Err(Refused::Problem {
                code,
                at,
                also_of_groups: false,
            })
        };
        assert_eq!(walk(60, &late), problem(1, 40));
        // A routing header with segments left.
        assert_eq!(walk(43, &[17, 0, 0, 1, 0, 0, 0, 0]), problem(0, 42));
        assert_eq!(walk(43, &[17, 0, 0, 0, 0, 0, 0, 0]), at(17, 48));
        // A header longer than the packet.
        assert_eq!(walk(60, &[17, 1, 1, 4, 0, 0, 0, 0]), Err(Refused::Silently));
        assert_eq!(walk(60, &[17]), Err(Refused::Silently));
    }

    #[test]
    fn unknown_options() {
        let with = |kind| walk(60, &[17, 0, kind, 4, 0, 0, 0, 0]);
        assert_eq!(
            with(0x3e),
            Ok(Carried::Protocol {
                protocol: 17,
                at: 48
            })
        );
        assert_eq!(with(0x7e), Err(Refused::Silently));
        for (kind, also_of_groups) in [(0xbe, true), (0xfe, false)] {
            let problem = Refused::Problem {
                code: 2,
                at: 42,
                also_of_groups,
            };
            assert_eq!(with(kind), Err(problem));
        }
        // An option that exceeds its header.
        assert_eq!(walk(60, &[17, 0, 1, 5, 0, 0, 0, 0]), Err(Refused::Silently));
    }

    #[test]
    fn parts() {
        let fragment = Fragment {
            next: 17,
            offset: 1232,
            more: true,
            number: 0xdead_beef,
        };
        let mut rest = fragment.bytes().to_vec();
        rest.extend([0; 8]);
        let found = Carried::Fragment {
            fragment,
            at: 48,
            named_at: 6,
        };
        assert_eq!(walk(44, &rest), Ok(found));
        rest.push(0);
        let problem = |at| {
            Err(Refused::Problem {
                code: 0,
                at,
                also_of_groups: false,
            })
        };
        assert_eq!(walk(44, &rest), problem(4));
        let far = Fragment {
            offset: 65528,
            more: false,
            ..fragment
        };
        let rest = [&far.bytes()[..], &[0; 8]].concat();
        assert_eq!(walk(44, &rest), problem(42));
        // None within a reassembled datagram.
        let whole = packet(44, &rest);
        assert!(carried(&whole, 44, HEADER, 6, true).is_err());
    }

    #[test]
    fn groups() {
        let ip: Ipv6Addr = "fec0::5054:ff:fe12:3456".parse().unwrap();
        assert_eq!(
            solicited_node(ip),
            "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap()
        );
        assert!(is_link_local("fe80::1".parse().unwrap()));
        assert!(is_link_local("ff02::1".parse().unwrap()));
        assert!(!is_link_local(ip));
    }

    proptest! {
        #[test]
        fn any_bytes(next in any::<u8>(), rest in proptest::collection::vec(any::<u8>(), 0..120)) {
            match walk(next, &rest) {
                Ok(Carried::Protocol { at, .. } | Carried::Fragment { at, .. }) => {
                    prop_assert!(at <= HEADER + rest.len());
                }
                Err(Refused::Problem { at, .. }) => prop_assert!(at < HEADER + rest.len()),
                _ => {}
            }
        }

        /// Chains of extension headers up to the end.
        #[test]
        fn chains(kinds in proptest::collection::vec(prop_oneof![Just(60u8), Just(43), Just(0), Just(44)], 1..30)) {
            let rest: Vec<u8> = kinds.iter().flat_map(|&next| [next, 0, 1, 4, 0, 0, 0, 0]).collect();
            let _ = walk(60, &rest);
        }
    }
}
