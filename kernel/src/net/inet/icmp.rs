//! ICMP: the machine answers echo requests, passes replies to the sockets that asked for them, and
//! passes other messages to raw sockets.

use super::packet::{HEAD_V4, HEAD_V6, ICMP, ICMP_V6, Packet, Route, add, fold, pseudo};
use super::{Header, is_broadcast, leaves, outside, raw, source};
use crate::net::ether;
use crate::net::mib::{self, Event};
use core::net::{IpAddr, SocketAddr};

/// The size of a message's header: type, code, checksum, and four more bytes.
pub const HEAD: usize = 8;
/// The types of echo requests and replies.
pub const ECHO: u8 = 8;
const ECHOED: u8 = 0;
pub const ECHO_V6: u8 = 128;
const ECHOED_V6: u8 = 129;
/// The maximum size of an error message, which quotes a packet.
const MOST: usize = 576;
const MOST_V6: usize = 1280;

/// The reason why a packet has no receiver.
#[derive(Clone, Copy)]
pub enum Why {
    /// The protocol is unknown.
    Protocol,
    /// The port has no socket.
    Port,
}

impl Why {
    /// The type and code of the message, and its last word: the position of the fault in the
    /// packet.
    pub fn type_and_code(self, v4: bool) -> [u8; 3] {
        match (self, v4) {
            (Why::Protocol, true) => [3, 2, 0],
            (Why::Port, true) => [3, 3, 0],
            (Why::Protocol, false) => [4, 1, 6],
            (Why::Port, false) => [1, 4, 0],
        }
    }
}

/// The type of the message in a packet that carries one.
pub fn kind(packet: &Packet) -> Option<u8> {
    packet.body().first().copied()
}

/// Handles a message that the machine received.
pub fn receive(packet: &Packet) {
    let body = packet.body();
    let v4 = packet.route.to.is_ipv4();
    if body.len() < HEAD || packet.sum() != 0 {
        return mib::add(Event::Damaged, !v4, 1);
    }
    mib::message(!v4, body[0]);
    if is_broadcast(packet.route.to) {
        // net.ipv4.icmp_echo_ignore_broadcasts
        return;
    }
    match (body[0], v4) {
        (ECHO, true) => reply(packet, ECHOED),
        (ECHO_V6, false) => reply(packet, ECHOED_V6),
        (ECHOED, true) | (ECHOED_V6, false) => raw::echoed(packet),
        (kind, v4) if ip::icmp::is_report(kind, v4) => {
            if let Ok(told) = ip::icmp::Report::parse(body, v4) {
                outside::report(&told, packet.route.from);
            }
        }
        _ => {}
    }
}

/// Sends an echo reply.
fn reply(packet: &Packet, kind: u8) {
    let Route { from, to, protocol } = packet.route;
    // Only IPv6 answers requests to groups, from an address of this machine.
    let own = match to.is_multicast() {
        true if to.is_ipv6() => source(from).ok(),
        several => (!several).then_some(to),
    };
    let Some(own) = own.filter(|_| !from.is_unspecified()) else {
        return;
    };
    let body = packet.body();
    let route = Route {
        from: own,
        to: from,
        protocol,
    };
    let mut head = [kind, body[1], 0, 0, body[4], body[5], body[6], body[7]];
    send(route, packet.header.class(), &mut head, &body[HEAD..]);
}

/// Reports to the sender of a packet why it has no receiver.
pub fn refuse(packet: &Packet, why: Why) {
    if is_broadcast(packet.route.to) {
        return;
    }
    if leaves(packet.route.from) {
        let [kind, code, at] = why.type_and_code(packet.route.to.is_ipv4());
        return ether::report([kind, code], at.into(), packet.bytes());
    }
    raw::refused(packet, why);
    let Route { from, to, .. } = packet.route;
    let v4 = to.is_ipv4();
    let most = if v4 {
        MOST - HEAD_V4 - HEAD
    } else {
        MOST_V6 - HEAD_V6 - HEAD
    };
    let quoted = &packet.bytes()[..packet.bytes().len().min(most)];
    let [kind, code, at] = why.type_and_code(v4);
    let route = Route {
        from: to,
        to: from,
        protocol: if v4 { ICMP } else { ICMP_V6 },
    };
    // The precedence of internetwork control messages (`IPTOS_PREC_INTERNETCONTROL`), with the
    // packet's type of service.
    let class = if v4 {
        0xc0 | packet.header.class() & 0x1e
    } else {
        0
    };
    send(route, class, &mut [kind, code, 0, 0, 0, 0, 0, at], quoted);
}

/// Sends a message; it is dropped if there is no memory or no route.
fn send(route: Route, class: u8, head: &mut [u8; HEAD], rest: &[u8]) {
    seal(&route, head, rest);
    let header = Header::new(64, class, SocketAddr::new(route.to, 0));
    if let Ok(packet) = Packet::new(route, header, &[&head[..], rest], false) {
        _ = packet.go(false);
    }
}

/// Sets the checksum in a message's header.
pub fn seal(route: &Route, head: &mut [u8; HEAD], rest: &[u8]) {
    head[2..4].fill(0);
    let start = match route.to {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => pseudo(route, HEAD + rest.len()),
    };
    let sum = fold(add(add(start, head), rest));
    head[2..4].copy_from_slice(&sum.to_be_bytes());
}
