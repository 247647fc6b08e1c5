//! Received frames: packets for this machine go to its protocols, all others are dropped.

use super::addresses::{self, Own};
use super::interface::Interface;
use super::{neighbours, now, output, routing};
use crate::hash::Keyed;
use crate::mm::virtio_net::Frame;
use crate::net::inet::outside;
use crate::net::packet::taps;
use crate::sync::Mutex;
use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;
use ip::ethernet::{self, Mac};
use ip::icmp::{self, Limiter};
use ip::input::{Input, Packet, Received};
use ip::protocol;

/// The input of a card, owned by its thread, since no other receives through it.
pub type In = Input<Keyed>;

static LIMITER: Mutex<Limiter> = Mutex::new(Limiter::new());

fn allows() -> bool {
    let drawn = crate::random::u64();
    LIMITER.lock().allows(now(), drawn)
}

/// Handles a frame that was received through an interface. May sleep.
pub fn receive(interface: &Interface, input: &mut In, frame: &Frame) {
    let counts = &interface.counts;
    counts.received.fetch_add(1, Relaxed);
    let bytes = frame.bytes().len() as u64;
    counts.received_bytes.fetch_add(bytes, Relaxed);
    if taps::is_used() && interface.is_up() {
        taps::received(interface, frame.bytes());
    }
    if !interface.is_up() || !take(interface, input, frame) {
        counts.received_dropped.fetch_add(1, Relaxed);
    }
    expire(input);
}

/// Notifies the senders of datagrams whose reassembly timed out.
fn expire(input: &mut In) {
    while let Some(expired) = input.fragments.expire(now()) {
        if let Some(first) = expired.first {
            let kinds = match expired.key.source {
                IpAddr::V4(_) => [icmp::TIME_EXCEEDED, 1],
                IpAddr::V6(_) => [icmp::TIME_EXCEEDED_V6, 1],
            };
            report(kinds, 0, &first);
        }
    }
}

fn take(interface: &Interface, input: &mut In, frame: &Frame) -> bool {
    let Ok(frame) = ethernet::Frame::parse(frame.bytes()) else {
        return false;
    };
    let broadcast = frame.destination.is_multicast();
    if broadcast {
        interface.counts.multicast.fetch_add(1, Relaxed);
    }
    if !broadcast && frame.destination != interface.mac {
        return false;
    }
    match frame.kind {
        ethernet::ARP => {
            neighbours::receive_arp(interface, frame.payload);
            true
        }
        ethernet::IPV4 | ethernet::IPV6 => {
            match input.receive(now(), interface.index, frame.kind, frame.payload) {
                Received::Packet(packet) => deliver(interface, &packet, frame.destination),
                Received::Waits => true,
                Received::Damaged | Received::LostPart => false,
                Received::Problem {
                    code,
                    at,
                    packet,
                    also_of_groups,
                } => {
                    if !broadcast || also_of_groups {
                        let kinds = [icmp::PARAMETER_PROBLEM_V6, code];
                        report(kinds, at as u32, packet);
                    }
                    false
                }
            }
        }
        _ => false,
    }
}

/// Passes a packet to its protocol, if it is for this machine.
fn deliver(interface: &Interface, packet: &Packet, card: Mac) -> bool {
    let (from, to) = (packet.source, packet.destination);
    // No other machine may send from an address of this machine.
    if addresses::own(from).is_some() {
        return false;
    }
    let is_group = to.is_multicast();
    let own = addresses::own(to);
    let takes = match is_group {
        true => addresses::is_joined(interface, to),
        // A unicast packet in a multicast frame is not legitimate.
        false => own == Some(Own::Broadcast) || own.is_some() && !card.is_multicast(),
    };
    if !takes {
        return false;
    }
    let broadcast = is_group || own == Some(Own::Broadcast);
    if packet.protocol == protocol::ICMP_V6 && from.is_ipv6() {
        let message = packet.payload();
        if !icmp::is_sound(message, from, to) {
            return false;
        }
        if (ip::ndp::ROUTER_SOLICITATION..=ip::ndp::ADVERTISEMENT).contains(&message[0]) {
            neighbours::receive_ndp(interface, message, packet.hops, from, to);
            return true;
        }
    }
    outside::receive(interface.index, packet, broadcast);
    true
}

/// Reports an error about a packet to its sender, if that is allowed: not about packets for another
/// machine, or with a source address of this machine.
pub fn report(kinds: [u8; 2], info: u32, packet: &[u8]) {
    let Some(inner) = icmp::Inner::parse(packet) else {
        return;
    };
    let (from, to) = (inner.destination, inner.source);
    if addresses::own(from) != Some(Own::Host) || addresses::own(to).is_some() {
        return;
    }
    if !icmp::may_report(packet, false) || !allows() {
        return;
    }
    let Ok(way) = routing::find(to, Some(from)) else {
        return;
    };
    let Ok(mut message) = icmp::error(kinds, info, packet) else {
        return;
    };
    icmp::seal(&mut message, way.source, to);
    let v4 = to.is_ipv4();
    let carried = output::Carried {
        from: way.source,
        to,
        protocol: if v4 {
            protocol::ICMP
        } else {
            protocol::ICMP_V6
        },
        hops: 64,
        // The precedence of a message about the network (`IPTOS_PREC_INTERNETCONTROL`).
        class: if v4 { 0xc0 } else { 0 },
        whole: v4,
    };
    _ = output::send(&way, &carried, &[&message]);
}

/// A packet of this machine cannot reach its next hop.
pub(super) fn unreachable(packet: &[u8]) {
    let v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let kinds = match v4 {
        true => [icmp::UNREACHABLE, 1],
        false => [icmp::UNREACHABLE_V6, 3],
    };
    // Handled as if this machine had received the message from itself.
    if let Ok(message) = icmp::error(kinds, 0, packet)
        && let Ok(told) = icmp::Report::parse(&message, v4)
    {
        outside::report(&told, told.inner.source);
    }
}
