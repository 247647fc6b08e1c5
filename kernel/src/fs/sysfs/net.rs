//! Interfaces with a card.

use super::super::seq_file::Node::{self, Link, Of};
use super::super::seq_file::{Family, Text};
use crate::net::ether::Interface;
use crate::net::ether::interface::{self, HARDWARE, QUEUE};
use crate::put;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The interfaces, by their indices.
pub const CARDS: Family = Family {
    from: |_, first| {
        let mut indices = interface::all().map(|interface| interface.index as usize);
        indices.find(|&index| index >= first)
    },
    name: |index, text| of(index, |interface| text.push(interface.text().as_bytes())),
    node: |_| Node::Directory(CARD),
};

const CARD: &[(&str, Node)] = &[
    ("addr_len", Of(|_, text| text.push(b"6\n"))),
    (
        "address",
        Of(|index, text| of(index, |interface| mac(text, interface.mac.0))),
    ),
    ("broadcast", Of(|_, text| mac(text, [0xff; 6]))),
    (
        "carrier",
        Of(|index, text| {
            of(index, |interface| {
                put!(text, "{}\n", u32::from(works(interface)))
            })
        }),
    ),
    ("dev_id", Of(|_, text| text.push(b"0x0\n"))),
    (
        "flags",
        Of(|index, text| {
            of(index, |interface| {
                put!(text, "{:#x}\n", interface.flags() & 0x1003)
            })
        }),
    ),
    ("ifindex", Of(|index, text| put!(text, "{index}\n"))),
    ("iflink", Of(|index, text| put!(text, "{index}\n"))),
    (
        "mtu",
        Of(|index, text| of(index, |interface| put!(text, "{}\n", interface.mtu()))),
    ),
    (
        "operstate",
        Of(|index, text| {
            of(index, |interface| {
                let state: &[u8] = if works(interface) { b"up\n" } else { b"down\n" };
                text.push(state);
            })
        }),
    ),
    ("statistics", Node::Directory(STATISTICS)),
    (
        "subsystem",
        Link(|text| text.push(b"../../../../class/net")),
    ),
    ("tx_queue_len", Of(|_, text| put!(text, "{QUEUE}\n"))),
    ("type", Of(|_, text| put!(text, "{HARDWARE}\n"))),
    (
        "uevent",
        Of(|index, text| {
            of(index, |interface| {
                put!(text, "INTERFACE={}\nIFINDEX={index}\n", interface.text());
            })
        }),
    ),
];

const STATISTICS: &[(&str, Node)] = &[
    (
        "multicast",
        Of(|index, text| count(index, text, |counts| &counts.multicast)),
    ),
    (
        "rx_bytes",
        Of(|index, text| count(index, text, |counts| &counts.received_bytes)),
    ),
    (
        "rx_dropped",
        Of(|index, text| count(index, text, |counts| &counts.received_dropped)),
    ),
    (
        "rx_packets",
        Of(|index, text| count(index, text, |counts| &counts.received)),
    ),
    (
        "tx_bytes",
        Of(|index, text| count(index, text, |counts| &counts.sent_bytes)),
    ),
    (
        "tx_dropped",
        Of(|index, text| count(index, text, |counts| &counts.sent_dropped)),
    ),
    (
        "tx_packets",
        Of(|index, text| count(index, text, |counts| &counts.sent)),
    ),
];

fn of(index: usize, act: impl FnOnce(&Interface)) {
    if let Some(interface) = interface::by_index(index as u32) {
        act(interface);
    }
}

fn count(index: usize, text: &mut Text, which: fn(&interface::Counts) -> &AtomicU64) {
    of(index, |interface| {
        put!(text, "{}\n", which(&interface.counts).load(Relaxed))
    });
}

fn works(interface: &Interface) -> bool {
    interface.is_up() && interface.card.is_link_up()
}

fn mac(text: &mut Text, [a, b, c, d, e, f]: [u8; 6]) {
    put!(text, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\n");
}
