//! The sockets as /proc/net shows them.

use super::inet::ports::{self, Ports};
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
    ("if_inet6", Node::File(if_inet6)),
    ("route", Node::File(route)),
    ("sockstat", Node::File(sockstat)),
    ("tcp", Node::File(|text| inet(text, &ports::TCP, AF_INET))),
    ("tcp6", Node::File(|text| inet(text, &ports::TCP, AF_INET6))),
    ("udp", Node::File(|text| inet(text, &ports::UDP, AF_INET))),
    ("udp6", Node::File(|text| inet(text, &ports::UDP, AF_INET6))),
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

fn inet(text: &mut Text, ports: &Ports, domain: u32) {
    let name = |name: Name| match name {
        Name::Inet(socket) => socket,
        _ => SocketAddr::new(unspecified(domain), 0),
    };
    put!(
        text,
        "  sl  local_address {}rem_address   {}st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
        if domain == AF_INET6 {
            "                        "
        } else {
            ""
        },
        if domain == AF_INET6 {
            "                        "
        } else {
            ""
        }
    );
    let mut line = 0;
    ports.each(|socket: &Arc<dyn Socket>| {
        if socket.base().domain != domain {
            return;
        }
        put!(text, "{line:4}: ");
        put_address(text, name(socket.name()), domain);
        put!(text, " ");
        put_address(text, name(socket.peer().unwrap_or_default()), domain);
        let (received, sent) = socket.waiting().unwrap_or_default();
        put!(
            text,
            " {:02X} {sent:08X}:{received:08X} 00:00000000 00000000     0        0 {} 1 0000000000000000 100 0 0 10 0\n",
            socket.state(),
            socket.base().number
        );
        line += 1;
    });
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
