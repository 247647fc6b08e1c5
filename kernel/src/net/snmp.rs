//! The counters of protocols as /proc/net shows them (snmp, snmp6, netstat, dev), with their names
//! from RFCs.

use super::ether::interface;
use super::mib::{Event, of};
use super::proc_net;
use crate::arch::cpu::{self, Cpu};
use crate::fs::seq_file::Text;
use crate::put;
use Event::*;
use core::sync::atomic::Ordering::Relaxed;

/// A name and its value.
type Row = (&'static str, u64);

/// A group of `snmp` and `netstat`: a line of names and one of numbers.
fn put_group(text: &mut Text, group: &str, rows: &[Row]) {
    put!(text, "{group}:");
    rows.iter().for_each(|(name, _)| put!(text, " {name}"));
    put!(text, "\n{group}:");
    // The maximum number of connections is unlimited: -1.
    rows.iter()
        .for_each(|(_, number)| put!(text, " {}", *number as i64));
    put!(text, "\n");
}

/// ICMP messages of all types.
fn messages(v6: bool) -> u64 {
    let kinds = [Requests, Echoes, Unreachable, Problems, Others];
    kinds.map(|kind| of(kind, v6)).iter().sum()
}

/// The counts of UDP: [`Event::Received`] and the following ones, or those of UDP-Lite.
fn datagrams(v6: bool, [received, none, sent, lost, ignored]: [Event; 5]) -> [Row; 9] {
    [
        ("InDatagrams", of(received, v6)),
        ("NoPorts", of(none, v6)),
        ("InErrors", of(lost, v6)),
        ("OutDatagrams", of(sent, v6)),
        ("RcvbufErrors", of(lost, v6)),
        ("SndbufErrors", 0),
        ("InCsumErrors", 0),
        ("IgnoredMulti", of(ignored, v6)),
        ("MemErrors", 0),
    ]
}

const UDP: [Event; 5] = [Received, NoPorts, Sent, Overflows, Ignored];
const UDP_LITE: [Event; 5] = [
    LiteReceived,
    LiteNoPorts,
    LiteSent,
    LiteOverflows,
    LiteIgnored,
];

/// /proc/net/snmp
pub fn snmp(text: &mut Text) {
    let (packets, unknown) = (of(Packets, false), of(Unknown, false));
    put_group(
        text,
        "Ip",
        &[
            ("Forwarding", 2),
            ("DefaultTTL", 64),
            ("InReceives", packets),
            ("InHdrErrors", 0),
            ("InAddrErrors", 0),
            ("ForwDatagrams", 0),
            ("InUnknownProtos", unknown),
            ("InDiscards", 0),
            ("InDelivers", packets - unknown.min(packets)),
            ("OutRequests", packets),
            ("OutDiscards", 0),
            ("OutNoRoutes", 0),
            ("ReasmTimeout", 0),
            ("ReasmReqds", 0),
            ("ReasmOKs", 0),
            ("ReasmFails", 0),
            ("FragOKs", 0),
            ("FragFails", 0),
            ("FragCreates", 0),
            ("OutTransmits", packets),
        ],
    );
    let [requests, echoes, unreachable, damaged] =
        [Requests, Echoes, Unreachable, Damaged].map(|event| of(event, false));
    put_group(
        text,
        "Icmp",
        &[
            ("InMsgs", messages(false) + damaged),
            ("InErrors", damaged),
            ("InCsumErrors", damaged),
            ("InDestUnreachs", unreachable),
            ("InEchos", requests),
            ("InEchoReps", echoes),
            ("OutMsgs", messages(false)),
            ("OutErrors", 0),
            ("OutDestUnreachs", unreachable),
            ("OutEchos", requests),
            ("OutEchoReps", echoes),
        ],
    );
    put_group(
        text,
        "Tcp",
        &[
            ("RtoAlgorithm", 1),
            ("RtoMin", 200),
            ("RtoMax", 120_000),
            ("MaxConn", u64::MAX),
            ("ActiveOpens", of(Active, false)),
            ("PassiveOpens", of(Passive, false)),
            ("AttemptFails", of(Failed, false)),
            ("EstabResets", of(Reset, false)),
            ("CurrEstab", proc_net::established()),
            ("InSegs", 0),
            ("OutSegs", 0),
            ("RetransSegs", 0),
            ("InErrs", 0),
            ("OutRsts", 0),
            ("InCsumErrors", 0),
        ],
    );
    put_group(text, "Udp", &datagrams(false, UDP));
    put_group(text, "UdpLite", &datagrams(false, UDP_LITE));
}

/// /proc/net/netstat
pub fn netstat(text: &mut Text) {
    let refused = of(Refused, false) + of(Refused, true);
    put_group(
        text,
        "TcpExt",
        &[
            ("SyncookiesSent", 0),
            ("SyncookiesRecv", 0),
            ("SyncookiesFailed", 0),
            ("TW", 0),
            ("ListenOverflows", refused),
            ("ListenDrops", refused),
            ("TCPTimeouts", 0),
            ("TCPOFOQueue", 0),
            ("TCPSynRetrans", 0),
            ("TCPRcvQDrop", 0),
        ],
    );
    let octets = of(Octets, false);
    put_group(
        text,
        "IpExt",
        &[
            ("InNoRoutes", 0),
            ("InTruncatedPkts", 0),
            ("InMcastPkts", 0),
            ("OutMcastPkts", 0),
            ("InBcastPkts", 0),
            ("OutBcastPkts", 0),
            ("InOctets", octets),
            ("OutOctets", octets),
        ],
    );
}

/// /proc/net/snmp6
pub fn snmp6(text: &mut Text) {
    let [packets, octets, unknown] = [Packets, Octets, Unknown].map(|event| of(event, true));
    let [requests, echoes, unreachable, problems, damaged] =
        [Requests, Echoes, Unreachable, Problems, Damaged].map(|event| of(event, true));
    let rows = [
        ("Ip6InReceives", packets),
        ("Ip6InUnknownProtos", unknown),
        ("Ip6InDelivers", packets - unknown.min(packets)),
        ("Ip6OutRequests", packets),
        ("Ip6InOctets", octets),
        ("Ip6OutOctets", octets),
        ("Ip6OutTransmits", packets),
        ("Icmp6InMsgs", messages(true) + damaged),
        ("Icmp6InErrors", damaged),
        ("Icmp6OutMsgs", messages(true)),
        ("Icmp6InCsumErrors", damaged),
        ("Icmp6InDestUnreachs", unreachable),
        ("Icmp6InParmProblems", problems),
        ("Icmp6InEchos", requests),
        ("Icmp6InEchoReplies", echoes),
        ("Icmp6OutDestUnreachs", unreachable),
        ("Icmp6OutParmProblems", problems),
        ("Icmp6OutEchos", requests),
        ("Icmp6OutEchoReplies", echoes),
    ];
    for (name, number) in rows {
        put!(text, "{name:<32}\t{number}\n");
    }
    for (group, events) in [("Udp6", UDP), ("UdpLite6", UDP_LITE)] {
        for (name, number) in datagrams(true, events) {
            let left = 32 - group.len();
            put!(text, "{group}{name:<left$}\t{number}\n");
        }
    }
}

/// The statistics of each CPU's queue of received packets: the number of the CPU among zeroes,
/// since none is queued here.
pub fn softnet_stat(text: &mut Text) {
    const COLUMNS: usize = 15;
    const CPU: usize = 12;
    for cpu in cpu::online().map(Cpu::index) {
        let mut row = [0; COLUMNS];
        row[CPU] = cpu;
        for (column, number) in row.into_iter().enumerate() {
            let gap = if column == 0 { "" } else { " " };
            put!(text, "{gap}{number:08x}");
        }
        put!(text, "\n");
    }
}

/// /proc/net/dev
pub fn dev(text: &mut Text) {
    let both = |event| of(event, false) + of(event, true);
    let (bytes, packets) = (both(Octets), both(Packets));
    put!(
        text,
        "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame \
         compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
    );
    put!(
        text,
        "    lo: {bytes:7} {packets:7}    0    0    0     0          0         0"
    );
    put!(
        text,
        " {bytes:8} {packets:7}    0    0    0     0       0          0\n"
    );
    for interface in interface::all() {
        let counts = &interface.counts;
        let [bytes, packets, lost, several] = [
            &counts.received_bytes,
            &counts.received,
            &counts.received_dropped,
            &counts.multicast,
        ]
        .map(|count| count.load(Relaxed));
        put!(
            text,
            "{:>6}: {bytes:7} {packets:7}    0 {lost:4}    0     0          0 {several:9}",
            interface.text()
        );
        let [bytes, packets, lost] = [&counts.sent_bytes, &counts.sent, &counts.sent_dropped]
            .map(|count| count.load(Relaxed));
        put!(
            text,
            " {bytes:8} {packets:7}    0 {lost:4}    0     0       0          0\n"
        );
    }
}
