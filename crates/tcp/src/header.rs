//! The header of a segment (RFC 9293, 3.1).
//!
//! The checksum is left zero and not checked: it covers addresses that this crate does not know,
//! and a device may compute it.

use crate::options::{self, Options};
use bitflags::bitflags;

/// The size of a header without options in bytes.
pub const LENGTH: usize = 20;
/// The maximum size of a header in bytes.
pub const MOST_BYTES: usize = LENGTH + options::MOST_BYTES;

bitflags! {
    /// Control bits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// No more data from the sender.
        const FIN = 1;
        /// Synchronise sequence numbers.
        const SYN = 1 << 1;
        /// Reset the connection.
        const RST = 1 << 2;
        /// Push.
        const PSH = 1 << 3;
        /// The acknowledgment field is valid.
        const ACK = 1 << 4;
        /// The urgent pointer is valid.
        const URG = 1 << 5;
    }
}

/// A segment without its payload, addresses and checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// The sequence number of the first byte, or of SYN.
    pub seq: u32,
    /// The next sequence number that the sender expects; valid with ACK.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The sender's window, unscaled.
    pub window: u16,
    /// With URG: the urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

/// The bytes are not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Header {
    /// Parses a header; returns it, and the offset of the payload.
    ///
    /// # Errors
    /// [`Malformed`] if there are fewer bytes than the header needs, or its data offset is below
    /// five.
    pub fn parse(segment: &[u8]) -> Result<(Self, usize), Malformed> {
        let fixed = segment.first_chunk::<LENGTH>().ok_or(Malformed)?;
        let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let payload = usize::from(fixed[12] >> 4) * 4;
        let options = segment.get(LENGTH..payload).ok_or(Malformed)?;
        let header = Header {
            source: half(0),
            destination: half(2),
            seq: word(4),
            ack: word(8),
            flags: Flags::from_bits_retain(fixed[13]),
            window: half(14),
            urgent: half(18),
            options: Options::parse(options),
        };
        Ok((header, payload))
    }

    /// Writes the header; returns its length.
    pub fn write(&self, to: &mut [u8; MOST_BYTES]) -> usize {
        let mut options = [0; options::MOST_BYTES];
        let length = LENGTH + self.options.write(&mut options);
        to[0..2].copy_from_slice(&self.source.to_be_bytes());
        to[2..4].copy_from_slice(&self.destination.to_be_bytes());
        to[4..8].copy_from_slice(&self.seq.to_be_bytes());
        to[8..12].copy_from_slice(&self.ack.to_be_bytes());
        to[12] = (length as u8 / 4) << 4;
        to[13] = self.flags.bits();
        to[14..16].copy_from_slice(&self.window.to_be_bytes());
        to[16..18].fill(0);
        to[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        to[LENGTH..].copy_from_slice(&options);
        length
    }

    /// The RST that answers a segment without a connection, if it must be answered (RFC 9293,
    /// 3.10.7.1). `payload` is the length of the segment's payload.
    pub fn reset(&self, payload: usize) -> Option<Header> {
        if self.flags.contains(Flags::RST) {
            return None;
        }
        let ends = self.flags.contains(Flags::SYN) as u32 + self.flags.contains(Flags::FIN) as u32;
        let (seq, ack, flags) = if self.flags.contains(Flags::ACK) {
            (self.ack, 0, Flags::RST)
        } else {
            let end = self.seq.wrapping_add(payload as u32).wrapping_add(ends);
            (0, end, Flags::RST | Flags::ACK)
        };
        Some(Header {
            source: self.destination,
            destination: self.source,
            seq,
            ack,
            flags,
            ..Header::default()
        })
    }
}
