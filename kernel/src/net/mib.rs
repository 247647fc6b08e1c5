//! Counters of the network, for `/proc/net/snmp` and its kin. Each CPU has its own. TCP has no
//! packets here; only its connections are counted.

use crate::arch::{MAX_CPUS, cpu};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The events that are counted, separately for IPv4 and IPv6.
#[derive(Clone, Copy)]
pub enum Event {
    /// Packets and datagrams, which arrive as soon as they are sent.
    Packets,
    /// Their bytes.
    Octets,
    /// Packets of no known protocol.
    Unknown,
    /// Damaged ICMP messages.
    Damaged,
    /// Echo requests, and echo replies.
    Requests,
    Echoes,
    /// Port unreachable, or for IPv4 protocol unreachable.
    Unreachable,
    /// IPv6: unknown next header.
    Problems,
    /// Other ICMP messages.
    Others,
    /// UDP datagrams that were received, sent, without a receiver, or dropped for lack of room.
    Received,
    Sent,
    NoPorts,
    Overflows,
    /// Datagrams to a broadcast address without a receiver.
    Ignored,
    /// The same counts for UDP-Lite.
    LiteReceived,
    LiteSent,
    LiteNoPorts,
    LiteOverflows,
    LiteIgnored,
    /// TCP connections opened actively, and passively.
    Active,
    Passive,
    /// Connection attempts that failed, and connections that were reset.
    Failed,
    Reset,
    /// Connections refused by a full queue.
    Refused,
}

use Event::*;

/// The number of events of a family.
const EVENTS: usize = Refused as usize + 1;

/// A CPU's counts, in cache lines of its own.
#[repr(align(64))]
struct Counts([AtomicU64; 2 * EVENTS]);

static COUNTS: [Counts; MAX_CPUS] =
    [const { Counts([const { AtomicU64::new(0) }; 2 * EVENTS]) }; MAX_CPUS];

fn place(event: Event, v6: bool) -> usize {
    event as usize + if v6 { EVENTS } else { 0 }
}

/// Counts `often` events.
pub fn add(event: Event, v6: bool, often: usize) {
    let counts = &COUNTS[cpu::this().index()].0;
    counts[place(event, v6)].fetch_add(often as u64, Relaxed);
}

/// The number of events.
pub fn of(event: Event, v6: bool) -> u64 {
    let at = place(event, v6);
    let each = COUNTS.iter().map(|counts| counts.0[at].load(Relaxed));
    each.sum()
}

/// Counts a packet of `len` bytes, including its header.
pub fn packet(v6: bool, len: usize) {
    add(Packets, v6, 1);
    add(Octets, v6, len);
}

/// Counts an ICMP message of this type.
pub fn message(v6: bool, kind: u8) {
    let event = match (v6, kind) {
        (false, 8) | (true, 128) => Requests,
        (false, 0) | (true, 129) => Echoes,
        (false, 3) | (true, 1) => Unreachable,
        (true, 4) => Problems,
        _ => Others,
    };
    add(event, v6, 1);
}

/// Counts a UDP or UDP-Lite datagram.
pub fn datagram(event: Event, lite: bool, v6: bool) {
    let event = match event {
        Received if lite => LiteReceived,
        Sent if lite => LiteSent,
        NoPorts if lite => LiteNoPorts,
        Overflows if lite => LiteOverflows,
        Ignored if lite => LiteIgnored,
        event => event,
    };
    add(event, v6, 1);
}
