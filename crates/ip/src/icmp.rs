//! ICMP and ICMPv6 (RFC 792, RFC 1812, RFC 4443): echo, and errors about packets that were not
//! delivered.

use crate::checksum::Sum;
use crate::v6::Carried;
use crate::{Malformed, NoMemory, SECOND, protocol, v4, v6, word};
use alloc::vec::Vec;
use core::net::IpAddr;

/// The length of a message's header in bytes.
pub const HEAD: usize = 8;
/// Message kinds of ICMP.
pub const ECHO_REPLY: u8 = 0;
/// See above.
pub const UNREACHABLE: u8 = 3;
/// See above.
pub const REDIRECT: u8 = 5;
/// See above.
pub const ECHO: u8 = 8;
/// See above.
pub const TIME_EXCEEDED: u8 = 11;
/// See above.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Message kinds of ICMPv6.
pub const UNREACHABLE_V6: u8 = 1;
/// See above.
pub const TOO_BIG_V6: u8 = 2;
/// See above.
pub const TIME_EXCEEDED_V6: u8 = 3;
/// See above.
pub const PARAMETER_PROBLEM_V6: u8 = 4;
/// See above.
pub const ECHO_V6: u8 = 128;
/// See above.
pub const ECHO_REPLY_V6: u8 = 129;
/// Codes of [`UNREACHABLE`].
pub const PROTOCOL: u8 = 2;
/// See above.
pub const PORT: u8 = 3;
/// See above: the packet was too big, and must not be fragmented.
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// The most bytes of a packet that carries a report.
const MOST: usize = 576;
const MOST_V6: usize = v6::LEAST_MTU;

/// Whether a message of ICMP or ICMPv6 is a report; there are no reports about reports.
pub fn is_report(kind: u8, v4: bool) -> bool {
    match v4 {
        true => matches!(
            kind,
            UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM
        ),
        false => kind < ECHO_V6,
    }
}

/// Puts the checksum into a message.
pub fn seal(message: &mut [u8], source: IpAddr, destination: IpAddr) {
    let Some(field) = message.get_mut(2..4) else {
        return;
    };
    field.fill(0);
    let start = match source {
        IpAddr::V4(_) => Sum::new(),
        IpAddr::V6(_) => Sum::pseudo(source, destination, protocol::ICMP_V6, message.len()),
    };
    let sum = start.with(message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a message is long enough and has a correct checksum.
pub fn is_sound(message: &[u8], source: IpAddr, destination: IpAddr) -> bool {
    let start = match source {
        IpAddr::V4(_) => Sum::new(),
        IpAddr::V6(_) => Sum::pseudo(source, destination, protocol::ICMP_V6, message.len()),
    };
    message.len() >= HEAD && start.with(message).checksum() == 0
}

/// The reply to a valid echo request, without its checksum.
///
/// # Errors
/// There is no memory.
pub fn reply(request: &[u8], v4: bool) -> Result<Vec<u8>, NoMemory> {
    let mut reply = crate::copy(&[request])?;
    if let Some(kind) = reply.first_mut() {
        *kind = if v4 { ECHO_REPLY } else { ECHO_REPLY_V6 };
    }
    Ok(reply)
}

/// Whether a report may be sent about a packet (all of it, no padding): it is no report itself, and
/// goes from one host to one host. `broadcast`: its frame was a broadcast.
pub fn may_report(packet: &[u8], broadcast: bool) -> bool {
    let Some(inner) = Inner::parse(packet) else {
        return false;
    };
    let (from, to) = (inner.source, inner.destination);
    let one = !(broadcast || to.is_multicast() || from.is_multicast() || from.is_unspecified());
    let own = match from {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(_) => false,
    };
    let kind = packet.get(inner.at).copied();
    let v4 = from.is_ipv4();
    let is_icmp = inner.protocol
        == if v4 {
            protocol::ICMP
        } else {
            protocol::ICMP_V6
        };
    let is_about_report = is_icmp && kind.is_none_or(|kind| is_report(kind, v4));
    one && !own && !inner.is_later && !is_about_report
}

/// A report about a packet: a header and the beginning of the packet, without the checksum.
///
/// # Errors
/// There is no memory.
pub fn error([kind, code]: [u8; 2], info: u32, packet: &[u8]) -> Result<Vec<u8>, NoMemory> {
    let v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let most = match v4 {
        true => MOST - v4::HEADER - HEAD,
        false => MOST_V6 - v6::HEADER - HEAD,
    };
    let [a, b, c, d] = info.to_be_bytes();
    let quoted = &packet[..packet.len().min(most)];
    crate::copy(&[&[kind, code, 0, 0, a, b, c, d], quoted])
}

/// The packet that a report is about, as far as the report quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The source, which is this host.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The protocol of its payload, and the payload's offset.
    pub protocol: u8,
    /// See above.
    pub at: usize,
    /// Its total length.
    pub length: usize,
    /// Whether it is a fragment other than the first.
    pub is_later: bool,
}

impl Inner {
    /// Reads the beginning of a packet. Its length may exceed the bytes given, and its checksum is
    /// ignored.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let fixed = packet.first_chunk::<{ v4::HEADER }>()?;
                let at = usize::from(fixed[0] & 0xf) * 4;
                let ip =
                    |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]].into();
                (v4::HEADER..=packet.len()).contains(&at).then_some(Inner {
                    source: ip(12),
                    destination: ip(16),
                    protocol: fixed[9],
                    at,
                    length: crate::half(fixed, 2).into(),
                    is_later: crate::half(fixed, 6) & 0x1fff != 0,
                })
            }
            6 => {
                let fixed = packet.first_chunk::<{ v6::HEADER }>()?;
                let ip =
                    |at: usize| core::array::from_fn::<u8, 16, _>(|byte| fixed[at + byte]).into();
                let mut inner = Inner {
                    source: ip(8),
                    destination: ip(24),
                    protocol: fixed[6],
                    at: v6::HEADER,
                    length: v6::HEADER + usize::from(crate::half(fixed, 4)),
                    is_later: false,
                };
                let mut last = false;
                let mut next = (fixed[6], v6::HEADER);
                // The headers before the fragment header, then those after it.
                for _ in 0..2 {
                    match v6::carried(packet, next.0, next.1, 0, last).ok()? {
                        Carried::Protocol { protocol, at } => {
                            (inner.protocol, inner.at) = (protocol, at);
                            break;
                        }
                        Carried::Fragment { fragment, at, .. } => {
                            inner.is_later = fragment.offset != 0;
                            (inner.protocol, inner.at) = (fragment.next, at);
                            if inner.is_later {
                                break;
                            }
                            (next, last) = ((fragment.next, at), true);
                        }
                        Carried::Nothing => return None,
                    }
                }
                (inner.at <= packet.len()).then_some(inner)
            }
            _ => None,
        }
    }
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The kind of the message, and its code.
    pub kind: u8,
    /// See above.
    pub code: u8,
    /// The last word of its header.
    pub info: u32,
    /// The packet that it is about.
    pub inner: Inner,
    /// The beginning of that packet.
    pub quoted: &'a [u8],
}

impl<'a> Report<'a> {
    /// Reads a report that is valid as a message.
    ///
    /// # Errors
    /// It is no report, or quotes too little of the packet to identify its sender.
    pub fn parse(message: &'a [u8], v4: bool) -> Result<Self, Malformed> {
        let (head, quoted) = message.split_first_chunk::<HEAD>().ok_or(Malformed)?;
        let inner = Inner::parse(quoted).ok_or(Malformed)?;
        // Eight bytes of the payload (RFC 792): the ports, and TCP's sequence number.
        let is_whole = quoted.len() >= inner.at + 8 && inner.source.is_ipv4() == v4;
        match is_report(head[0], v4) && is_whole && !inner.is_later {
            true => Ok(Report {
                kind: head[0],
                code: head[1],
                info: word(head, 4),
                inner,
                quoted,
            }),
            false => Err(Malformed),
        }
    }

    /// The path MTU that the report names, if it is about size; 0 if the router names none.
    pub fn too_big(&self) -> Option<u32> {
        match (self.inner.source, self.kind, self.code) {
            (IpAddr::V4(_), UNREACHABLE, FRAGMENTATION_NEEDED) => Some(self.info & 0xffff),
            (IpAddr::V6(_), TOO_BIG_V6, _) => Some(self.info),
            _ => None,
        }
    }
}

/// Limits the rate of messages: about a thousand a second, with bursts of fifty
/// (`net.ipv4.icmp_msgs_per_sec`, `net.ipv4.icmp_msgs_burst`). The exact limit is random: an
/// attacker who exhausts a known limit could find open ports by whether this machine still answers
/// others (CVE-2020-25705).
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    tokens: u64,
    since: u64,
}

const BURST: u64 = 50;
const PACE: u64 = SECOND / 1000;

impl Limiter {
    /// A limiter with nothing sent yet.
    pub const fn new() -> Self {
        Limiter {
            tokens: BURST,
            since: 0,
        }
    }

    /// Whether a message may be sent at `now`; it counts as 0 to 2, depending on a random number.
    pub fn allows(&mut self, now: u64, drawn: u64) -> bool {
        let earned = now.saturating_sub(self.since) / PACE;
        if self.tokens + earned >= BURST {
            (self.tokens, self.since) = (BURST, now);
        } else {
            self.tokens += earned;
            self.since += earned * PACE;
        }
        let allows = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(drawn % 3);
        allows
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
    const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

    fn v4_packet(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, rest: &[u8]) -> Vec<u8> {
        let header = v4::Header {
            class: 0,
            number: 0,
            whole: true,
            more: false,
            offset: 0,
            hops: 64,
            protocol,
            source,
            destination,
        };
        [&header.bytes(rest.len()), rest].concat()
    }

    fn v6_packet(next: u8, rest: &[u8]) -> Vec<u8> {
        let header = v6::Header {
            class: 0,
            flow: 0,
            next,
            hops: 64,
            source: "fec0::1".parse().unwrap(),
            destination: "fec0::2".parse().unwrap(),
        };
        [&header.bytes(rest.len()), rest].concat()
    }

    #[test]
    fn echo() {
        let ends = (IpAddr::from(HERE), IpAddr::from(THERE));
        let mut request = [8, 0, 0, 0, 1, 2, 3, 4, 5];
        seal(&mut request, ends.0, ends.1);
        assert!(is_sound(&request, ends.0, ends.1));
        let mut reply = reply(&request, true).unwrap();
        assert!(!is_sound(&reply, ends.1, ends.0));
        seal(&mut reply, ends.1, ends.0);
        assert!(is_sound(&reply, ends.1, ends.0));
        assert_eq!((reply[0], &reply[4..]), (0, &request[4..]));
        let six = (
            IpAddr::from(Ipv6Addr::LOCALHOST),
            "fec0::1".parse().unwrap(),
        );
        let mut request = [128, 0, 0, 0, 1, 2, 3, 4];
        seal(&mut request, six.0, six.1);
        assert!(is_sound(&request, six.0, six.1) && !is_sound(&request, six.0, six.0));
        assert!(!is_sound(&[0xff; 2], ends.0, ends.1));
    }

    #[test]
    fn reports() {
        let sent = v4_packet(17, HERE, THERE, &[0, 1, 0, 2, 0, 9, 0, 0, 7]);
        assert!(may_report(&sent, false) && !may_report(&sent, true));
        let message = error([UNREACHABLE, PORT], 0, &sent).unwrap();
        let report = Report::parse(&message, true).unwrap();
        assert_eq!((report.kind, report.code, report.quoted), (3, 3, &sent[..]));
        assert_eq!(
            (report.inner.source, report.inner.destination),
            (HERE.into(), THERE.into())
        );
        assert_eq!(
            (report.inner.protocol, report.inner.at, report.inner.length),
            (17, 20, 29)
        );
        assert_eq!(report.too_big(), None);
        assert!(Report::parse(&message, false).is_err());
        let message = error([UNREACHABLE, FRAGMENTATION_NEEDED], 1400, &sent).unwrap();
        assert_eq!(Report::parse(&message, true).unwrap().too_big(), Some(1400));
        // Too little of the packet is quoted.
        assert!(Report::parse(&message[..HEAD + 27], true).is_err());
        assert!(Report::parse(&message[..HEAD + 28], true).is_ok());
        let long = v4_packet(17, HERE, THERE, &[0; 2000]);
        assert_eq!(error([3, 3], 0, &long).unwrap().len() + v4::HEADER, 576);
    }

    #[test]
    fn reports_v6() {
        let sent = v6_packet(17, &[0; 8]);
        let message = error([TOO_BIG_V6, 0], 1300, &sent).unwrap();
        let report = Report::parse(&message, false).unwrap();
        assert_eq!((report.too_big(), report.inner.at), (Some(1300), 40));
        // Behind the header of a first fragment, and of a later one.
        let first = v6::Fragment {
            next: 17,
            offset: 0,
            more: true,
            number: 1,
        };
        let sent = v6_packet(44, &[&first.bytes()[..], &[0; 16]].concat());
        let message = error([3, 1], 0, &sent).unwrap();
        assert_eq!(Report::parse(&message, false).unwrap().inner.at, 48);
        let later = v6::Fragment { offset: 8, ..first };
        let sent = v6_packet(44, &[&later.bytes()[..], &[0; 16]].concat());
        assert!(!may_report(&sent, false));
        assert!(Report::parse(&error([3, 1], 0, &sent).unwrap(), false).is_err());
    }

    /// There are no reports about reports, to groups, or to an unspecified source.
    #[test]
    fn no_reports() {
        let quiet = |protocol, source, destination, rest: &[u8]| {
            !may_report(&v4_packet(protocol, source, destination, rest), false)
        };
        assert!(quiet(1, HERE, THERE, &[3, 3, 0, 0]));
        assert!(quiet(1, HERE, THERE, &[]));
        assert!(!quiet(1, HERE, THERE, &[8, 0, 0, 0]));
        assert!(quiet(17, HERE, Ipv4Addr::new(224, 0, 0, 1), &[]));
        assert!(quiet(17, Ipv4Addr::UNSPECIFIED, HERE, &[]));
        assert!(quiet(17, Ipv4Addr::BROADCAST, HERE, &[]));
        assert!(!may_report(&v6_packet(58, &[1, 4, 0, 0]), false));
        assert!(may_report(&v6_packet(58, &[128, 0, 0, 0]), false));
    }

    #[test]
    fn paced() {
        let mut limiter = Limiter::new();
        let burst = (0..100).filter(|_| limiter.allows(5 * SECOND, 1)).count();
        assert_eq!(burst, BURST as usize);
        assert!(!limiter.allows(5 * SECOND + PACE - 1, 1));
        assert!(limiter.allows(5 * SECOND + PACE, 1) && !limiter.allows(5 * SECOND + PACE, 1));
        let at = |step| 6 * SECOND + step * SECOND / 4000;
        let second = (0..4000u64).filter(|&step| limiter.allows(at(step), 1));
        assert!((1000..=1050).contains(&second.count()));
        // An earlier time is not an error.
        limiter.allows(0, 1);
    }

    #[test]
    fn what_is_drawn_counts() {
        for (drawn, most) in [(1, 50), (2, 25), (4, 50)] {
            let mut limiter = Limiter::new();
            let burst = (0..100).filter(|_| limiter.allows(5 * SECOND, drawn));
            assert_eq!(burst.count(), most, "{drawn}");
        }
        let mut limiter = Limiter::new();
        assert!((0..100).all(|_| limiter.allows(5 * SECOND, 3)));
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..150), v4 in any::<bool>()) {
            if let Some(first) = bytes.get_mut(HEAD) {
                *first = if v4 { 0x45 } else { 0x60 };
            }
            if let Ok(report) = Report::parse(&bytes, v4) {
                prop_assert!(report.inner.at + 8 <= report.quoted.len());
            }
            let _ = may_report(&bytes, false);
            let _ = reply(&bytes, v4);
        }
    }
}
