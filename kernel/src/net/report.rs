//! The sockets as /proc/net shows them.

use super::inet::ports::{self, Ports};
use super::inet::raw;
use super::name::{Name, unspecified};
use super::socket::Socket;
use super::unix;
use crate::fs::generated::{Node, Text};
use crate::put;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{AF_INET, AF_INET6};

/// The files of /proc/net.
pub const FILES: &[(&str, Node)] = &[
    ("arp", Node::File(arp)),
    ("dev", Node::File(dev)),
    ("dev_mcast", Node::File(|_| {})),
    ("if_inet6", Node::File(if_inet6)),
    ("packet", Node::File(packet)),
    ("icmp", Node::File(|text| udp(text, &ports::PING, AF_INET))),
    (
        "icmp6",
        Node::File(|text| udp(text, &ports::PING, AF_INET6)),
    ),
    ("raw", Node::File(|text| raw_sockets(text, AF_INET))),
    ("raw6", Node::File(|text| raw_sockets(text, AF_INET6))),
    ("route", Node::File(route)),
    ("sockstat", Node::File(sockstat)),
    ("tcp", Node::File(|text| tcp(text, AF_INET))),
    ("tcp6", Node::File(|text| tcp(text, AF_INET6))),
    ("udp", Node::File(|text| udp(text, &ports::UDP, AF_INET))),
    ("udp6", Node::File(|text| udp(text, &ports::UDP, AF_INET6))),
    (
        "udplite",
        Node::File(|text| udp(text, &ports::UDP_LITE, AF_INET)),
    ),
    (
        "udplite6",
        Node::File(|text| udp(text, &ports::UDP_LITE, AF_INET6)),
    ),
    ("unix", Node::File(unix_sockets)),
];

fn arp(text: &mut Text) {
    put!(
        text,
        "IP address       HW type     Flags       HW address            Mask     Device\n"
    );
}

fn dev(text: &mut Text) {
    put!(
        text,
        "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame \
         compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
    );
    put!(
        text,
        "    lo: {:7} {:7}    0    0    0     0          0         0",
        0,
        0
    );
    put!(
        text,
        " {:8} {:7}    0    0    0     0       0          0\n",
        0,
        0
    );
}

fn if_inet6(text: &mut Text) {
    put!(text, "{:032x} 01 80 10 80 {:>8}\n", 1, "lo");
}

fn route(text: &mut Text) {
    put!(
        text,
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT{:55}\n",
        ""
    );
}

fn sockstat(text: &mut Text) {
    let count = |ports: &Ports| {
        let mut count = 0;
        ports.each(|_| count += 1);
        count
    };
    let (tcp, udp) = (count(&ports::TCP), count(&ports::UDP));
    put!(text, "sockets: used {}\n", tcp + udp);
    put!(text, "TCP: inuse {tcp} orphan 0 tw 0 alloc {tcp} mem 0\n");
    put!(text, "UDP: inuse {udp} mem 0\nUDPLITE: inuse 0\n");
    put!(text, "RAW: inuse 0\nFRAG: inuse 0 memory 0\n");
}

/// An address and port: words of the address as the machine has them, the port as it is spoken.
fn put_address(text: &mut Text, socket: SocketAddr, domain: u32) {
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

/// The names of the columns of sockets, over IPv4 with room for lines of some length.
const COLUMNS: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const COLUMNS_V6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue \
     tr tm->when retrnsmt   uid  timeout inode";
/// What follows for sockets without connections.
const MORE: &str = " ref pointer drops";

fn raw_sockets(text: &mut Text, domain: u32) {
    match domain {
        AF_INET6 => put!(text, "{COLUMNS_V6}{MORE}\n"),
        _ => put!(text, "{COLUMNS}{MORE}\n"),
    }
    raw::each(|socket| {
        if socket.base().domain == domain {
            put!(text, "{:4}: ", socket.base().protocol);
            put_socket(text, socket);
            put!(text, " 2 0000000000000000 {}\n", socket.lost());
        }
    });
}

fn packet(text: &mut Text) {
    put!(
        text,
        "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
    );
}

fn tcp(text: &mut Text, domain: u32) {
    match domain {
        AF_INET6 => put!(text, "{COLUMNS_V6}\n"),
        _ => put!(text, "{COLUMNS:149}\n"),
    }
    inet(&ports::TCP, domain, |line, socket| {
        put!(text, "{line:4}: ");
        put_socket(text, socket);
        put!(text, " 1 0000000000000000 100 0 0 10 0\n");
    });
}

fn udp(text: &mut Text, ports: &Ports, domain: u32) {
    match domain {
        AF_INET6 => put!(text, "{COLUMNS_V6}{MORE}\n"),
        _ => put!(text, " {COLUMNS}{MORE:30}\n"),
    }
    inet(ports, domain, |line, socket| {
        put!(text, "{line:5}: ");
        put_socket(text, socket);
        put!(text, " 2 0000000000000000 {}\n", socket.lost());
    });
}

/// Calls `put` with each socket of a family.
fn inet(ports: &Ports, domain: u32, mut put: impl FnMut(usize, &Arc<dyn Socket>)) {
    let mut line = 0;
    ports.each(|socket| {
        if socket.base().domain == domain {
            put(line, socket);
            line += 1;
        }
    });
}

/// What is told of every socket: addresses, state, what waits, whose it is, and its inode.
fn put_socket(text: &mut Text, socket: &Arc<dyn Socket>) {
    let domain = socket.base().domain;
    let name = |name: Name| match name {
        Name::Inet(socket) => socket,
        _ => SocketAddr::new(unspecified(domain), 0),
    };
    put_address(text, name(socket.name()), domain);
    put!(text, " ");
    put_address(text, name(socket.peer().unwrap_or_default()), domain);
    let (received, sent) = socket.waiting().unwrap_or_default();
    put!(
        text,
        " {:02X} {sent:08X}:{received:08X} 00:00000000 00000000 {:5}        0 {}",
        socket.state(),
        socket.base().user,
        socket.base().number
    );
}

fn unix_sockets(text: &mut Text) {
    put!(
        text,
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
    );
    unix::each(|socket| {
        let listens = socket.is_listening();
        put!(
            text,
            "0000000000000000: 00000002 00000000 {:08X} {:04X} {:02X} {:5} ",
            if listens { 0x10000 } else { 0 },
            socket.base().kind,
            if socket.peer().is_ok() { 3 } else { 1 },
            socket.base().number
        );
        if let Name::Unix(path) = socket.name() {
            match path.split_first() {
                Some((0, name)) => {
                    put!(text, "@");
                    text.push(name);
                }
                _ => text.push(path.strip_suffix(b"\0").unwrap_or(&path)),
            }
        }
        put!(text, "\n");
    });
}
