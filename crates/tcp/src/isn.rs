//! Unpredictable numbers: initial sequence numbers (RFC 6528) and the offsets of timestamps (RFC
//! 7323, 7.1).

use crate::siphash::{self, Key};
use core::net::{IpAddr, SocketAddr};

/// The addresses and ports of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// This end's address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub peer: SocketAddr,
}

/// The machine's secret, which is drawn at random once.
#[derive(Clone, Copy)]
pub struct Secret(pub Key);

impl Secret {
    /// The initial sequence number of a connection that starts at `now`; the clock in it advances
    /// by one every 64 ns, as in Linux.
    pub fn sequence(&self, now: u64, tuple: &Tuple) -> u32 {
        (self.hash(tuple, 0) as u32).wrapping_add((now >> 6) as u32)
    }

    /// The offset of timestamps between two addresses, which hides the time since boot, but lets
    /// the clock continue across connections.
    pub fn stamp_offset(&self, tuple: &Tuple) -> u32 {
        let [a, b] = address(tuple.local.ip());
        let [c, d] = address(tuple.peer.ip());
        siphash::hash(self.0, &[a, b, c, d]) as u32
    }

    /// The hash of a tuple and a number.
    pub(crate) fn hash(&self, tuple: &Tuple, number: u64) -> u64 {
        let [a, b] = address(tuple.local.ip());
        let [c, d] = address(tuple.peer.ip());
        let ports = u64::from(tuple.local.port()) << 16 | u64::from(tuple.peer.port());
        siphash::hash(self.0, &[a, b, c, d, ports, number])
    }
}

fn address(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}
