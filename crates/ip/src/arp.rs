//! The Address Resolution Protocol, for IPv4 over Ethernet (RFC 826, RFC 5227).

use crate::ethernet::{self, Mac};
use crate::{Malformed, half};
use core::net::Ipv4Addr;

/// The length of a packet in bytes.
pub const LENGTH: usize = 28;
/// Ethernet, IPv4, and the lengths of their addresses.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Asks which card has the target's address.
    Request = 1,
    /// Says that the sender has it.
    Reply = 2,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The purpose of the packet.
    pub operation: Operation,
    /// The card of the sender.
    pub sender: Mac,
    /// The address of the sender; unspecified in a probe that checks if an address is free.
    pub sender_ip: Ipv4Addr,
    /// The card of the receiver, in a reply.
    pub target: Mac,
    /// The requested address.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Reads a packet.
    ///
    /// # Errors
    /// The packet is short, has other address kinds or another operation, or has an impossible
    /// sender.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let packet = bytes.first_chunk::<LENGTH>().ok_or(Malformed)?;
        let operation = match half(packet, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Malformed),
        };
        let mac = |at: usize| core::array::from_fn(|byte| packet[at + byte]);
        let ip =
            |at: usize| Ipv4Addr::from(core::array::from_fn::<u8, 4, _>(|byte| packet[at + byte]));
        let packet = Packet {
            operation,
            sender: Mac(mac(8)),
            sender_ip: ip(14),
            target: Mac(mac(18)),
            target_ip: ip(24),
        };
        let sender = packet.sender_ip;
        let is_host = !(sender.is_multicast() || sender.is_loopback() || sender.is_broadcast());
        match bytes[..6] == KINDS && packet.sender.is_unicast() && is_host {
            true => Ok(packet),
            false => Err(Malformed),
        }
    }

    /// Encodes the packet.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..6].copy_from_slice(&KINDS);
        bytes[7] = self.operation as u8;
        bytes[8..14].copy_from_slice(&self.sender.0);
        bytes[14..18].copy_from_slice(&self.sender_ip.octets());
        bytes[18..24].copy_from_slice(&self.target.0);
        bytes[24..].copy_from_slice(&self.target_ip.octets());
        bytes
    }

    /// The reply from `own`, the card that has the requested address.
    pub fn reply(&self, own: Mac) -> Self {
        Packet {
            operation: Operation::Reply,
            sender: own,
            sender_ip: self.target_ip,
            target: self.sender,
            target_ip: self.sender_ip,
        }
    }

    /// The frame that carries the packet to `to`.
    pub fn frame(&self, to: Mac) -> [u8; ethernet::HEADER + LENGTH] {
        let mut frame = [0; ethernet::HEADER + LENGTH];
        frame[..ethernet::HEADER].copy_from_slice(&ethernet::header(
            to,
            self.sender,
            ethernet::ARP,
        ));
        frame[ethernet::HEADER..].copy_from_slice(&self.bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Packet {
        Packet {
            operation: Operation::Request,
            sender: Mac([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(10, 0, 2, 15),
            target: Mac::default(),
            target_ip: Ipv4Addr::new(10, 0, 2, 2),
        }
    }

    #[test]
    fn both_ways() {
        let request = request();
        assert_eq!(Packet::parse(&request.bytes()), Ok(request));
        let reply = request.reply(Mac([2, 0, 0, 0, 0, 2]));
        assert_eq!(reply.target, request.sender);
        assert_eq!(
            (reply.sender_ip, reply.target_ip),
            (request.target_ip, request.sender_ip)
        );
        let frame = reply.frame(request.sender);
        let frame = ethernet::Frame::parse(&frame).unwrap();
        assert_eq!(Packet::parse(frame.payload), Ok(reply));
    }

    #[test]
    fn liars() {
        for sender in [Mac::default(), Mac::BROADCAST, Mac([1, 0, 0, 0, 0, 1])] {
            let packet = Packet {
                sender,
                ..request()
            };
            assert_eq!(Packet::parse(&packet.bytes()), Err(Malformed));
        }
        for sender_ip in [
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::BROADCAST,
            Ipv4Addr::new(224, 0, 0, 1),
        ] {
            let packet = Packet {
                sender_ip,
                ..request()
            };
            assert_eq!(Packet::parse(&packet.bytes()), Err(Malformed));
        }
        for at in 0..7 {
            let mut bytes = request().bytes();
            bytes[at] ^= 0x40;
            assert_eq!(Packet::parse(&bytes), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert_eq!(&packet.bytes()[..], &bytes[..LENGTH]);
            }
        }
    }
}
