//! Packets from other machines, and errors that they report about packets of this machine.

use super::errors::Report;
use super::packet::{ICMP, ICMP_V6, Packet, UDP};
use super::{icmp, raw, udp};
use crate::net::ether;
use crate::net::mib::{self, Event};
use core::net::{IpAddr, SocketAddr};
use ip::protocol::TCP;

/// Handles a packet for this machine that arrived through an interface; with `broadcast`, it is for
/// others too. May sleep.
pub fn receive(interface: u32, packet: &ip::input::Packet, broadcast: bool) {
    let v6 = packet.source.is_ipv6();
    if packet.protocol == TCP {
        // TCP has no multicast or broadcast connections.
        if !broadcast {
            super::tcp::receive(packet);
        }
        return;
    }
    // Without memory the packet is dropped.
    let Ok(came) = Packet::came(interface, packet) else {
        return;
    };
    let taken = raw::deliver(&came);
    match (came.route.protocol, v6) {
        (ICMP, false) | (ICMP_V6, true) => icmp::receive(&came),
        (UDP, _) => udp::receive(&came),
        _ if !taken && !broadcast => {
            mib::add(Event::Unknown, v6, 1);
            match v6 {
                false => ether::report([3, 2], 0, came.bytes()),
                true => ether::report([4, 1], packet.named_at as u32, came.bytes()),
            }
        }
        _ => {}
    }
}

/// Records the path MTU, if a report about a packet that this machine sent contains one.
pub fn note_path(told: &ip::icmp::Report) {
    if let Some(takes) = told.too_big() {
        let sent = told.inner.length as u32;
        ether::routing::too_big(told.inner.destination, takes, sent);
    }
}

/// Handles a report of another machine about a packet of this one.
pub fn report(told: &ip::icmp::Report, by: IpAddr) {
    let inner = &told.inner;
    let ports = told.quoted.get(inner.at..inner.at + 4);
    let Some(&[a, b, c, d]) = ports else { return };
    let [own, peer] = [[a, b], [c, d]].map(u16::from_be_bytes);
    let from = SocketAddr::new(inner.source, own);
    let to = SocketAddr::new(inner.destination, peer);
    if inner.protocol == TCP {
        return super::tcp::report(told, [from, to]);
    }
    let info = told.too_big().unwrap_or(told.info);
    let report = Report::told(by, [told.kind, told.code], info);
    match inner.protocol {
        UDP => {
            let quoted = &told.quoted[inner.at + super::UDP_HEAD..];
            // If this machine sent nothing there, the report must not change the path MTU.
            if udp::report(&report, from, to, quoted) {
                note_path(told);
            }
        }
        _ => raw::told(&report, told, to.ip()),
    }
}
