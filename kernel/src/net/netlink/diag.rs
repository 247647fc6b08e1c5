//! Lists of sockets (NETLINK_SOCK_DIAG), as ss(8) requests them.

use super::reply::{MULTI, Reply};
use crate::errno::{Errno, Result};
use crate::net::address::{Name, unspecified};
use crate::net::inet::connections::{self, Left};
use crate::net::socket::Socket;
use crate::net::{RAW, STREAM, options, proc_net, socket_table};
use crate::task::clock;
use crate::task::sched::cond_resched_killable;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, IPPROTO_RAW, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE,
    IPV6_V6ONLY, SOL_IPV6, SOL_TCP, TCP_INFO,
};
use zerocopy::IntoBytes;
#[cfg(feature = "selftest")]
use {
    crate::arch::work::NEED_RESCHED, crate::task::current, core::sync::atomic::Ordering::Relaxed,
};

/// SOCK_DIAG_BY_FAMILY
pub const BY_FAMILY: u16 = 20;
/// The sizes of the requests `struct inet_diag_req_v2`, `struct unix_diag_req` and `struct
/// netlink_diag_req`.
const INET_REQUEST: usize = 56;
const UNIX_REQUEST: usize = 24;
const NETLINK_REQUEST: usize = 20;
/// The IP protocols that can be requested; IPPROTO_RAW stands for all raw sockets.
const PROTOCOLS: [u32; 4] = [
    TCP,
    IPPROTO_UDP as u32,
    IPPROTO_UDPLITE as u32,
    IPPROTO_RAW as u32,
];
const TCP: u32 = IPPROTO_TCP as u32;
/// All protocols of netlink (`NDIAG_PROTO_ALL`), and NDIAG_SHOW_MEMINFO.
const ALL_PROTOCOLS: u32 = 255;
const NETLINK_MEMORY: u32 = 1;
/// Attributes (`enum` of INET_DIAG_); the bit for number N - 1 requests attribute N.
const MEMORY: u16 = 1;
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const SOCKET_MEMORY: u16 = 7;
const V6_ONLY: u16 = 11;
/// Attributes (`enum` of UNIX_DIAG_); the bit with the number requests one.
const UNIX_NAME: u16 = 0;
const UNIX_PEER: u16 = 2;
const UNIX_QUEUE: u16 = 4;
const UNIX_MEMORY: u16 = 5;
const UNIX_USER: u16 = 7;
/// States, which all families number alike.
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;
const LISTENS: u8 = 10;
/// A dump: which sockets it lists, and its progress.
pub struct Dump {
    family: u32,
    /// The protocol of IP sockets, or of netlink sockets, for which it may be all.
    protocol: u32,
    /// A bit for each requested state.
    states: u32,
    /// The requested attributes.
    shown: u32,
    next: usize,
    /// The progress among the ends of connections without a socket, which come last.
    left: u64,
}

impl Dump {
    /// The dump that a request asks for. EINVAL for an invalid request, ENOENT for another family
    /// or protocol.
    pub fn new(body: &[u8]) -> Result<Self> {
        let family = body.first().copied().unwrap_or(0).into();
        let word = |at: usize| {
            let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let least = match family {
            AF_INET | AF_INET6 => INET_REQUEST,
            AF_UNIX => UNIX_REQUEST,
            AF_NETLINK => NETLINK_REQUEST,
            _ => return Err(Errno::ENOENT),
        };
        if body.len() < least {
            return Err(Errno::EINVAL);
        }
        let protocol = body[1].into();
        if matches!(family, AF_INET | AF_INET6) && !PROTOCOLS.contains(&protocol) {
            return Err(Errno::ENOENT);
        }
        let (states, shown) = match family {
            AF_UNIX => (word(4), word(12)),
            AF_NETLINK => (u32::MAX, word(8)),
            _ => (word(4), body[2].into()),
        };
        Ok(Dump {
            family,
            protocol,
            states,
            shown,
            next: 0,
            left: 0,
        })
    }

    fn wants(&self, socket: &dyn Socket) -> bool {
        let base = socket.base();
        let of_protocol = match self.family {
            AF_UNIX => true,
            AF_NETLINK => self.protocol == ALL_PROTOCOLS || self.protocol == base.protocol,
            _ if base.kind == RAW => self.protocol == IPPROTO_RAW as u32,
            _ => self.protocol == base.protocol && proc_net::is_listed(socket),
        };
        base.domain == self.family && of_protocol && self.states >> state(socket) & 1 != 0
    }

    /// Lists sockets until the reply is full, and returns whether there may be more.
    pub fn continue_dump(&mut self, reply: &mut Reply) -> bool {
        let mut next = self.next;
        let more = socket_table::each_from(&mut next, |socket| {
            if self.wants(&**socket) {
                match self.family {
                    AF_UNIX => put_unix(reply, &**socket, self.shown),
                    AF_NETLINK => put_netlink(reply, &**socket, self.shown),
                    _ => put_inet(reply, &**socket, self.shown),
                }
            }
            !reply.is_full()
        });
        self.next = next;
        let inet = matches!(self.family, AF_INET | AF_INET6);
        more || inet && self.protocol == TCP && self.continue_left(reply)
    }

    /// Continues with the ends of connections without a socket.
    fn continue_left(&mut self, reply: &mut Reply) -> bool {
        while cond_resched_killable().is_ok()
            && let Some((left, behind)) = connections::left_from(self.left)
        {
            self.left = behind;
            if left.domain == self.family && self.states >> left.state & 1 != 0 {
                put_left(reply, &left);
            }
            if reply.is_full() {
                return true;
            }
        }
        false
    }
}

/// The number of bytes that wait to be read and to be sent; for a listening socket, the number of
/// waiting connections and its maximum.
fn queues(socket: &dyn Socket) -> [u32; 2] {
    let waiting = socket.backlog().or_else(|| socket.waiting().ok());
    let (received, sent) = waiting.unwrap_or_default();
    [received as u32, sent as u32]
}

/// Writes `struct inet_diag_msg`, and the requested attributes.
fn put_inet(reply: &mut Reply, socket: &dyn Socket, shown: u32) {
    let base = socket.base();
    let address = |name: Name| match name {
        Name::Inet(address) => address,
        _ => SocketAddr::new(unspecified(base.domain), 0),
    };
    let (own, peer) = (
        address(socket.name()),
        address(socket.peer().unwrap_or_default()),
    );
    let [received, sent] = queues(socket);
    let mut message = [0; 72];
    message[0] = base.domain as u8;
    message[1] = socket.state();
    message[4..6].copy_from_slice(&own.port().to_be_bytes());
    message[6..8].copy_from_slice(&peer.port().to_be_bytes());
    put_ip(&mut message[8..24], own.ip(), base.domain);
    put_ip(&mut message[24..40], peer.ip(), base.domain);
    message[44..52].copy_from_slice(&base.number.to_ne_bytes());
    message[56..60].copy_from_slice(&received.to_ne_bytes());
    message[60..64].copy_from_slice(&sent.to_ne_bytes());
    message[64..68].copy_from_slice(&base.user().to_ne_bytes());
    message[68..72].copy_from_slice(&(base.number as u32).to_ne_bytes());
    reply.begin(BY_FAMILY, MULTI, &message);
    let asked = |attribute: u16| shown >> (attribute - 1) & 1 != 0;
    let memory = options::memory(socket);
    if asked(MEMORY) {
        let [received, _, sent, _, _, unsent, ..] = memory;
        reply.attribute(MEMORY, [received, unsent, 0, sent].as_bytes());
    }
    if asked(SOCKET_MEMORY) {
        reply.attribute(SOCKET_MEMORY, memory.as_bytes());
    }
    if base.kind == STREAM {
        let tcp = |name| socket.option(SOL_TCP, name).unwrap_or_default();
        if asked(INFO) {
            reply.attribute(INFO, &tcp(TCP_INFO));
        }
        if asked(CONGESTION) {
            reply.attribute(CONGESTION, b"cubic\0");
        }
    }
    if base.domain == AF_INET6 {
        let only = socket.option(SOL_IPV6, IPV6_V6ONLY);
        reply.attribute(
            V6_ONLY,
            &[only.is_ok_and(|value| value.first() == Some(&1)).into()],
        );
    }
    reply.end();
}

/// Describes an end of a connection that waits without a socket.
fn put_left(reply: &mut Reply, left: &Left) {
    /// The kind of the timer of such ends.
    const TIMER: u8 = 3;
    let (own, peer) = (left.tuple.local, left.tuple.peer);
    let mut message = [0; 72];
    message[..3].copy_from_slice(&[left.domain as u8, left.state, TIMER]);
    message[4..6].copy_from_slice(&own.port().to_be_bytes());
    message[6..8].copy_from_slice(&peer.port().to_be_bytes());
    put_ip(&mut message[8..24], own.ip(), left.domain);
    put_ip(&mut message[24..40], peer.ip(), left.domain);
    let time = left.time / (clock::SECOND / 1000);
    message[52..56].copy_from_slice(&(time as u32).to_ne_bytes());
    reply.begin(BY_FAMILY, MULTI, &message);
    reply.end();
}

fn put_ip(to: &mut [u8], ip: IpAddr, domain: u32) {
    match ip {
        IpAddr::V4(ip) if domain == AF_INET6 => to.copy_from_slice(&ip.to_ipv6_mapped().octets()),
        IpAddr::V4(ip) => to[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => to.copy_from_slice(&ip.octets()),
    }
}

fn state(socket: &dyn Socket) -> u8 {
    match socket.base().domain {
        AF_INET | AF_INET6 => socket.state(),
        AF_UNIX if socket.is_listening() => LISTENS,
        AF_UNIX if socket.peer().is_ok() => ESTABLISHED,
        _ => CLOSED,
    }
}

/// Writes `struct unix_diag_msg`, and the requested attributes.
fn put_unix(reply: &mut Reply, socket: &dyn Socket, shown: u32) {
    let base = socket.base();
    let mut message = [0; 16];
    message[0] = AF_UNIX as u8;
    message[1] = base.kind as u8;
    message[2] = state(socket);
    message[4..8].copy_from_slice(&(base.number as u32).to_ne_bytes());
    message[8..16].copy_from_slice(&base.number.to_ne_bytes());
    reply.begin(BY_FAMILY, MULTI, &message);
    let asked = |attribute: u16| shown >> attribute & 1 != 0;
    if let Name::Unix(name) = socket.name()
        && asked(UNIX_NAME)
    {
        reply.attribute(UNIX_NAME, name.strip_suffix(b"\0").unwrap_or(&name));
    }
    if let Some(peer) = socket.peer_number()
        && asked(UNIX_PEER)
    {
        reply.attribute(UNIX_PEER, (peer as u32).as_bytes());
    }
    if asked(UNIX_QUEUE) {
        reply.attribute(UNIX_QUEUE, queues(socket).as_bytes());
    }
    if asked(UNIX_MEMORY) {
        reply.attribute(UNIX_MEMORY, options::memory(socket).as_bytes());
    }
    if asked(UNIX_USER) {
        reply.attribute(UNIX_USER, base.user().as_bytes());
    }
    reply.end();
}

/// Writes `struct netlink_diag_msg`, and the requested attributes.
fn put_netlink(reply: &mut Reply, socket: &dyn Socket, shown: u32) {
    let base = socket.base();
    let port = match socket.name() {
        Name::Netlink(port, _) => port,
        _ => 0,
    };
    let mut message = [0; 28];
    let fixed = [
        AF_NETLINK as u8,
        base.kind as u8,
        base.protocol as u8,
        CLOSED,
    ];
    message[..4].copy_from_slice(&fixed);
    message[4..8].copy_from_slice(&port.to_ne_bytes());
    message[16..20].copy_from_slice(&(base.number as u32).to_ne_bytes());
    message[20..28].copy_from_slice(&base.number.to_ne_bytes());
    reply.begin(BY_FAMILY, MULTI, &message);
    if shown & NETLINK_MEMORY != 0 {
        reply.attribute(0, options::memory(socket).as_bytes());
    }
    reply.end();
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn who_passes_over_ends_of_connections_lets_others_run() {
        crate::task::selftests::run(1, |_| {
            let [local, peer] = [7, 8].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            let tuple = connections::Tuple { local, peer };
            let ends = [tuple, tuple.reversed()].map(|tuple| {
                connections::End::enter(tuple, connections::Port::Given, AF_INET).unwrap()
            });
            ends.iter().for_each(|end| _ = end.finish());
            assert!(connections::left_from(0).is_some());
            let mut request = [0; INET_REQUEST];
            request[..2].copy_from_slice(&[AF_INET as u8, TCP as u8]);
            let mut dump = Dump::new(&request).unwrap();
            let header = super::Header {
                len: 0,
                kind: BY_FAMILY,
                flags: 0,
                sequence: 0,
                port: 0,
            };
            let mut reply = Reply::new(header, 0).unwrap();
            let work = &current().arch.work;
            work.fetch_or(NEED_RESCHED, Relaxed);
            assert!(!dump.continue_left(&mut reply) && reply.bytes.is_empty());
            assert_eq!(work.load(Relaxed) & NEED_RESCHED, 0, "nobody else could run");
        });
    }
}
