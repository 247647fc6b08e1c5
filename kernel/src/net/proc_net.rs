//! The sockets as /proc/net shows them.

use super::address::{Name, unspecified};
use super::ether::addresses::LINK;
use super::ether::{Interface, interface, neighbours, routing};
use super::inet::{connections, tcp, tcp_memory, udp_memory};
use super::socket::Socket;
use super::{DATAGRAM, RAW, SEQPACKET, STREAM, snmp, socket_table};
use crate::errno::Result;
use crate::fs::seq_file::{Line, Node, Text};
use crate::put;
use crate::task::rusage::user_hz;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use ip::neighbours::State;
use ip::routes::Kind;
use linux_raw_sys::net::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_TCP, IPPROTO_UDP,
    IPPROTO_UDPLITE,
};

/// The protocols of sockets.
const TCP: u32 = IPPROTO_TCP as u32;
const UDP: u32 = IPPROTO_UDP as u32;
const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
const ICMP: u32 = IPPROTO_ICMP as u32;
const ICMP_V6: u32 = IPPROTO_ICMPV6;
/// States of a connection; the last means no connection.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
const CLOSED: u8 = 7;

/// The files of /proc/net.
pub const FILES: &[(&str, Node)] = &[
    ("arp", Node::File(arp)),
    ("dev", Node::File(snmp::dev)),
    ("dev_mcast", Node::File(|_| {})),
    ("if_inet6", Node::File(if_inet6)),
    ("igmp", Node::File(igmp)),
    ("igmp6", Node::File(igmp6)),
    ("ipv6_route", Node::File(ipv6_route)),
    ("netlink", Node::Records(netlinks)),
    ("netstat", Node::File(snmp::netstat)),
    ("packet", Node::File(packet)),
    (
        "icmp",
        Node::Records(|place, text| udp(place, text, ICMP, AF_INET)),
    ),
    (
        "icmp6",
        Node::Records(|place, text| udp(place, text, ICMP_V6, AF_INET6)),
    ),
    ("protocols", Node::File(protocols)),
    ("ptype", Node::File(ptype)),
    (
        "raw",
        Node::Records(|place, text| raw_sockets(place, text, AF_INET)),
    ),
    (
        "raw6",
        Node::Records(|place, text| raw_sockets(place, text, AF_INET6)),
    ),
    ("route", Node::File(route)),
    ("snmp", Node::File(snmp::snmp)),
    ("snmp6", Node::File(snmp::snmp6)),
    ("softnet_stat", Node::File(snmp::softnet_stat)),
    ("sockstat", Node::File(sockstat)),
    ("sockstat6", Node::File(sockstat6)),
    (
        "tcp",
        Node::Records(|place, text| tcp(place, text, AF_INET)),
    ),
    (
        "tcp6",
        Node::Records(|place, text| tcp(place, text, AF_INET6)),
    ),
    (
        "udp",
        Node::Records(|place, text| udp(place, text, UDP, AF_INET)),
    ),
    (
        "udp6",
        Node::Records(|place, text| udp(place, text, UDP, AF_INET6)),
    ),
    (
        "udplite",
        Node::Records(|place, text| udp(place, text, UDP_LITE, AF_INET)),
    ),
    (
        "udplite6",
        Node::Records(|place, text| udp(place, text, UDP_LITE, AF_INET6)),
    ),
    ("unix", Node::Records(unix_sockets)),
];

fn card(index: u32) -> Option<&'static Arc<Interface>> {
    interface::by_index(index)
}

fn arp(text: &mut Text) {
    put!(
        text,
        "IP address       HW type     Flags       HW address            Mask     Device\n"
    );
    for shown in neighbours::all().unwrap_or_default() {
        let (IpAddr::V4(ip), Some(interface)) = (shown.key.ip, card(shown.key.interface)) else {
            continue;
        };
        // ATF_COM and ATF_PERM
        let flags = match (shown.mac, shown.state) {
            (None, _) => 0,
            (_, State::Permanent) => 6,
            _ => 2,
        };
        put!(text, "{ip:<16} 0x1         {flags:#x}         ");
        let [a, b, c, d, e, f] = shown.mac.unwrap_or_default().0;
        let name = interface.text();
        put!(
            text,
            "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}     *        {name}\n"
        );
    }
}

fn if_inet6(text: &mut Text) {
    put!(text, "{:032x} 01 80 10 80 {:>8}\n", 1, "lo");
    for interface in interface::all() {
        for at in 0.. {
            let address = interface.addresses.lock().get(at).copied();
            let Some(address) = address else { break };
            if let IpAddr::V6(ip) = address.ip {
                let scope = if address.scope == LINK { 0x20 } else { 0 };
                put!(
                    text,
                    "{:032x} {:02x} {:02x} {scope:02x} 80 {:>8}\n",
                    ip.to_bits(),
                    interface.index,
                    address.bits,
                    interface.text()
                );
            }
        }
    }
}

/// The only group is that of all hosts (224.0.0.1).
fn igmp(text: &mut Text) {
    put!(
        text,
        "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    );
    put!(text, "1\tlo        :     1      V3\n");
    put!(text, "\t\t\t\t010000E0     1 0:00000000\t\t0\n");
}

/// The IPv6 groups: those of all nodes (ff02::1 and ff01::1).
fn igmp6(text: &mut Text) {
    put!(
        text,
        "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    );
    put!(
        text,
        "1    lo              ff010000000000000000000000000001     1 00000008 0\n"
    );
}

/// The IPv6 routes: to this machine, and the rejecting one.
fn ipv6_route(text: &mut Text) {
    let none = |text: &mut Text| {
        put!(
            text,
            "{:032x} 00 {0:032x} 00 {0:032x} ffffffff 00000001 00000000 00200200       lo\n",
            0
        );
    };
    none(text);
    put!(
        text,
        "{:032x} 80 {:032x} 00 {1:032x} 00000000 00000003 00000000 80200001       lo\n",
        1,
        0
    );
    none(text);
}

/// The packet handlers by protocol.
fn ptype(text: &mut Text) {
    put!(
        text,
        "Type Device      Function\n0800          ip_rcv\n86dd          ipv6_rcv\n"
    );
}

/// The protocols, and the number of sockets of each; the flags for their operations are those that
/// Linux shows.
fn protocols(text: &mut Text) {
    put!(
        text,
        "protocol  size sockets  memory press maxhdr  slab module     cl co di ac io in de sh ss gs se re bi br ha uh gp em\n"
    );
    let rows = [
        ("PINGv6", [AF_INET6, DATAGRAM, ICMP_V6]),
        ("RAWv6", [AF_INET6, RAW, 0]),
        ("UDPLITEv6", [AF_INET6, DATAGRAM, UDP_LITE]),
        ("UDPv6", [AF_INET6, DATAGRAM, UDP]),
        ("TCPv6", [AF_INET6, STREAM, TCP]),
        ("UNIX-STREAM", [AF_UNIX, STREAM, 0]),
        ("UNIX", [AF_UNIX, DATAGRAM, 0]),
        ("UDP-Lite", [AF_INET, DATAGRAM, UDP_LITE]),
        ("PING", [AF_INET, DATAGRAM, ICMP]),
        ("RAW", [AF_INET, RAW, 0]),
        ("UDP", [AF_INET, DATAGRAM, UDP]),
        ("TCP", [AF_INET, STREAM, TCP]),
        ("NETLINK", [AF_NETLINK, RAW, 0]),
    ];
    for (name, which) in rows {
        let mut sockets = count(which)[0];
        if name == "UNIX" {
            sockets += count([AF_UNIX, SEQPACKET, 0])[0];
        }
        put!(
            text,
            "{name:<9} {:4} {sockets:6}  {:6}   {:3}   {:5}   {:3}  kernel    ",
            1024,
            -1,
            "NI",
            0,
            "no"
        );
        let called = if which[1] == STREAM { "y" } else { "n" };
        for _ in 0..18 {
            put!(text, "  {called}");
        }
        put!(text, "\n");
    }
}

/// The bits of a position that hold a socket's number; the bits above count lines.
const NUMBER: u32 = 40;

/// Writes the line of the next socket for which `show` writes one; `show` gets the number of the
/// line. `head` writes the line with the column names, before the first.
fn socket_line(
    place: u64,
    text: &mut Text,
    head: impl FnOnce(&mut Text),
    mut show: impl FnMut(&mut Text, u64, &Arc<dyn Socket>) -> bool,
) -> Result<Option<u64>> {
    cond_resched_killable()?;
    let Some(place) = place.checked_sub(1) else {
        head(text);
        return Ok(Some(1));
    };
    let (lines, mut next) = (place >> NUMBER, place as usize & ((1 << NUMBER) - 1));
    let shown = socket_table::each_from(&mut next, |socket| !show(text, lines, socket));
    Ok(shown.then(|| (((lines + 1) << NUMBER) | next as u64) + 1))
}

fn netlinks(place: u64, text: &mut Text) -> Result<Option<u64>> {
    let head = |text: &mut Text| {
        put!(
            text,
            "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
        );
    };
    socket_line(place, text, head, |text, _, socket| {
        let base = socket.base();
        let Name::Netlink(port, groups) = socket.name() else {
            return false;
        };
        let (received, _) = socket.waiting().unwrap_or_default();
        put!(
            text,
            "0000000000000000 {:<3} {port:<10} {groups:08x} {received:<8} 0        0     2        {:<8} {:<8}\n",
            base.protocol,
            socket.drops(),
            base.number
        );
        true
    })
}

fn route(text: &mut Text) {
    put!(
        text,
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT{:55}\n",
        ""
    );
    for route in routing::sorted().unwrap_or_default() {
        let IpAddr::V4(to) = route.to.ip else {
            continue;
        };
        let via = match route.via {
            Some(IpAddr::V4(via)) => via,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let bits = u32::from(route.to.bits);
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        // RTF_UP, RTF_GATEWAY, RTF_HOST and RTF_REJECT
        let flags = 1
            | if route.via.is_some() { 2 } else { 0 }
            | if bits == 32 { 4 } else { 0 }
            | if route.kind == Kind::Unicast {
                0
            } else {
                0x200
            };
        let name = card(route.interface).map_or("*", |interface| interface.text());
        // Addresses are shown in their byte order in memory.
        let [to, via, mask] = [u32::from(to), u32::from(via), mask].map(u32::swap_bytes);
        let mut line = Line::new(text);
        put!(
            line,
            "{name}\t{to:08X}\t{via:08X}\t{flags:04X}\t0\t0\t{}\t{mask:08X}\t{}\t0\t0",
            route.metric,
            route.mtu.unwrap_or(0)
        );
        line.end(127);
    }
}

/// The number of ends of TCP connections.
pub fn established() -> u64 {
    let mut count = 0;
    socket_table::each(|socket| {
        let base = socket.base();
        let tcp = matches!(base.domain, AF_INET | AF_INET6) && base.kind == STREAM;
        count += u64::from(tcp && matches!(socket.state(), ESTABLISHED | CLOSE_WAIT));
    });
    count
}

/// The number of sockets of a family, kind and protocol, and how many of these are shown.
fn count([domain, kind, protocol]: [u32; 3]) -> [usize; 2] {
    let mut counts = [0; 2];
    socket_table::each(|socket| {
        let base = socket.base();
        if [base.domain, base.kind] == [domain, kind] && (kind == RAW || base.protocol == protocol)
        {
            counts[0] += 1;
            counts[1] += usize::from(is_listed(&**socket));
        }
    });
    counts
}

fn sockstat(text: &mut Text) {
    let of = |kind, protocol| count([AF_INET, kind, protocol]);
    let [allocated, tcp] = of(STREAM, TCP);
    let allocated = allocated + count([AF_INET6, STREAM, TCP])[0];
    put!(text, "sockets: used {}\n", socket_table::count());
    put!(
        text,
        "TCP: inuse {tcp} orphan {} tw {} alloc {allocated} mem {}\n",
        tcp::orphans(),
        connections::waiting(),
        tcp_memory::pages()
    );
    put!(
        text,
        "UDP: inuse {} mem {}\n",
        of(DATAGRAM, UDP)[1],
        udp_memory::pages()
    );
    put!(text, "UDPLITE: inuse {}\n", of(DATAGRAM, UDP_LITE)[1]);
    put!(
        text,
        "RAW: inuse {}\nFRAG: inuse 0 memory 0\n",
        of(RAW, 0)[0]
    );
}

fn sockstat6(text: &mut Text) {
    let of = |kind, protocol| count([AF_INET6, kind, protocol]);
    put!(text, "TCP6: inuse {}\n", of(STREAM, TCP)[1]);
    put!(text, "UDP6: inuse {}\n", of(DATAGRAM, UDP)[1]);
    put!(text, "UDPLITE6: inuse {}\n", of(DATAGRAM, UDP_LITE)[1]);
    put!(
        text,
        "RAW6: inuse {}\nFRAG6: inuse 0 memory 0\n",
        of(RAW, 0)[0]
    );
}

/// An address and port: the words of the address in the machine's byte order, the port as a number.
fn put_address(text: &mut Line, socket: SocketAddr, domain: u32) {
    let ip = match socket.ip() {
        IpAddr::V4(ip) if domain == AF_INET6 => ip.to_ipv6_mapped().into(),
        ip => ip,
    };
    match ip {
        IpAddr::V4(ip) => put!(text, "{:08X}", u32::from_ne_bytes(ip.octets())),
        IpAddr::V6(ip) => {
            for word in ip.octets().as_chunks().0 {
                put!(text, "{:08X}", u32::from_ne_bytes(*word));
            }
        }
    }
    put!(text, ":{:04X}", socket.port());
}

/// The column names of sockets; for IPv4, lines have a fixed length.
const COLUMNS: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const COLUMNS_V6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue \
     tr tm->when retrnsmt   uid  timeout inode";
/// The further columns of sockets without connections.
const MORE: &str = " ref pointer drops";

fn raw_sockets(place: u64, text: &mut Text, domain: u32) -> Result<Option<u64>> {
    let head = |text: &mut Text| match domain {
        AF_INET6 => put!(text, "{COLUMNS_V6}{MORE}\n"),
        _ => put!(text, "{COLUMNS}{MORE}\n"),
    };
    socket_line(place, text, head, |text, _, socket| {
        if socket.base().domain != domain || socket.base().kind != RAW {
            return false;
        }
        let mut line = Line::new(text);
        put!(line, "{:4}: ", socket.base().protocol);
        put_socket(&mut line, socket);
        put!(line, " 2 0000000000000000 {}", socket.drops());
        line.end(0);
        true
    })
}

fn packet(text: &mut Text) {
    put!(
        text,
        "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
    );
}

fn tcp(place: u64, text: &mut Text, domain: u32) -> Result<Option<u64>> {
    let (columns, width) = match domain {
        AF_INET6 => (COLUMNS_V6, 0),
        _ => (COLUMNS, 149),
    };
    let head = |text: &mut Text| put!(text, "{columns:width$}\n");
    if place & LEFT != 0 {
        return left_line(place & !LEFT, text, domain, width);
    }
    let next = socket_line(place, text, head, |text, number, socket| {
        if !is_of([domain, STREAM, TCP], &**socket) {
            return false;
        }
        // Connections that are not accepted yet hold their listener.
        let pending = socket.backlog().map_or(0, |(pending, _)| pending);
        let mut line = Line::new(text);
        put!(line, "{number:4}: ");
        put_socket(&mut line, socket);
        put!(line, " {} 0000000000000000 100 0 0 10 0", 1 + pending);
        line.end(width);
        true
    })?;
    match next {
        Some(next) => Ok(Some(next)),
        // No socket is left: the number of the next line is kept.
        None => left_line((place - 1) >> NUMBER << NUMBER, text, domain, width),
    }
}

/// The position of the first end without a socket; the positions of sockets are below it.
const LEFT: u64 = 1 << 63;

/// Writes the line of the next end of a connection that waits without a socket.
fn left_line(place: u64, text: &mut Text, domain: u32, width: usize) -> Result<Option<u64>> {
    let (lines, mut next) = (place >> NUMBER, place & ((1 << NUMBER) - 1));
    while let Some((left, behind)) = connections::left_from(next) {
        cond_resched_killable()?;
        next = behind;
        if left.domain != domain {
            continue;
        }
        let mut line = Line::new(text);
        put!(line, "{lines:4}: ");
        put_address(&mut line, left.tuple.local, domain);
        put!(line, " ");
        put_address(&mut line, left.tuple.peer, domain);
        let (state, time) = (left.state, user_hz(left.time));
        put!(
            line,
            " {state:02X} 00000000:00000000 03:{time:08X} 00000000     0        0 0 3 0000000000000000"
        );
        line.end(width);
        return Ok(Some(LEFT | (lines + 1) << NUMBER | next));
    }
    Ok(None)
}

fn udp(place: u64, text: &mut Text, protocol: u32, domain: u32) -> Result<Option<u64>> {
    let (head, width): (fn(&mut Text), _) = match domain {
        AF_INET6 => (|text| put!(text, "{COLUMNS_V6}{MORE}\n"), 0),
        _ => (|text| put!(text, " {COLUMNS}{MORE:30}\n"), 127),
    };
    socket_line(place, text, head, |text, number, socket| {
        if !is_of([domain, DATAGRAM, protocol], &**socket) {
            return false;
        }
        let mut line = Line::new(text);
        put!(line, "{number:5}: ");
        put_socket(&mut line, socket);
        put!(line, " 2 0000000000000000 {}", socket.drops());
        line.end(width);
        true
    })
}

/// Whether an IP socket is of a family, kind and protocol, and has a port or a connection.
fn is_of(which: [u32; 3], socket: &dyn Socket) -> bool {
    let base = socket.base();
    [base.domain, base.kind, base.protocol] == which && is_listed(socket)
}

/// Whether an IP socket is listed: a TCP socket that listens or is connected, or a datagram socket
/// that has a port.
pub fn is_listed(socket: &dyn Socket) -> bool {
    match socket.base().kind {
        STREAM => socket.state() != CLOSED,
        _ => matches!(socket.name(), Name::Inet(address) if address.port() != 0),
    }
}

/// The common columns of sockets: addresses, state, queues, owner and inode.
fn put_socket(text: &mut Line, socket: &Arc<dyn Socket>) {
    let domain = socket.base().domain;
    let name = |name: Name| match name {
        Name::Inet(socket) => socket,
        _ => SocketAddr::new(unspecified(domain), 0),
    };
    put_address(text, name(socket.name()), domain);
    put!(text, " ");
    put_address(text, name(socket.destination()), domain);
    let (received, sent) = match socket.backlog() {
        Some((pending, _)) => (pending, 0),
        None => socket.waiting().unwrap_or_default(),
    };
    put!(
        text,
        " {:02X} {sent:08X}:{received:08X} 00:00000000 00000000 {:5}        0 {}",
        socket.state(),
        socket.base().user(),
        socket.base().number
    );
}

fn unix_sockets(place: u64, text: &mut Text) -> Result<Option<u64>> {
    let head = |text: &mut Text| {
        put!(
            text,
            "Num       RefCount Protocol Flags    Type St Inode Path\n"
        );
    };
    socket_line(place, text, head, |text, _, socket| {
        if socket.base().domain != AF_UNIX {
            return false;
        }
        // A connected peer holds it too.
        let connected = socket.peer().is_ok();
        put!(
            text,
            "0000000000000000: {:08X} 00000000 {:08X} {:04X} {:02X} {:5}",
            if connected { 3 } else { 2 },
            if socket.is_listening() { 0x10000 } else { 0 },
            socket.base().kind,
            if connected { 3 } else { 1 },
            socket.base().number
        );
        if let Name::Unix(path) = socket.name() {
            put!(text, " ");
            match path.split_first() {
                Some((0, name)) => {
                    put!(text, "@");
                    text.push(name);
                }
                _ => text.push(path.strip_suffix(b"\0").unwrap_or(&path)),
            }
        }
        put!(text, "\n");
        true
    })
}
