//! The Internet's checksum (RFC 1071).

use core::net::IpAddr;

/// A sum of 16-bit words that is not folded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub const fn new() -> Self {
        Sum(0)
    }

    /// The pseudo-header: addresses, protocol, and the length of what follows (RFC 768, RFC 8200).
    pub fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> Self {
        let address = |sum: Sum, ip| match ip {
            IpAddr::V4(ip) => sum.with(&ip.octets()),
            IpAddr::V6(ip) => sum.with(&ip.octets()),
        };
        let Sum(sum) = address(address(Sum(0), source), destination);
        Sum(sum + u64::from(protocol) + length as u64)
    }

    /// Adds bytes that begin at an even place; an odd last byte is padded with a zero byte. Up to
    /// 16 GiB of them do not overflow.
    pub fn with(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = words.iter().fold(self.0, |sum, &word| {
            let word = u32::from_be_bytes(word);
            sum + u64::from(word)
        });
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Sum(sum + u64::from(u32::from_be_bytes(last)))
    }

    /// The sum in 16 bits, as a device expects it in the checksum field if it finishes the
    /// checksum.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum; it is 0 over bytes that contain a correct one.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of RFC 1071, 3.
    #[test]
    fn example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().with(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::new().with(&[]).checksum(), 0xffff);
        assert_eq!(Sum::new().with(&[0xab]).folded(), 0xab00);
    }

    proptest! {
        #[test]
        fn of_halves(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let sum = bytes.chunks(2).fold(0u32, |sum, pair| {
                let sum = sum + (u32::from(pair[0]) << 8) + pair.get(1).map_or(0, |&low| low.into());
                (sum & 0xffff) + (sum >> 16)
            });
            // Zero has two representations.
            let folded = u32::from(Sum::new().with(&bytes).folded());
            prop_assert_eq!(folded % 0xffff, sum % 0xffff);
        }
    }
}
