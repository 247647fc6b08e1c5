//! Options of levels IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP and IPPROTO_UDP. Most are only stored
//! and returned, since they have no effect where there are no packets.

use super::bind::{Binding, Place};
use super::connections;
use crate::errno::{Errno, Result};
use crate::net::options::{bytes, number};
use crate::net::socket::Base;
use crate::net::{RAW, STREAM};
use crate::task::can;
use abi::options::Group;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_raw_sys::net::{
    AF_INET6, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE, IPV6_V6ONLY,
    SOL_IPV6, SOL_TCP, TCP_CONGESTION, TCP_INFO, TCP_ULP,
};

/// The level of IPv4's options.
pub const IP: u32 = IPPROTO_IP as u32;
/// The level of IPv6's options.
pub const IPV6: u32 = IPPROTO_IPV6 as u32;
const TCP: u32 = IPPROTO_TCP as u32;
/// The level of UDP's options.
pub const UDP: u32 = IPPROTO_UDP as u32;
/// The level of UDP-Lite's options, which are the same.
pub const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
/// The TCP_INFO state of a connection, also of a connected UDP socket.
const ESTABLISHED: u8 = 1;

/// The values to which an option can be set, and the resulting value.
#[derive(Clone, Copy)]
enum Rule {
    /// On or off.
    Switch,
    /// On or off, by 1 or 0 only.
    Bit,
    /// The same, without an effect.
    Ignored,
    /// A number in this range.
    Within(i32, i32),
    /// A number in this range, or -1 for the default.
    Renewed(i32, i32),
    /// Any number.
    Any,
    /// A traffic class, whose last two bits belong to TCP.
    Class,
    /// A segment's size; 0 for the default.
    Segment,
    /// Seconds of a closed connection; 0 for the system's default, and negative for none.
    Linger,
    /// Seconds, which are converted to a number of attempts.
    Attempts,
    /// The size of a window; 0 for none.
    Window,
    /// The length of a queue.
    Queue,
    /// The size of a packet: at least the minimum MTU, or 0 for the path's.
    Packet,
    /// For datagram sockets: a number in this range, or -1 for the default.
    Multicast,
    /// The lowest and the highest port, either of which may be 0.
    Range,
    /// On or off; turning it on requires CAP_NET_ADMIN.
    Privileged,
    /// Read-only.
    ReadOnly,
}

use Rule::*;

/// Level, name (`include/uapi/linux/{in,in6,tcp,udp}.h`), default and rule of stored options.
const KEPT: [(u32, u32, i32, Rule); 73] = [
    (IP, 1, 0, Class),                 // IP_TOS
    (IP, 2, 64, Renewed(1, 255)),      // IP_TTL
    (IP, 3, 0, ReadOnly),              // IP_HDRINCL
    (IP, 6, 0, Switch),                // IP_RECVOPTS
    (IP, 7, 0, Switch),                // IP_RETOPTS
    (IP, 8, 0, Switch),                // IP_PKTINFO
    (IP, 10, 1, Within(0, 5)),         // IP_MTU_DISCOVER
    (IP, 11, 0, Switch),               // IP_RECVERR
    (IP, 12, 0, Switch),               // IP_RECVTTL
    (IP, 13, 0, Switch),               // IP_RECVTOS
    (IP, 15, 0, Switch),               // IP_FREEBIND
    (IP, 18, 0, Switch),               // IP_PASSSEC
    (IP, 19, 0, Privileged),           // IP_TRANSPARENT
    (IP, 20, 0, Switch),               // IP_RECVORIGDSTADDR
    (IP, 22, 0, ReadOnly),             // IP_NODEFRAG
    (IP, 23, 0, Switch),               // IP_CHECKSUM
    (IP, 24, 0, Switch),               // IP_BIND_ADDRESS_NO_PORT
    (IP, 26, 0, Bit),                  // IP_RECVERR_RFC4884
    (IP, 33, 1, Multicast),            // IP_MULTICAST_TTL
    (IP, 34, 1, Switch),               // IP_MULTICAST_LOOP
    (IP, 49, 1, Bit),                  // IP_MULTICAST_ALL
    (IP, 51, 0, Range),                // IP_LOCAL_PORT_RANGE
    (IPV6, 2, 0, Switch),              // IPV6_2292PKTINFO
    (IPV6, 3, 0, Switch),              // IPV6_2292HOPOPTS
    (IPV6, 4, 0, Switch),              // IPV6_2292DSTOPTS
    (IPV6, 5, 0, Switch),              // IPV6_2292RTHDR
    (IPV6, 8, 0, Switch),              // IPV6_2292HOPLIMIT
    (IPV6, 16, 64, Renewed(0, 255)),   // IPV6_UNICAST_HOPS
    (IPV6, 18, 1, Multicast),          // IPV6_MULTICAST_HOPS
    (IPV6, 19, 1, Bit),                // IPV6_MULTICAST_LOOP
    (IPV6, 22, 0, ReadOnly),           // IPV6_ROUTER_ALERT
    (IPV6, 23, 1, Within(0, 5)),       // IPV6_MTU_DISCOVER
    (IPV6, IPV6_MTU, 0, Packet),       // what a path takes is read instead
    (IPV6, 25, 0, Switch),             // IPV6_RECVERR
    (IPV6, 29, 1, Switch),             // IPV6_MULTICAST_ALL
    (IPV6, 31, 0, Bit),                // IPV6_RECVERR_RFC4884
    (IPV6, 49, 0, Switch),             // IPV6_RECVPKTINFO
    (IPV6, 51, 0, Switch),             // IPV6_RECVHOPLIMIT
    (IPV6, 53, 0, Switch),             // IPV6_RECVHOPOPTS
    (IPV6, 56, 0, Switch),             // IPV6_RECVRTHDR
    (IPV6, 58, 0, Switch),             // IPV6_RECVDSTOPTS
    (IPV6, 60, 0, Switch),             // IPV6_RECVPATHMTU
    (IPV6, 62, 0, Switch),             // IPV6_DONTFRAG
    (IPV6, 66, 0, Switch),             // IPV6_RECVTCLASS
    (IPV6, 67, 0, Class),              // IPV6_TCLASS
    (IPV6, 74, 0, Switch),             // IPV6_RECVORIGDSTADDR
    (IPV6, 75, 0, Privileged),         // IPV6_TRANSPARENT
    (IPV6, 77, 0, Switch),             // IPV6_RECVFRAGSIZE
    (IPV6, 78, 0, Switch),             // IPV6_FREEBIND
    (TCP, 1, 0, Switch),               // TCP_NODELAY
    (TCP, 2, 0, Segment),              // TCP_MAXSEG
    (TCP, 3, 0, Switch),               // TCP_CORK
    (TCP, 4, 7200, Within(1, 32767)),  // TCP_KEEPIDLE
    (TCP, 5, 75, Within(1, 32767)),    // TCP_KEEPINTVL
    (TCP, 6, 9, Within(1, 127)),       // TCP_KEEPCNT
    (TCP, 7, 6, Within(1, 127)),       // TCP_SYNCNT
    (TCP, 8, 60, Linger),              // TCP_LINGER2
    (TCP, 9, 0, Attempts),             // TCP_DEFER_ACCEPT
    (TCP, 10, 0, Window),              // TCP_WINDOW_CLAMP
    (TCP, 12, 1, Switch),              // TCP_QUICKACK
    (TCP, 16, 0, Bit),                 // TCP_THIN_LINEAR_TIMEOUTS
    (TCP, 17, 0, Ignored),             // TCP_THIN_DUPACK
    (TCP, 18, 0, Within(0, i32::MAX)), // TCP_USER_TIMEOUT
    (TCP, 23, 0, Queue),               // TCP_FASTOPEN
    (TCP, 25, 0, Any),                 // TCP_NOTSENT_LOWAT
    (TCP, 30, 0, Bit),                 // TCP_FASTOPEN_CONNECT
    (TCP, 36, 0, Bit),                 // TCP_INQ
    (TCP, 43, 0, ReadOnly),            // TCP_IS_MPTCP
    (UDP, 1, 0, Switch),               // UDP_CORK
    (UDP, 101, 0, Switch),             // UDP_NO_CHECK6_TX
    (UDP, 102, 0, Switch),             // UDP_NO_CHECK6_RX
    (UDP, 103, 0, Within(0, 65535)),   // UDP_SEGMENT
    (UDP, 104, 0, Switch),             // UDP_GRO
];

/// Options that are not in the table.
const OTHERS: [(u32, u32); 5] = [
    (IP, IP_MTU),
    (IPV6, IPV6_V6ONLY),
    (TCP, TCP_INFO),
    (TCP, TCP_CONGESTION),
    (TCP, TCP_ULP),
];

/// Whether the handled options of a level are exactly those in the document.
const fn is_documented(level: u32, group: &Group) -> bool {
    let mut handled = [0; KEPT.len() + OTHERS.len()];
    let (mut count, mut at) = (0, 0);
    while at < handled.len() {
        let (of, name) = if at < KEPT.len() {
            (KEPT[at].0, KEPT[at].1)
        } else {
            OTHERS[at - KEPT.len()]
        };
        if of == level {
            handled[count] = name as u64;
            count += 1;
        }
        at += 1;
    }
    group.is_handled_by(handled.split_at(count).0)
}

const _: () = assert!(is_documented(IP, &abi::options::IP));
const _: () = assert!(is_documented(IPV6, &abi::options::IPV6));
const _: () = assert!(is_documented(TCP, &abi::options::TCP));
const _: () = assert!(is_documented(UDP, &abi::options::UDP));

impl Rule {
    /// The value of an option after it was set to `given`; `default` is its initial value.
    fn apply(self, level: u32, given: i32, default: i32, stream: bool) -> Result<i32> {
        let within = |range: core::ops::RangeInclusive<i32>| {
            let known = range.contains(&given);
            if known { Ok(given) } else { Err(Errno::EINVAL) }
        };
        match self {
            Switch => Ok((given != 0).into()),
            Bit => within(0..=1),
            Ignored => within(0..=1).map(|_| default),
            Within(least, most) => within(least..=most),
            Renewed(..) if given == -1 => Ok(default),
            Renewed(least, most) => within(least..=most),
            Any => Ok(given),
            Class if level == IPV6 && given == -1 => Ok(default),
            Class if level == IPV6 && !(0..=255).contains(&given) => Err(Errno::EINVAL),
            Class => Ok(given & if stream { 0xfc } else { 0xff }),
            Segment if given == 0 => Ok(default),
            Segment => within(MIN_SEGMENT..=MAX_SEGMENT),
            Linger if given == 0 => Ok(default),
            Linger => Ok(given.clamp(-1, MAX_LINGER)),
            Attempts => Ok(attempts(given)),
            Window if given == 0 => Ok(0),
            Window => Ok((given as u32).max(MIN_WINDOW) as i32),
            Queue => within(0..=i32::MAX).map(|most| most.min(MAX_QUEUE)),
            Packet if given == 0 => Ok(0),
            Packet => within(MIN_PACKET..=i32::MAX),
            Multicast if stream && level == IPV6 => Err(Errno::ENOPROTOOPT),
            Multicast if stream => Err(Errno::EINVAL),
            Multicast if given == -1 => Ok(default),
            Multicast => within(0..=255),
            Range if given as u16 > (given >> 16) as u16 && given as u32 >> 16 != 0 => {
                Err(Errno::EINVAL)
            }
            Range => Ok(given),
            Privileged if given != 0 && !can(CAP_NET_RAW) && !can(CAP_NET_ADMIN) => {
                Err(Errno::EPERM)
            }
            Privileged => Ok((given != 0).into()),
            ReadOnly => Err(Errno::ENOPROTOOPT),
        }
    }
}

/// The bounds of a segment's size, of a window, of seconds and of a queue.
const MIN_SEGMENT: i32 = 88;
const MAX_SEGMENT: i32 = 32767;
const MIN_WINDOW: u32 = 1152;
const MAX_LINGER: i32 = 120;
const MAX_QUEUE: i32 = 4096;
/// IPV6_MIN_MTU
const MIN_PACKET: i32 = 1280;
/// The segment size of a connection, and the MTU of its path over IPv4 and IPv6.
const LOOPBACK_SEGMENT: i32 = 65483;
/// The segment size before there is a connection, and the size of the timestamps option.
const FIRST_SEGMENT: i32 = 536;
const TIMES: i32 = 12;
const MTU_V4: u32 = 65535;
const MTU_V6: u32 = 65536;
const IP_TOS: u32 = 1;
/// Options that affect how a socket is bound.
const IP_FREEBIND: u32 = 15;
const IP_TRANSPARENT: u32 = 19;
const IP_BIND_ADDRESS_NO_PORT: u32 = 24;
const IP_LOCAL_PORT_RANGE: u32 = 51;
const IPV6_TRANSPARENT: u32 = 75;
const IPV6_FREEBIND: u32 = 78;
/// IP_MTU, IP_MULTICAST_ALL and IPV6_MTU.
const IP_MULTICAST_ALL: u32 = 49;
const IP_MTU: u32 = 14;
pub const IPV6_MTU: u32 = 24;
/// TCP_MAXSEG and TCP_LINGER2.
pub const MAXSEG: u32 = 2;
pub const LINGER2: u32 = 8;

/// The number of attempts within `seconds`, each of which waits twice as long as the previous one,
/// up to two minutes.
fn attempts(seconds: i32) -> i32 {
    let (mut wait, mut passed) = (1, 1);
    if seconds <= 0 {
        return 0;
    }
    for _ in 1..255 {
        if seconds <= passed {
            break;
        }
        wait = (wait * 2).min(120);
        passed += wait;
    }
    passed
}

/// The segment size of a connection whose ends have these options: without the headers of IP and
/// TCP, and TCP's timestamps.
pub fn segment(ends: [&Options; 2], v6: bool) -> i32 {
    let [whole, heads] = if v6 {
        [MTU_V6 as i32, 60]
    } else {
        [MTU_V4 as i32, 40]
    };
    let asked = ends.map(|options| options.value(TCP, MAXSEG));
    let asked = asked.into_iter().filter(|&asked| asked != 0);
    asked.fold(whole - heads, i32::min) - TIMES
}

/// The priority of packets with a type of service (Linux's `ip_tos2prio`): best effort, bulk,
/// interactive, and interactive bulk.
fn priority(service: u8) -> u32 {
    [0, 2, 6, 4][usize::from(service >> 3 & 3)]
}

/// The names of congestion control algorithms; the first is the default. Nothing is lost on this
/// machine, so that all behave alike.
const CONGESTION: [&str; 2] = ["cubic", "reno"];
/// The size of such a name, with its final zero (TCP_CA_NAME_MAX).
const CONGESTION_NAME: usize = 16;

/// The options of a socket.
pub struct Options {
    kept: [AtomicI32; KEPT.len()],
    /// The index of its name in `CONGESTION`.
    congestion: AtomicUsize,
}

impl Options {
    /// The congestion control algorithm.
    pub fn algorithm(&self) -> tcp::congestion::Algorithm {
        match self.congestion.load(Acquire) {
            0 => tcp::congestion::Algorithm::Cubic,
            _ => tcp::congestion::Algorithm::Reno,
        }
    }

    /// The options of a new socket.
    pub fn new(domain: u32) -> Self {
        let of_v6 = |level, name| domain == AF_INET6 && (level, name) == (IP, IP_MULTICAST_ALL);
        Options {
            kept: KEPT.map(|(level, name, default, _)| {
                AtomicI32::new(if of_v6(level, name) { 0 } else { default })
            }),
            congestion: AtomicUsize::new(0),
        }
    }

    /// Copies the options that an accepted socket inherits from the listening one.
    pub fn inherit(&self, from: &Options) {
        for (own, given) in self.kept.iter().zip(&from.kept) {
            own.store(given.load(Acquire), Release);
        }
        let congestion = from.congestion.load(Acquire);
        self.congestion.store(congestion, Release);
    }

    /// The value of a stored option.
    pub fn value(&self, level: u32, name: u32) -> i32 {
        Self::place(level, name).map_or(0, |at| self.kept[at].load(Acquire))
    }

    /// Whether an option is on.
    pub fn is_on(&self, level: u32, name: u32) -> bool {
        self.value(level, name) > 0
    }

    /// How the options want the socket bound.
    pub fn binding(&self) -> Binding {
        let range = self.value(IP, IP_LOCAL_PORT_RANGE) as u32;
        let free = [
            (IP, IP_FREEBIND),
            (IP, IP_TRANSPARENT),
            (IPV6, IPV6_FREEBIND),
            (IPV6, IPV6_TRANSPARENT),
        ];
        Binding {
            ports: [range as u16, (range >> 16) as u16],
            free: free.iter().any(|&(level, name)| self.is_on(level, name)),
            late: self.is_on(IP, IP_BIND_ADDRESS_NO_PORT),
        }
    }

    /// Whether the socket may send from addresses that are not this machine's.
    pub fn is_transparent(&self) -> bool {
        self.is_on(IP, IP_TRANSPARENT) || self.is_on(IPV6, IPV6_TRANSPARENT)
    }

    fn place(level: u32, name: u32) -> Option<usize> {
        KEPT.iter().position(|&(a, b, ..)| (a, b) == (level, name))
    }

    /// The index of an option, if the socket has it.
    fn find(base: &Base, level: u32, name: u32) -> Option<usize> {
        let known = match level {
            IPV6 => base.domain == AF_INET6,
            TCP => base.protocol == TCP && base.kind != RAW,
            UDP => super::is_udp(base.protocol) && base.kind != RAW,
            _ => true,
        };
        Self::place(level, name).filter(|_| known)
    }

    /// Sets an option.
    pub fn set(
        &self,
        base: &Base,
        place: &Place,
        level: u32,
        name: u32,
        value: &[u8],
    ) -> Result<()> {
        if (level, name) == (SOL_IPV6, IPV6_V6ONLY) && base.domain == AF_INET6 {
            // The protocol of a raw socket is in the place of a port.
            if place.local().is_some() || base.kind == RAW {
                return Err(Errno::EINVAL);
            }
            place.only_v6.store(number(value)? != 0, Release);
            return Ok(());
        }
        let tcp = level == SOL_TCP && base.protocol == TCP && base.kind != RAW;
        if tcp && name == TCP_ULP {
            let error = if value.is_empty() {
                Errno::EINVAL
            } else {
                Errno::ENOENT
            };
            return Err(error);
        }
        if tcp && name == TCP_CONGESTION {
            if value.is_empty() {
                return Err(Errno::EINVAL);
            }
            let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = &name[..name.len().min(CONGESTION_NAME - 1)];
            let known = CONGESTION.iter().position(|known| known.as_bytes() == name);
            self.congestion.store(known.ok_or(Errno::ENOENT)?, Release);
            return Ok(());
        }
        let at = Self::find(base, level, name).ok_or(Errno::ENOPROTOOPT)?;
        let given = match value {
            // IPv4's options may be single bytes.
            &[byte] if level == IP => byte.into(),
            _ => number(value)?,
        };
        let (_, _, default, rule) = KEPT[at];
        let value = rule.apply(level, given, default, base.kind == STREAM)?;
        let old = self.kept[at].swap(value, AcqRel);
        if (level, name) == (IP, IP_TOS) && value != old {
            base.options.set_priority(priority(value as u8));
        }
        Ok(())
    }

    /// Reads an option; `state` is that of the connection, for TCP_INFO.
    pub fn get(
        &self,
        base: &Base,
        place: &Place,
        level: u32,
        name: u32,
        state: u8,
    ) -> Result<Vec<u8>> {
        if (level, name) == (SOL_IPV6, IPV6_V6ONLY) && base.domain == AF_INET6 {
            return bytes(u32::from(place.only_v6.load(Acquire)));
        }
        let connected = state == ESTABLISHED;
        match (level, name) {
            (IP, IP_MTU) | (IPV6, IPV6_MTU) if connected && base.domain == AF_INET6 => {
                return bytes(MTU_V6);
            }
            (IP, IP_MTU) if connected => return bytes(MTU_V4),
            (IP, IP_MTU) => return Err(Errno::ENOTCONN),
            (IPV6, IPV6_MTU) if base.domain == AF_INET6 => return Err(Errno::ENOTCONN),
            _ => {}
        }
        if level == SOL_TCP && base.protocol == TCP {
            if name == TCP_INFO {
                return bytes(info(state));
            }
            if name == TCP_ULP {
                return Ok(Vec::new());
            }
            if name == MAXSEG && self.value(TCP, MAXSEG) == 0 {
                return bytes(FIRST_SEGMENT);
            }
            if name == LINGER2 && self.value(TCP, LINGER2) == 0 {
                return bytes(connections::FIN_TIMEOUT.load(Acquire) as u32);
            }
            if name == TCP_CONGESTION {
                let name = CONGESTION[self.congestion.load(Acquire)].as_bytes();
                let mut value = [0; CONGESTION_NAME];
                value[..name.len()].copy_from_slice(name);
                return bytes(value);
            }
        }
        let refusal = if base.domain == AF_INET6 || level == IP || level == base.protocol {
            Errno::ENOPROTOOPT
        } else {
            Errno::EOPNOTSUPP
        };
        let at = Self::find(base, level, name).ok_or(refusal)?;
        bytes(self.kept[at].load(Acquire))
    }
}

/// The `struct tcp_info` of a connection that never lost anything: its state and window scales, its
/// timeouts in microseconds, and its segment sizes and windows.
fn info(state: u8) -> [u8; 248] {
    let mut info = [0; 248];
    info[0] = state;
    let mut put = |at: usize, value: u32| info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    let segment = LOOPBACK_SEGMENT as u32;
    put(
        8,
        if state == ESTABLISHED {
            200_000
        } else {
            1_000_000
        },
    );
    put(16, if state == ESTABLISHED { 32768 } else { 536 });
    put(20, 536);
    put(60, MTU_V4);
    put(64, u32::from(u16::MAX));
    put(76, i32::MAX as u32);
    put(80, 10);
    put(84, segment);
    put(88, 3);
    put(96, 65_483);
    info
}
