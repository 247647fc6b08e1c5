//! Packet sockets on `lo`: names, errors, what they see of datagrams, and what they send.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_PACKET, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, SO_ATTACH_FILTER,
    SO_DOMAIN, SO_ERROR, SO_PROTOCOL, SO_TIMESTAMP, SO_TYPE, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET,
    SOCK_STREAM, SOL_SOCKET, c_int, sock_filter, sock_fprog, sockaddr_ll, socklen_t,
};

use crate::inet::{bind as bind_inet, own_port, send_to};
use crate::unix::{option, send, set};
use crate::{error, in_child, tell, tell_end};

const SOL_PACKET: c_int = 263;
const ADD_MEMBERSHIP: c_int = 1;
const DROP_MEMBERSHIP: c_int = 2;
const STATISTICS: c_int = 6;
const AUXDATA: c_int = 8;
const ORIGDEV: c_int = 9;
const IGNORE_OUTGOING: c_int = 23;
const LOCAL: u32 = 0x7f00_0001;
/// The index of `lo`.
const LO: c_int = 1;
const ALL: u16 = 3;
const IP: u16 = 0x800;
/// A protocol for experiments.
const OWN: u16 = 0x88b5;
const LENGTH: socklen_t = mem::size_of::<sockaddr_ll>() as socklen_t;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("the user", in_child(|| user()));
        kinds();
        names();
        datagrams();
        reports();
        filters();
        sent();
        refused();
        memberships();
    }
}

unsafe fn user() {
    unsafe {
        libc::setgroups(0, ptr::null());
        libc::setgid(1000);
        libc::setuid(1000);
        for kind in [SOCK_RAW, SOCK_DGRAM, SOCK_STREAM] {
            tell("a socket", libc::socket(AF_PACKET, kind, 0));
        }
    }
}

unsafe fn socket(kind: c_int, protocol: u16) -> c_int {
    unsafe { libc::socket(AF_PACKET, kind, c_int::from(protocol.to_be())) }
}

fn address(protocol: u16, index: c_int, mac: u8) -> sockaddr_ll {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = AF_PACKET as _;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    address.sll_halen = 6;
    address.sll_addr[..6].fill(mac);
    address
}

unsafe fn bind(file: c_int, protocol: u16, index: c_int) -> c_int {
    let address = address(protocol, index, 0);
    unsafe { libc::bind(file, (&raw const address).cast(), LENGTH) }
}

unsafe fn kinds() {
    unsafe {
        for kind in [SOCK_STREAM, SOCK_SEQPACKET] {
            tell("another kind", libc::socket(AF_PACKET, kind, 0));
        }
        let mut pair = [0; 2];
        tell(
            "a pair",
            libc::socketpair(AF_PACKET, SOCK_RAW, 0, pair.as_mut_ptr()),
        );
        let file = socket(SOCK_DGRAM, IP);
        for name in [SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ERROR] {
            println!("option {name}: {}", option(file, name));
        }
        let address = address(ALL, LO, 0);
        tell(
            "connect",
            libc::connect(file, (&raw const address).cast(), LENGTH),
        );
        tell("listen", libc::listen(file, 1));
        tell(
            "accept",
            libc::accept(file, ptr::null_mut(), ptr::null_mut()),
        );
        tell("shutdown", libc::shutdown(file, libc::SHUT_RDWR));
        for flags in [MSG_DONTWAIT, MSG_DONTWAIT | MSG_OOB, MSG_ERRQUEUE] {
            tell(
                "nothing",
                libc::recv(file, ptr::null_mut(), 0, flags) as c_int,
            );
        }
        libc::close(file);
    }
}

fn shown(address: &sockaddr_ll) -> String {
    format!(
        "protocol {:#x} interface {} hardware {} type {} address {:?}",
        u16::from_be(address.sll_protocol),
        address.sll_ifindex,
        address.sll_hatype,
        address.sll_pkttype,
        &address.sll_addr[..usize::from(address.sll_halen)]
    )
}

unsafe fn name(file: c_int) {
    unsafe {
        let (mut named, mut length) = (address(0, 0, 0), LENGTH);
        let result = libc::getsockname(file, (&raw mut named).cast(), &mut length);
        println!("name: {result} of {length}, {}", shown(&named));
    }
}

unsafe fn names() {
    unsafe {
        let file = socket(SOCK_RAW, IP);
        name(file);
        let (mut named, mut length) = (address(0, 0, 0), LENGTH);
        let peer = libc::getpeername(file, (&raw mut named).cast(), &mut length);
        tell("a peer", peer);
        tell("bind", bind(file, ALL, LO));
        name(file);
        tell("to no protocol", bind(file, 0, LO));
        name(file);
        tell("to any interface", bind(file, OWN, 0));
        name(file);
        tell("to none", bind(file, OWN, 999));
        let mut other = address(OWN, LO, 0);
        tell(
            "a short one",
            libc::bind(file, (&raw const other).cast(), LENGTH - 1),
        );
        other.sll_family = AF_INET as _;
        tell(
            "another family",
            libc::bind(file, (&raw const other).cast(), LENGTH),
        );
        name(file);
        libc::close(file);
    }
}

/// Receives a frame and prints the beginning of it, and its sender.
unsafe fn receive(what: &str, file: c_int, room: usize, flags: c_int) {
    unsafe {
        let mut bytes = vec![0u8; room];
        let (mut from, mut length) = (address(0, 0, 0), LENGTH);
        let count = libc::recvfrom(
            file,
            bytes.as_mut_ptr().cast(),
            room,
            flags | MSG_DONTWAIT,
            (&raw mut from).cast(),
            &mut length,
        );
        match usize::try_from(count) {
            Ok(count) => {
                // The rest of an IP header differs from datagram to datagram.
                let most = if bytes[0] == 0x45 { 4 } else { 16 };
                let head = &bytes[..count.min(room).min(most)];
                println!("{what}: {count} {head:x?}, {}", shown(&from));
            }
            Err(_) => println!("{what}: {}", error()),
        }
    }
}

/// A datagram socket that receives what it sends.
unsafe fn datagram() -> c_int {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        bind_inet(file, AF_INET, LOCAL, 0);
        file
    }
}

unsafe fn say(file: c_int, bytes: &[u8]) {
    unsafe {
        send_to(file, bytes, AF_INET, LOCAL, own_port(file));
    }
}

unsafe fn datagrams() {
    unsafe {
        let udp = datagram();
        let [all, ip, bare] =
            [(SOCK_RAW, ALL), (SOCK_RAW, IP), (SOCK_DGRAM, IP)].map(|(k, p)| socket(k, p));
        say(udp, b"hello");
        for (what, file) in [("all", all), ("ip", ip), ("bare", bare)] {
            receive(what, file, 14, MSG_PEEK);
            receive(what, file, 14, MSG_PEEK | MSG_TRUNC);
            receive(what, file, 100, 0);
            receive(what, file, 14, 0);
            receive(what, file, 14, 0);
        }
        say(udp, b"");
        bind(all, 0, LO);
        say(udp, b"unheard");
        receive("unbound", all, 14, 0);
        receive("unbound", all, 14, 0);
        receive("unbound", all, 14, 0);
        let ignoring = socket(SOCK_RAW, ALL);
        tell("ignore", set(ignoring, SOL_PACKET, IGNORE_OUTGOING, 1));
        tell(
            "a short one",
            set(ignoring, SOL_PACKET, IGNORE_OUTGOING, 1u8),
        );
        tell("2", set(ignoring, SOL_PACKET, IGNORE_OUTGOING, 2));
        say(udp, b"once");
        receive("ignoring", ignoring, 14, 0);
        receive("ignoring", ignoring, 14, 0);
        for file in [udp, all, ip, bare, ignoring] {
            libc::close(file);
        }
    }
}

unsafe fn statistics(file: c_int) {
    unsafe {
        let (mut counts, mut length) = ([0u32; 2], 8);
        let value = counts.as_mut_ptr().cast();
        let result = libc::getsockopt(file, SOL_PACKET, STATISTICS, value, &mut length);
        println!("statistics: {result} of {length}, {counts:?}");
    }
}

/// Receives a message and prints its control messages.
unsafe fn controls(what: &str, file: c_int) {
    unsafe {
        let (mut bytes, mut control) = ([0u8; 200], [0u64; 32]);
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: 20,
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        let count = libc::recvmsg(file, &mut message, MSG_DONTWAIT);
        if count < 0 {
            return println!("{what}: {}", error());
        }
        println!("{what}: {count}, flags {:#x}", message.msg_flags);
        let mut at = libc::CMSG_FIRSTHDR(&message);
        while let Some(one) = at.as_ref() {
            print!("  level {} type {}", one.cmsg_level, one.cmsg_type);
            if one.cmsg_level == SOL_PACKET {
                let [status, len, kept, offsets, _] =
                    libc::CMSG_DATA(one).cast::<[u32; 5]>().read_unaligned();
                print!(": status {}, {len} {kept} {offsets:#x}", status & 1);
            }
            println!();
            at = libc::CMSG_NXTHDR(&message, one);
        }
    }
}

unsafe fn reports() {
    unsafe {
        let udp = datagram();
        let [raw, bare] = [SOCK_RAW, SOCK_DGRAM].map(|kind| socket(kind, IP));
        for file in [raw, bare] {
            for name in [AUXDATA, ORIGDEV] {
                tell("on", set(file, SOL_PACKET, name, 1));
            }
            set(file, SOL_SOCKET, SO_TIMESTAMP, 1);
        }
        say(udp, b"a report");
        controls("raw", raw);
        controls("bare", bare);
        for text in [b"1", b"2", b"3"] {
            say(udp, text);
        }
        statistics(raw);
        statistics(raw);
        let mut value = 0u32;
        let mut length = 4;
        let at: *mut libc::c_void = (&raw mut value).cast();
        for (level, name) in [(SOL_PACKET, AUXDATA), (SOL_PACKET, 99), (0, 1)] {
            let result = libc::getsockopt(raw, level, name, at, &mut length);
            tell("an option", result);
        }
        println!("it is {value}");
        tell("unknown", set(raw, SOL_PACKET, 99, 1));
        tell("of another level", set(raw, 0, 1, 1));
        for file in [udp, raw, bare] {
            libc::close(file);
        }
    }
}

unsafe fn filters() {
    unsafe {
        let udp = datagram();
        let [raw, bare] = [SOCK_RAW, SOCK_DGRAM].map(|kind| socket(kind, ALL));
        // Only what is sent (PACKET_OUTGOING): 20 bytes of it.
        let mut code = [
            (0x28, 0, 0, 0xffff_f004),
            (0x15, 0, 1, 4),
            (0x06, 0, 0, 20),
            (0x06, 0, 0, 0),
        ]
        .map(|(code, jt, jf, k)| sock_filter { code, jt, jf, k });
        let program = sock_fprog {
            len: code.len() as _,
            filter: code.as_mut_ptr(),
        };
        for file in [raw, bare] {
            tell("a filter", set(file, SOL_SOCKET, SO_ATTACH_FILTER, program));
            set(file, SOL_PACKET, AUXDATA, 1);
        }
        say(udp, b"filtered");
        for file in [raw, bare] {
            controls("cut", file);
            controls("dropped", file);
            statistics(file);
        }
        for file in [udp, raw, bare] {
            libc::close(file);
        }
    }
}

unsafe fn sent() {
    unsafe {
        let [sender, all, one] = [(0), ALL, OWN].map(|protocol| socket(SOCK_RAW, protocol));
        bind(sender, ALL, LO);
        for (what, to) in [("host", 0), ("all", 0xff), ("group", 1), ("other", 2)] {
            let mut frame = [0u8; 20];
            frame[..6].fill(to);
            frame[12..14].copy_from_slice(&OWN.to_be_bytes());
            println!("{what}: {}", send(sender, &frame, 0));
            for file in [all, one, sender] {
                receive("  seen", file, 40, 0);
                receive("  seen", file, 40, 0);
                receive("  seen", file, 40, 0);
            }
        }
        let bare = socket(SOCK_DGRAM, 0);
        tell("nowhere", send(bare, b"bare", 0) as c_int);
        for (protocol, index) in [(OWN, LO), (4, LO)] {
            let to = address(protocol, index, 0);
            let to = (&raw const to).cast();
            let count = libc::sendto(bare, b"bare".as_ptr().cast(), 4, 0, to, LENGTH);
            println!("bare: {count}");
            receive("  seen", all, 40, 0);
            receive("  seen", all, 40, 0);
        }
        bind(bare, OWN, LO);
        println!("bound: {}", send(bare, b"bound", 0));
        receive("  seen", all, 40, 0);
        receive("  seen", bare, 40, 0);
        for file in [sender, all, one, bare] {
            libc::close(file);
        }
    }
}

unsafe fn refused() {
    unsafe {
        let [raw, bare] = [SOCK_RAW, SOCK_DGRAM].map(|kind| socket(kind, 0));
        let long = vec![0u8; 66_000];
        bind(raw, ALL, LO);
        for length in [0, 13, 65_551, 65_554, 65_555] {
            let count = libc::send(raw, long.as_ptr().cast(), length, 0);
            tell("so long", count as c_int);
        }
        let mut to = address(OWN, LO, 0);
        let try_to = |what, file, to: &sockaddr_ll, length, size| {
            let (bytes, to) = (long.as_ptr().cast(), ptr::from_ref(to).cast());
            let count = libc::sendto(file, bytes, length, 0, to, size);
            tell(what, count as c_int);
        };
        try_to("bare and long", bare, &to, 65_537, LENGTH);
        try_to("a short address", bare, &to, 1, 17);
        try_to("a shorter one", bare, &to, 1, 11);
        to.sll_halen = 9;
        try_to("a long link address", bare, &to, 1, LENGTH);
        to.sll_ifindex = 999;
        to.sll_halen = 6;
        try_to("no interface", bare, &to, 1, LENGTH);
        let bad = libc::send(raw, ptr::without_provenance(8), 20, 0);
        tell("bad memory", bad as c_int);
        for file in [raw, bare] {
            libc::close(file);
        }
    }
}

unsafe fn memberships() {
    unsafe {
        let file = socket(SOCK_RAW, 0);
        let request = |index: c_int, kind: u16, length: u16| {
            let mut bytes = [0u8; 16];
            bytes[..4].copy_from_slice(&index.to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[6..8].copy_from_slice(&length.to_ne_bytes());
            bytes[8] = 1;
            bytes
        };
        for (index, kind, length) in [
            (LO, 0, 6),
            (LO, 0, 5),
            (LO, 1, 0),
            (LO, 1, 7),
            (LO, 2, 0),
            (LO, 3, 6),
            (LO, 3, 0),
            (LO, 9, 0),
            (999, 1, 0),
        ] {
            let asked = request(index, kind, length);
            let what = format!("interface {index} kind {kind} length {length}");
            tell(&what, set(file, SOL_PACKET, ADD_MEMBERSHIP, asked));
        }
        tell(
            "drop",
            set(file, SOL_PACKET, DROP_MEMBERSHIP, request(LO, 1, 0)),
        );
        tell(
            "again",
            set(file, SOL_PACKET, DROP_MEMBERSHIP, request(LO, 1, 0)),
        );
        tell("short", set(file, SOL_PACKET, ADD_MEMBERSHIP, [0u8; 15]));
        tell(
            "longer address",
            set(file, SOL_PACKET, ADD_MEMBERSHIP, request(LO, 0, 9)),
        );
        libc::close(file);
    }
}
