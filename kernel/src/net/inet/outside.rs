//! Packets from other machines, and errors that they report about packets of this machine.

use super::errors::Report;
use super::packet::{ICMP, ICMP_V6, Packet, UDP};
use super::{icmp, raw, udp};
use crate::net::ether;
use crate::net::mib::{self, Event};
use core::net::{IpAddr, SocketAddr};
use ip::protocol::TCP;

/// A packet for this machine came through an interface; `broadcast`: it is for others too. May
/// sleep.
pub fn receive(interface: u32, packet: &ip::input::Packet, broadcast: bool) {
    let v6 = packet.source.is_ipv6();
    if packet.protocol == TCP {
        // Nobody connects from several machines, or to them.
        if !broadcast {
            super::tcp::receive(packet);
        }
        return;
    }
    // Without memory it is lost.
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

/// Notes what a path takes, if a report of a packet that this machine sent says so.
pub fn note_path(told: &ip::icmp::Report) {
    if let Some(takes) = told.too_big() {
        let sent = told.inner.length as u32;
        ether::routing::too_big(told.inner.destination, takes, sent);
    }
}

/// A machine reports about a packet of this one's.
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
            // Whoever sent nothing there is not to be told what its path takes.
            if udp::report(&report, from, to, quoted) {
                note_path(told);
            }
        }
        _ => raw::told(&report, told, to.ip()),
    }
}
