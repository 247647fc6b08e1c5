//! Options of levels IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP and IPPROTO_UDP: kept and told, as where no packet is they have
//! nothing to change.

use super::place::Place;
use crate::errno::{Errno, Result};
use crate::net::options::{bytes, number};
use crate::net::socket::Base;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering::*};
use linux_raw_sys::net::{
    AF_INET6, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE, IPV6_V6ONLY,
    SOL_IPV6, SOL_TCP, TCP_CONGESTION, TCP_INFO,
};

/// Levels of options.
pub const IP: u32 = IPPROTO_IP as u32;
/// The same for IPv6.
pub const IPV6: u32 = IPPROTO_IPV6 as u32;
const TCP: u32 = IPPROTO_TCP as u32;
const UDP: u32 = IPPROTO_UDP as u32;
const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;

/// Level, name (`include/uapi/linux/{in,in6,tcp,udp}.h`) and default of what is kept.
const KEPT: [(u32, u32, i32); 42] = [
    (IP, 1, 0),        // IP_TOS
    (IP, 2, 64),       // IP_TTL
    (IP, 3, 0),        // IP_HDRINCL
    (IP, 6, 0),        // IP_RECVOPTS
    (IP, 7, 0),        // IP_RETOPTS
    (IP, 8, 0),        // IP_PKTINFO
    (IP, 10, 1),       // IP_MTU_DISCOVER
    (IP, 11, 0),       // IP_RECVERR
    (IP, 12, 0),       // IP_RECVTTL
    (IP, 13, 0),       // IP_RECVTOS
    (IP, 15, 0),       // IP_FREEBIND
    (IP, 19, 0),       // IP_TRANSPARENT
    (IP, 20, 0),       // IP_RECVORIGDSTADDR
    (IP, 24, 0),       // IP_BIND_ADDRESS_NO_PORT
    (IP, 33, 1),       // IP_MULTICAST_TTL
    (IP, 34, 1),       // IP_MULTICAST_LOOP
    (IP, 49, 1),       // IP_MULTICAST_ALL
    (IP, 51, 0),       // IP_LOCAL_PORT_RANGE
    (IPV6, 16, -1),    // IPV6_UNICAST_HOPS
    (IPV6, 18, 1),     // IPV6_MULTICAST_HOPS
    (IPV6, 19, 1),     // IPV6_MULTICAST_LOOP
    (IPV6, 23, 1),     // IPV6_MTU_DISCOVER
    (IPV6, 25, 0),     // IPV6_RECVERR
    (IPV6, 49, 0),     // IPV6_RECVPKTINFO
    (IPV6, 51, 0),     // IPV6_RECVHOPLIMIT
    (IPV6, 66, 0),     // IPV6_RECVTCLASS
    (IPV6, 67, 0),     // IPV6_TCLASS
    (TCP, 1, 0),       // TCP_NODELAY
    (TCP, 2, 65483),   // TCP_MAXSEG
    (TCP, 3, 0),       // TCP_CORK
    (TCP, 4, 7200),    // TCP_KEEPIDLE
    (TCP, 5, 75),      // TCP_KEEPINTVL
    (TCP, 6, 9),       // TCP_KEEPCNT
    (TCP, 7, 6),       // TCP_SYNCNT
    (TCP, 8, 60),      // TCP_LINGER2
    (TCP, 9, 0),       // TCP_DEFER_ACCEPT
    (TCP, 12, 1),      // TCP_QUICKACK
    (TCP, 18, 0),      // TCP_USER_TIMEOUT
    (TCP, 23, 0),      // TCP_FASTOPEN
    (UDP, 1, 0),       // UDP_CORK
    (UDP_LITE, 10, 0), // UDPLITE_SEND_CSCOV
    (UDP_LITE, 11, 0), // UDPLITE_RECV_CSCOV
];

/// The options of a socket.
pub struct Options([AtomicI32; KEPT.len()]);

impl Options {
    /// As a new socket has them.
    pub fn new() -> Self {
        Options(KEPT.map(|(_, _, default)| AtomicI32::new(default)))
    }

    /// The value of an option that is kept.
    pub fn value(&self, level: u32, name: u32) -> i32 {
        let found = KEPT.iter().position(|&(a, b, _)| (a, b) == (level, name));
        found.map_or(0, |at| self.0[at].load(Acquire))
    }

    fn find(&self, base: &Base, level: u32, name: u32) -> Option<&AtomicI32> {
        let known = match level {
            IPV6 => base.domain == AF_INET6,
            TCP | UDP | UDP_LITE => base.protocol == level,
            _ => true,
        };
        let at = KEPT.iter().position(|&(a, b, _)| (a, b) == (level, name))?;
        known.then(|| &self.0[at])
    }

    /// Sets one.
    pub fn set(
        &self,
        base: &Base,
        place: &Place,
        level: u32,
        name: u32,
        value: &[u8],
    ) -> Result<()> {
        if (level, name) == (SOL_IPV6, IPV6_V6ONLY as u32) && base.domain == AF_INET6 {
            if place.local().is_some() {
                return Err(Errno::EINVAL);
            }
            place.only_v6.store(number(value)? != 0, Release);
            return Ok(());
        }
        if (level, name) == (SOL_TCP, TCP_CONGESTION as u32) {
            let known = value.starts_with(b"cubic") || value.starts_with(b"reno");
            return if known { Ok(()) } else { Err(Errno::ENOENT) };
        }
        let option = self.find(base, level, name).ok_or(Errno::ENOPROTOOPT)?;
        let given = match value {
            // IPv4's options may be single bytes.
            &[byte] if level == IP => byte.into(),
            _ => number(value)?,
        };
        option.store(given, Release);
        Ok(())
    }

    /// Tells one; `state` is that of the connection, for TCP_INFO.
    pub fn get(
        &self,
        base: &Base,
        place: &Place,
        level: u32,
        name: u32,
        state: u8,
    ) -> Result<Vec<u8>> {
        if (level, name) == (SOL_IPV6, IPV6_V6ONLY as u32) && base.domain == AF_INET6 {
            return bytes(u32::from(place.only_v6.load(Acquire)));
        }
        if level == SOL_TCP && base.protocol == TCP {
            if name == TCP_INFO as u32 {
                let mut info = [0u8; 232];
                info[0] = state;
                return bytes(info);
            }
            if name == TCP_CONGESTION as u32 {
                return bytes(*b"cubic\0\0\0\0\0\0\0\0\0\0\0");
            }
        }
        let refusal = if base.domain == AF_INET6 || level == IP || level == base.protocol {
            Errno::ENOPROTOOPT
        } else {
            Errno::EOPNOTSUPP
        };
        let option = self.find(base, level, name).ok_or(refusal)?;
        bytes(option.load(Acquire))
    }
}
