//! Neighbour discovery (RFC 4861): ICMPv6's messages about neighbours and routers.

use crate::ethernet::Mac;
use crate::icmp::HEAD;
use crate::routes::Prefix;
use crate::{Malformed, half, word};
use core::net::Ipv6Addr;

/// Message kinds.
pub const ROUTER_SOLICITATION: u8 = 133;
/// See above.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// See above.
pub const SOLICITATION: u8 = 135;
/// See above.
pub const ADVERTISEMENT: u8 = 136;
/// The hop limit of these messages; a message that passed a router has a lower one.
pub const HOPS: u8 = 255;
/// The most prefixes that are read from one message.
pub const MOST_PREFIXES: usize = 4;

/// Options: the source's card, the target's card, a prefix, the link's MTU.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;
/// Flags of an advertisement.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A prefix that a router advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The prefix.
    pub prefix: Prefix,
    /// Whether its addresses are on the link.
    pub on_link: bool,
    /// Whether hosts may generate addresses with it.
    pub autonomous: bool,
    /// For how many seconds such an address is valid; `u32::MAX` is forever.
    pub valid: u32,
    /// For how many seconds it is preferred.
    pub preferred: u32,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks which card has an address.
    Solicitation {
        /// The address.
        target: Ipv6Addr,
        /// The sender's card; none if the sender checks whether the address is free.
        card: Option<Mac>,
    },
    /// Says that the sender has an address.
    Advertisement {
        /// The address.
        target: Ipv6Addr,
        /// Its card, if named.
        card: Option<Mac>,
        /// Whether it answers a solicitation.
        solicited: bool,
        /// Whether it replaces what is known.
        overrides: bool,
    },
    /// Says that the sender is a router.
    Router {
        /// For how many seconds it is a default router; 0 if it is none.
        lifetime: u16,
        /// The hop limit that it advises; 0 if none.
        hops: u8,
        /// Its card, if named.
        card: Option<Mac>,
        /// The link's MTU, if named.
        mtu: Option<u32>,
        /// Prefixes for addresses on the link.
        prefixes: [Option<Advertised>; MOST_PREFIXES],
    },
}

/// Iterates over options: each has a kind, and a length in units of 8 bytes.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u8, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let length = self.0.get(1).map_or(0, |&groups| usize::from(groups) * 8);
        let option = self.0.get(..length).filter(|option| !option.is_empty());
        self.0 = option.map_or(&[], |_| &self.0[length..]);
        Some(option.map(|option| (option[0], option)).ok_or(Malformed))
    }
}

fn card(option: &[u8]) -> Option<Mac> {
    let mac = Mac(*option.get(2..)?.first_chunk()?);
    mac.is_unicast().then_some(mac)
}

fn ip(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let octets = bytes.get(at..)?.first_chunk::<16>()?;
    Some((*octets).into())
}

impl Message {
    /// Reads a valid ICMPv6 message from a packet from `source` to `destination` that has this hop
    /// limit left.
    ///
    /// # Errors
    /// It is none of these, passed a router, or is one that RFC 4861 requires hosts to discard.
    pub fn parse(
        message: &[u8],
        hops: u8,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<Self, Malformed> {
        let head = message.first_chunk::<HEAD>().ok_or(Malformed)?;
        if hops != HOPS || head[1] != 0 {
            return Err(Malformed);
        }
        match head[0] {
            SOLICITATION => solicitation(message, source, destination),
            ADVERTISEMENT => advertisement(message, head[4], destination),
            ROUTER_ADVERTISEMENT => router(message, source),
            _ => Err(Malformed),
        }
    }
}

fn target(message: &[u8]) -> Result<Ipv6Addr, Malformed> {
    ip(message, HEAD)
        .filter(|target| !target.is_multicast())
        .ok_or(Malformed)
}

/// The last option of a kind; all options must be complete.
fn find(options: &[u8], kind: u8) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for option in Options(options) {
        let (other, option) = option?;
        if other == kind {
            found = Some(option);
        }
    }
    Ok(found)
}

fn solicitation(
    message: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Result<Message, Malformed> {
    let target = target(message)?;
    let card = find(&message[HEAD + 16..], SOURCE)?.and_then(card);
    let is_probe = source.is_unspecified();
    let is_wrong = card.is_some() || destination != crate::v6::solicited_node(target);
    match is_probe && is_wrong {
        true => Err(Malformed),
        false => Ok(Message::Solicitation { target, card }),
    }
}

fn advertisement(message: &[u8], flags: u8, destination: Ipv6Addr) -> Result<Message, Malformed> {
    let target = target(message)?;
    let card = find(&message[HEAD + 16..], TARGET)?.and_then(card);
    let solicited = flags & SOLICITED != 0;
    match solicited && destination.is_multicast() {
        true => Err(Malformed),
        false => Ok(Message::Advertisement {
            target,
            card,
            solicited,
            overrides: flags & OVERRIDE != 0,
        }),
    }
}

fn router(message: &[u8], source: Ipv6Addr) -> Result<Message, Malformed> {
    let options = message.get(16..).ok_or(Malformed)?;
    if source.segments()[0] & 0xffc0 != 0xfe80 {
        return Err(Malformed);
    }
    let mut prefixes = [None; MOST_PREFIXES];
    let mut count = 0;
    for option in Options(options) {
        let (kind, option) = option?;
        if kind == PREFIX
            && count < MOST_PREFIXES
            && let Some(advertised) = advertised(option)
        {
            prefixes[count] = Some(advertised);
            count += 1;
        }
    }
    let mtu = find(options, MTU)?.map(|option| word(option, 4));
    Ok(Message::Router {
        lifetime: half(message, 6),
        hops: message[4],
        card: find(options, SOURCE)?.and_then(card),
        mtu: mtu.filter(|&mtu| mtu as usize >= crate::v6::LEAST_MTU),
        prefixes,
    })
}

fn advertised(option: &[u8]) -> Option<Advertised> {
    let ip = ip(option, 16)?;
    let (valid, preferred) = (word(option, 4), word(option, 8));
    let is_link_local = ip.segments()[0] & 0xffc0 == 0xfe80;
    if is_link_local || ip.is_multicast() || preferred > valid {
        return None;
    }
    Some(Advertised {
        prefix: Prefix::of(ip.into(), option[2])?,
        on_link: option[3] & 0x80 != 0,
        autonomous: option[3] & 0x40 != 0,
        valid,
        preferred,
    })
}

/// The lengths of the messages to neighbours, and to routers.
pub const LENGTH: usize = HEAD + 16 + 8;
/// See above.
pub const ROUTER_LENGTH: usize = HEAD + 8;

/// A solicitation for an address from the card `own`, without its checksum.
pub fn ask(target: Ipv6Addr, own: Mac) -> [u8; LENGTH] {
    about([SOLICITATION, 0], target, SOURCE, own)
}

/// The advertisement of a card that has an address, to one host or all, without its checksum.
pub fn answer(target: Ipv6Addr, own: Mac, solicited: bool) -> [u8; LENGTH] {
    let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
    about([ADVERTISEMENT, flags], target, TARGET, own)
}

/// A solicitation for routers, without its checksum.
pub fn ask_routers(own: Mac) -> [u8; ROUTER_LENGTH] {
    let mut message = [0; ROUTER_LENGTH];
    message[0] = ROUTER_SOLICITATION;
    message[HEAD..HEAD + 2].copy_from_slice(&[SOURCE, 1]);
    message[HEAD + 2..].copy_from_slice(&own.0);
    message
}

fn about([kind, flags]: [u8; 2], target: Ipv6Addr, option: u8, own: Mac) -> [u8; LENGTH] {
    const _: () = assert!(ROUTER & (SOLICITED | OVERRIDE) == 0);
    let mut message = [0; LENGTH];
    (message[0], message[4]) = (kind, flags);
    message[HEAD..HEAD + 16].copy_from_slice(&target.octets());
    message[HEAD + 16..HEAD + 18].copy_from_slice(&[option, 1]);
    message[HEAD + 18..].copy_from_slice(&own.0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn here() -> Ipv6Addr {
        "fe80::1".parse().unwrap()
    }

    fn there() -> Ipv6Addr {
        "fe80::2".parse().unwrap()
    }

    #[test]
    fn neighbours() {
        let (target, group) = (there(), crate::v6::solicited_node(there()));
        let asked = Message::parse(&ask(target, OWN), HOPS, here(), group);
        assert_eq!(
            asked,
            Ok(Message::Solicitation {
                target,
                card: Some(OWN)
            })
        );
        // Not from another link, nor with a card from the unspecified address.
        assert!(Message::parse(&ask(target, OWN), 254, here(), group).is_err());
        assert!(Message::parse(&ask(target, OWN), HOPS, Ipv6Addr::UNSPECIFIED, group).is_err());
        let probe = &ask(target, OWN)[..HEAD + 16];
        let found = Message::parse(probe, HOPS, Ipv6Addr::UNSPECIFIED, group);
        assert_eq!(found, Ok(Message::Solicitation { target, card: None }));
        assert!(Message::parse(probe, HOPS, Ipv6Addr::UNSPECIFIED, target).is_err());
        let all = "ff02::1".parse().unwrap();
        for solicited in [false, true] {
            let answer = answer(target, OWN, solicited);
            let said = Message::Advertisement {
                target,
                card: Some(OWN),
                solicited,
                overrides: true,
            };
            assert_eq!(Message::parse(&answer, HOPS, target, here()), Ok(said));
            assert_eq!(
                Message::parse(&answer, HOPS, target, all).is_ok(),
                !solicited
            );
        }
    }

    /// An option without a length, and one that is longer than the message.
    #[test]
    fn bad_options() {
        for groups in [0, 2] {
            let mut message = ask(there(), OWN);
            message[HEAD + 17] = groups;
            assert!(Message::parse(&message, HOPS, here(), there()).is_err());
        }
    }

    #[test]
    fn routers() {
        let mut message = [0; 16].to_vec();
        (message[0], message[4]) = (ROUTER_ADVERTISEMENT, 64);
        message[6..8].copy_from_slice(&1800u16.to_be_bytes());
        message.extend([1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
        let mut prefix = [3, 4, 64, 0xc0].to_vec();
        prefix.extend([86400u32.to_be_bytes(), 14400u32.to_be_bytes(), [0; 4]].concat());
        prefix.extend("fec0::9".parse::<Ipv6Addr>().unwrap().octets());
        message.extend(&prefix);
        let Ok(Message::Router {
            lifetime,
            hops,
            card,
            mtu,
            prefixes,
        }) = Message::parse(&message, HOPS, there(), here())
        else {
            panic!("it is one");
        };
        assert_eq!(
            (lifetime, hops, card, mtu),
            (1800, 64, Some(OWN), Some(1500))
        );
        let first = prefixes[0].unwrap();
        assert_eq!(
            first.prefix,
            Prefix::of("fec0::".parse().unwrap(), 64).unwrap()
        );
        assert!(first.on_link && first.autonomous);
        assert_eq!(
            (first.valid, first.preferred, prefixes[1]),
            (86400, 14400, None)
        );
        // Not from off the link; a prefix that is preferred for longer than it is valid.
        assert!(Message::parse(&message, HOPS, "fec0::2".parse().unwrap(), here()).is_err());
        prefix[4..8].fill(0);
        assert_eq!(advertised(&prefix), None);
        prefix[2] = 129;
        prefix[8..12].fill(0);
        assert_eq!(advertised(&prefix), None);
    }

    proptest! {
        #[test]
        fn any_bytes(kind in 133u8..138, mut bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if bytes.len() > 1 {
                (bytes[0], bytes[1]) = (kind, 0);
            }
            let _ = Message::parse(&bytes, HOPS, here(), there());
        }

        /// Complete options of any kind.
        #[test]
        fn any_options(options in proptest::collection::vec((0u8..8, 1u8..5), 0..10)) {
            let mut bytes: Vec<u8> = [0; 16].to_vec();
            bytes[0] = ROUTER_ADVERTISEMENT;
            for (kind, groups) in options {
                bytes.extend([kind, groups]);
                bytes.resize(bytes.len() + usize::from(groups) * 8 - 2, 0x20);
            }
            prop_assert!(Message::parse(&bytes, HOPS, here(), there()).is_ok());
        }
    }
}
