//! Frames of a hostile link: whatever they hold, nothing panics and nothing grows beyond its limit.
#![no_main]

use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use ip::ethernet::{self, Frame};
use ip::input::{Input, Received};
use ip::neighbours::{Key, Neighbours, Said};
use ip::{arp, fragments, icmp, ndp, neighbours, protocol, udp};
use libfuzzer_sys::fuzz_target;

type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(Hasher::default());
    let mut table = Neighbours::<(), Hasher>::new(Hasher::default());
    let (mut rest, mut now) = (bytes, 0);
    // Each frame has its length before it.
    while let [length, more @ ..] = rest {
        let (frame, more) = more.split_at(more.len().min(usize::from(*length)));
        (rest, now) = (more, now + ip::SECOND);
        let Ok(frame) = Frame::parse(frame) else { continue };
        if frame.kind == ethernet::ARP {
            if let Ok(packet) = arp::Packet::parse(frame.payload) {
                let key = Key { interface: 1, ip: packet.sender_ip.into() };
                let said = Said { solicited: true, overrides: true, creates: true };
                table.learn(now, key, Some(packet.sender), said);
            }
            continue;
        }
        if let Received::Packet(packet) = input.receive(now, 1, frame.kind, frame.payload) {
            let (from, to, payload) = (packet.source, packet.destination, packet.payload());
            let whole = packet.bytes.as_slice();
            if icmp::may_report(whole, false) {
                let message = icmp::error([3, 3], 0, whole).unwrap();
                _ = icmp::Report::parse(&message, from.is_ipv4());
            }
            match (packet.protocol, from, to) {
                (protocol::UDP, ..) => _ = udp::parse(from, to, payload),
                (protocol::ICMP_V6, IpAddr::V6(from), IpAddr::V6(to)) => {
                    _ = ndp::Message::parse(payload, packet.hops, from, to);
                    _ = icmp::Report::parse(payload, false);
                }
                (protocol::ICMP, ..) => _ = icmp::Report::parse(payload, true),
                _ => {}
            }
        }
        table.on_timer(now);
        input.fragments.expire(now);
        assert!(input.fragments.bytes() <= fragments::MOST_BYTES);
        assert!(table.iter().count() <= neighbours::MOST);
    }
});
