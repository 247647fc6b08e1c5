//! UDP's header (RFC 768).

use crate::checksum::Sum;
use crate::{Malformed, half, protocol};
use core::net::{IpAddr, SocketAddr};

/// The length of a header in bytes.
pub const HEADER: usize = 8;

/// Reads a datagram: the source and destination ports, and the payload.
///
/// # Errors
/// It is longer than the packet, its checksum is wrong, or it has no checksum over IPv6.
pub fn parse(
    source: IpAddr,
    destination: IpAddr,
    datagram: &[u8],
) -> Result<([u16; 2], &[u8]), Malformed> {
    let head = datagram.first_chunk::<HEADER>().ok_or(Malformed)?;
    let length = usize::from(half(head, 4));
    let datagram = datagram
        .get(..length)
        .filter(|_| length >= HEADER)
        .ok_or(Malformed)?;
    let is_right = match half(head, 6) {
        0 => source.is_ipv4(),
        _ => {
            let sum = Sum::pseudo(source, destination, protocol::UDP, length);
            sum.with(datagram).checksum() == 0
        }
    };
    match is_right {
        true => Ok(([half(head, 0), half(head, 2)], &datagram[HEADER..])),
        false => Err(Malformed),
    }
}

/// The header of a datagram with this payload. Without `summed` it has no checksum.
///
/// # Panics
/// If the datagram is longer than 65535 bytes.
pub fn header(from: SocketAddr, to: SocketAddr, payload: &[u8], summed: bool) -> [u8; HEADER] {
    let length = u16::try_from(HEADER + payload.len()).expect("a datagram that is not too long");
    let mut head = [0; HEADER];
    head[..2].copy_from_slice(&from.port().to_be_bytes());
    head[2..4].copy_from_slice(&to.port().to_be_bytes());
    head[4..6].copy_from_slice(&length.to_be_bytes());
    if summed {
        let sum = Sum::pseudo(from.ip(), to.ip(), protocol::UDP, length.into());
        let sum = match sum.with(&head).with(payload).checksum() {
            // Zero means that there is no checksum.
            0 => u16::MAX,
            sum => sum,
        };
        head[6..].copy_from_slice(&sum.to_be_bytes());
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn ends(v6: bool) -> [SocketAddr; 2] {
        match v6 {
            true => ["[fec0::1]:7", "[fec0::2]:9"],
            false => ["10.0.2.15:7", "10.0.2.2:9"],
        }
        .map(|end| end.parse().unwrap())
    }

    fn whole(v6: bool, payload: &[u8], summed: bool) -> Vec<u8> {
        let [from, to] = ends(v6);
        [&header(from, to, payload, summed), payload].concat()
    }

    #[test]
    fn both_ways() {
        for v6 in [false, true] {
            let [from, to] = ends(v6).map(|end| end.ip());
            let mut bytes = whole(v6, b"hello", true);
            bytes.extend([1, 2]);
            assert_eq!(parse(from, to, &bytes), Ok(([7, 9], &b"hello"[..])));
            for at in 0..13 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(parse(from, to, &damaged), Err(Malformed));
            }
            assert_eq!(parse(from, to, &bytes[..12]), Err(Malformed));
            let bare = whole(v6, b"hello", false);
            assert_eq!(parse(from, to, &bare).is_ok(), !v6);
        }
    }

    /// A datagram whose sum is zero is sent with the other representation of zero.
    #[test]
    fn zero() {
        let [from, to] = ends(false);
        let sum = u16::from_be_bytes([
            header(from, to, &[0, 0], true)[6],
            header(from, to, &[0, 0], true)[7],
        ]);
        let bytes = whole(false, &sum.to_be_bytes(), true);
        assert_eq!(&bytes[6..8], &[0xff, 0xff]);
        assert!(parse(from.ip(), to.ip(), &bytes).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40), v6 in any::<bool>()) {
            let [from, to] = ends(v6).map(|end| end.ip());
            let _ = parse(from, to, &bytes);
        }
    }
}
