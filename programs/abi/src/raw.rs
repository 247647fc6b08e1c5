//! Raw and ping sockets on the local machine, over IPv4 and IPv6.

use std::mem;

use libc::{
    AF_INET, AF_INET6, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_RAW,
    IPPROTO_UDP, MSG_DONTWAIT, MSG_OOB, POLLERR, POLLIN, SOCK_DGRAM, SOCK_RAW, SOL_RAW, c_int,
    socklen_t,
};

use crate::inet::{bind, connect, name, own_port, send_to};
use crate::pipes::ready;
use crate::unix::set;
use crate::{in_child, tell, tell_end};

/// Addresses of the machine.
const LOCAL: u32 = 0x7f00_0001;
const OTHER: u32 = 0x7f00_0002;
/// The groups that may create ping sockets.
const GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";
/// Options of raw sockets.
const FILTER: c_int = 1;
const IPV6_CHECKSUM: c_int = 7;
const IPV6_HDRINCL: c_int = 36;
/// A protocol number that is not in use.
const FREE: c_int = 253;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        groups();
        tell_end("the user", in_child(|| user()));
        for family in [AF_INET, AF_INET6] {
            println!("family {family}");
            pings(family);
            echoes(family);
            bound(family);
        }
        kinds();
        headers();
        checksums();
        datagrams();
        nobody();
        errors();
        // Other tests may share the machine.
        set_groups("1 0");
    }
}

fn set_groups(range: &str) {
    match std::fs::write(GROUPS, range) {
        Ok(()) => {}
        Err(error) => println!("{range:?}: {:?}", error.raw_os_error()),
    }
    print!(
        "groups {range:?}: {}",
        std::fs::read_to_string(GROUPS).unwrap_or_default()
    );
}

fn protocol(family: c_int) -> c_int {
    if family == AF_INET {
        IPPROTO_ICMP
    } else {
        IPPROTO_ICMPV6
    }
}

unsafe fn groups() {
    unsafe {
        print!("{}", std::fs::read_to_string(GROUPS).unwrap_or_default());
        tell("nobody's", libc::socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
        tell(
            "nobody's",
            libc::socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
        );
        for range in ["5 3", "4294967295 0", "x 1", "1000 1000"] {
            set_groups(range);
        }
        tell("another's", libc::socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
        tell(
            "of the other",
            libc::socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6),
        );
    }
}

/// Operations by a user without capabilities.
unsafe fn user() {
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setgid(1000);
        libc::setuid(1000);
        for family in [AF_INET, AF_INET6] {
            tell("raw", libc::socket(family, SOCK_RAW, protocol(family)));
            tell("of none", libc::socket(family, SOCK_RAW, 0));
            let ping = libc::socket(family, SOCK_DGRAM, protocol(family));
            println!("ping: {}", ping >= 0);
            tell("a small one", bind(ping, family, LOCAL, 7));
            tell(
                "asked",
                send_to(ping, &request(family, 3), family, LOCAL, 0),
            );
            show("answered", ping, 8);
        }
        set_groups("0 1");
    }
}

/// An echo request with this number.
fn request(family: c_int, number: u8) -> Vec<u8> {
    let kind = if family == AF_INET { 8 } else { 128 };
    let mut bytes = vec![kind, 0, 0, 0, 0x12, 0x34, 0, number];
    bytes.extend_from_slice(b"echo!");
    bytes
}

/// Adds the checksum, which IPv4 requires.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut sum: u32 = 0;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
    }
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Waits for a message, and prints its bytes from `from` on.
unsafe fn show(what: &str, file: c_int, from: usize) {
    unsafe {
        let mut entry = libc::pollfd {
            fd: file,
            events: POLLIN,
            revents: 0,
        };
        libc::poll(&mut entry, 1, 5000);
        show_now(what, file, from);
    }
}

/// The same without waiting. Leaves out the identification and the checksum of an IPv4 header.
unsafe fn show_now(what: &str, file: c_int, from: usize) {
    unsafe {
        let mut bytes = [0u8; 2048];
        let mut sender: libc::sockaddr_in6 = mem::zeroed();
        let mut length = mem::size_of_val(&sender) as socklen_t;
        let count = libc::recvfrom(
            file,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            MSG_DONTWAIT,
            (&raw mut sender).cast(),
            &mut length,
        );
        if count < 0 {
            return tell(what, count as i64);
        }
        if bytes[0] == 0x45 {
            bytes[4..6].fill(0);
            bytes[10..12].fill(0);
        }
        let end = (count as usize).min(from + 64);
        let port = sender.sin6_port;
        println!(
            "{what}: {count} {:02x?} port {port}",
            &bytes[from.min(end)..end]
        );
    }
}

unsafe fn pings(family: c_int) {
    unsafe {
        set_groups("0 2147483647");
        let a = libc::socket(family, SOCK_DGRAM, protocol(family));
        name("unnamed", a, libc::getsockname);
        tell("bind", bind(a, family, LOCAL, 0x4321));
        name("named", a, libc::getsockname);
        tell("again", bind(a, family, LOCAL, 0x4322));
        let b = libc::socket(family, SOCK_DGRAM, protocol(family));
        tell("taken", bind(b, family, LOCAL, 0x4321));
        tell("foreign", bind(b, family, 0x0808_0808, 1));
        let sent = |bytes: &[u8]| send_to(a, bytes, family, LOCAL, 0);
        tell("sent", sent(&request(family, 1)));
        show("answer", a, 0);
        let mut other = request(family, 1);
        other[0] = 0;
        tell("an answer", sent(&other));
        other = request(family, 1);
        other[1] = 1;
        tell("another code", sent(&other));
        tell("too short", sent(&[8; 7]));
        tell("far too long", sent(&vec![0; 65536]));
        tell("no place", crate::unix::send(a, &request(family, 1), 0));
        tell("urgent", crate::unix::send(a, &request(family, 1), MSG_OOB));
        tell(
            "elsewhere",
            send_to(a, &request(family, 1), family, 0x0808_0808, 0),
        );
        tell("connect", connect(a, family, LOCAL, 0));
        name("peer", a, libc::getpeername);
        tell(
            "without a place",
            crate::unix::send(a, &request(family, 2), 0),
        );
        show("answer", a, 0);
        show_now("nothing", b, 0);
        tell(
            "sent by one unnamed",
            send_to(b, &request(family, 9), family, LOCAL, 0),
        );
        show("answer", b, 6);
        println!("its number: {}", own_port(b) != 0);
        ready("ready", b, POLLIN);
        libc::close(a);
        libc::close(b);
    }
}

unsafe fn echoes(family: c_int) {
    unsafe {
        let a = libc::socket(family, SOCK_RAW, protocol(family));
        name("named", a, libc::getsockname);
        let bytes = if family == AF_INET {
            summed(request(family, 5))
        } else {
            request(family, 5)
        };
        tell("sent", send_to(a, &bytes, family, LOCAL, 0));
        show("its own", a, 0);
        show("the answer", a, 0);
        show_now("no more", a, 0);
        let (level, filter) = if family == AF_INET {
            (SOL_RAW, [1 << 8; 8])
        } else {
            (IPPROTO_ICMPV6, [0, 0, 0, 0, 1, 0, 0, 0])
        };
        tell("filter", set(a, level, FILTER, filter));
        tell("sent", send_to(a, &bytes, family, LOCAL, 0));
        show("the answer", a, 0);
        show_now("no more", a, 0);
        tell("an odd option", set(a, level, 9, 1));
        tell(
            "damaged",
            send_to(a, &[8, 0, 1, 2, 3, 4, 5, 6], family, LOCAL, 0),
        );
        let short = send_to(a, b"x", family, LOCAL, 0);
        tell("too short", short);
        while libc::recv(a, [0u8; 64].as_mut_ptr().cast(), 64, MSG_DONTWAIT) > 0 {}
        libc::close(a);
    }
}

unsafe fn bound(family: c_int) {
    unsafe {
        let [a, b, c] = [0; 3].map(|_| libc::socket(family, SOCK_RAW, FREE));
        tell("bind", bind(a, family, LOCAL, 5));
        name("bound", a, libc::getsockname);
        tell("again", bind(a, family, LOCAL, 6));
        tell("foreign", bind(a, family, 0x0808_0808, 5));
        if family == AF_INET {
            tell("bind", bind(b, family, OTHER, 0));
        }
        tell("sent", send_to(c, b"free", family, LOCAL, 0));
        show("a copy", a, 0);
        show("a copy", c, 0);
        show_now("bound elsewhere", b, 0);
        tell("connect", connect(b, family, LOCAL, 9));
        name("connected", b, libc::getsockname);
        name("to", b, libc::getpeername);
        tell("sent", crate::unix::send(b, b"mine", 0));
        show("a copy", a, 0);
        tell("to another port", send_to(a, b"port", family, LOCAL, 9));
        tell("nowhere", crate::unix::send(a, b"x", 0));
        tell("shut", libc::shutdown(a, libc::SHUT_WR));
        tell("shut", libc::shutdown(b, libc::SHUT_WR));
        tell("mute", crate::unix::send(b, b"x", libc::MSG_NOSIGNAL));
        for file in [a, b, c] {
            libc::close(file);
        }
    }
}

unsafe fn kinds() {
    unsafe {
        for protocol in [0, 256, 263, -1] {
            tell("protocol", libc::socket(AF_INET, SOCK_RAW, protocol));
        }
        let a = libc::socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
        tell("a filter of others", set(a, SOL_RAW, FILTER, 1));
        tell("UDP's option", set(a, IPPROTO_UDP, libc::UDP_CORK, 1));
        tell("listen", libc::listen(a, 1));
        tell(
            "far too long",
            send_to(a, &vec![0; 65536], AF_INET, LOCAL, 0),
        );
        tell("too long", send_to(a, &vec![0; 65516], AF_INET, LOCAL, 0));
        let b = libc::socket(AF_INET, SOCK_DGRAM, 0);
        tell("a header of UDP", set(b, IPPROTO_IP, libc::IP_HDRINCL, 1));
        libc::close(a);
        libc::close(b);
    }
}

/// An IPv4 packet of this protocol, with a wrong length and checksum.
fn packet(protocol: c_int, from: u32, to: u32) -> Vec<u8> {
    let mut bytes = vec![0x45, 4, 0xff, 0xff, 0, 9, 0, 0, 17, protocol as u8, 1, 2];
    bytes.extend_from_slice(&from.to_be_bytes());
    bytes.extend_from_slice(&to.to_be_bytes());
    bytes.extend_from_slice(b"written");
    bytes
}

unsafe fn headers() {
    unsafe {
        let all = libc::socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
        let (mut on, mut length): (c_int, socklen_t) = (7, 4);
        libc::getsockopt(
            all,
            IPPROTO_IP,
            libc::IP_HDRINCL,
            (&raw mut on).cast(),
            &mut length,
        );
        println!("with headers: {on}");
        let a = libc::socket(AF_INET, SOCK_RAW, FREE);
        let sent = |bytes: &[u8]| send_to(all, bytes, AF_INET, LOCAL, 0);
        tell("sent", sent(&packet(FREE, OTHER, LOCAL)));
        show("it", a, 0);
        tell("from nowhere", sent(&packet(FREE, 0, OTHER)));
        show("it", a, 0);
        tell("too short", sent(&[0x45; 19]));
        let mut long = packet(FREE, OTHER, LOCAL);
        long[0] = 0x4f;
        tell("a header too long", sent(&long));
        tell("on", set(a, IPPROTO_IP, libc::IP_HDRINCL, 1));
        tell(
            "sent",
            send_to(a, &packet(FREE, OTHER, LOCAL), AF_INET, LOCAL, 0),
        );
        show("it", a, 0);
        tell("hops", set(a, IPPROTO_IP, libc::IP_TTL, 9));
        tell("class", set(a, IPPROTO_IP, libc::IP_TOS, 0x10));
        tell("off", set(a, IPPROTO_IP, libc::IP_HDRINCL, 0));
        tell("sent", send_to(a, b"hops", AF_INET, LOCAL, 0));
        show("it", a, 0);
        libc::close(a);
        libc::close(all);
    }
}

unsafe fn checksums() {
    unsafe {
        let a = libc::socket(AF_INET6, SOCK_RAW, FREE);
        let (mut at, mut length): (c_int, socklen_t) = (7, 4);
        libc::getsockopt(
            a,
            IPPROTO_IPV6,
            IPV6_CHECKSUM,
            (&raw mut at).cast(),
            &mut length,
        );
        println!("at {at}");
        tell("odd", set(a, IPPROTO_IPV6, IPV6_CHECKSUM, 3));
        tell("even", set(a, IPPROTO_IPV6, IPV6_CHECKSUM, 2));
        tell("sent", send_to(a, &[1, 2, 9, 9, 5], AF_INET6, LOCAL, 0));
        show("summed", a, 0);
        tell("beyond", send_to(a, &[1, 2, 9], AF_INET6, LOCAL, 0));
        tell("none", set(a, SOL_RAW, IPV6_CHECKSUM, -1));
        tell("sent", send_to(a, &[1, 2, 9, 9, 5], AF_INET6, LOCAL, 0));
        show("not summed", a, 0);
        tell("a header", set(a, IPPROTO_IPV6, IPV6_HDRINCL, 1));
        let b = libc::socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
        tell("ICMP's", set(b, IPPROTO_IPV6, IPV6_CHECKSUM, 2));
        tell("ICMP's", set(b, SOL_RAW, IPV6_CHECKSUM, 2));
        tell(
            "to IPv4",
            send_to(b, &request(AF_INET6, 1), AF_INET6, OTHER, 0),
        );
        tell(
            "another protocol",
            send_to(b, &request(AF_INET6, 1), AF_INET6, LOCAL, 17),
        );
        libc::close(a);
        libc::close(b);
    }
}

/// A raw socket receives UDP datagrams, and sends them.
unsafe fn datagrams() {
    unsafe {
        let raw = libc::socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
        let udp = libc::socket(AF_INET, SOCK_DGRAM, 0);
        tell("bind", bind(udp, AF_INET, LOCAL, 7000));
        tell("datagram", send_to(udp, b"seen", AF_INET, LOCAL, 7000));
        show("received", udp, 0);
        let mut bytes = [0u8; 64];
        let count = libc::recv(raw, bytes.as_mut_ptr().cast(), 64, MSG_DONTWAIT);
        println!(
            "seen: {count} {:02x?} {:02x?}",
            &bytes[20..26],
            &bytes[28..32]
        );
        let port = 7000u16.to_be_bytes();
        let mut head = vec![3, 4, port[0], port[1], 0, 11, 0, 0];
        head.extend_from_slice(b"raw");
        tell("sent", send_to(raw, &head, AF_INET, LOCAL, 0));
        show("received", udp, 0);
        head[5] = 12;
        tell("a wrong length", send_to(raw, &head, AF_INET, LOCAL, 0));
        head[5] = 11;
        head[6] = 1;
        tell("a wrong checksum", send_to(raw, &head, AF_INET, LOCAL, 0));
        show_now("nothing", udp, 0);
        libc::close(raw);
        libc::close(udp);
    }
}

/// ICMP reports a packet that no socket receives.
unsafe fn nobody() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let icmp = libc::socket(family, SOCK_RAW, protocol(family));
            let udp = libc::socket(family, SOCK_DGRAM, 0);
            tell("connect", connect(udp, family, LOCAL, 7001));
            tell("datagram", crate::unix::send(udp, b"lost", 0));
            let mut bytes = [0u8; 128];
            let mut entry = libc::pollfd {
                fd: icmp,
                events: POLLIN,
                revents: 0,
            };
            libc::poll(&mut entry, 1, 5000);
            let count = libc::recv(icmp, bytes.as_mut_ptr().cast(), 128, 0);
            let start = if family == AF_INET { 20 } else { 0 };
            println!("told: {count} {:02x?}", &bytes[start..start + 2]);
            tell("refused", crate::unix::send(udp, b"x", 0));
            libc::close(udp);
            while libc::recv(icmp, bytes.as_mut_ptr().cast(), 128, MSG_DONTWAIT) > 0 {}
            libc::close(icmp);
        }
        let icmp = libc::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
        let all = libc::socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
        tell(
            "sent",
            send_to(all, &packet(FREE, LOCAL, LOCAL), AF_INET, LOCAL, 0),
        );
        show("no such protocol", icmp, 0);
        libc::close(icmp);
        libc::close(all);
    }
}

/// A raw socket gets the errors of packets that it has sent.
unsafe fn errors() {
    unsafe {
        let raw = libc::socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
        let lost = [3, 4, 3, 5, 0, 8, 0, 0];
        tell("sent", send_to(raw, &lost, AF_INET, LOCAL, 0));
        ready("not told", raw, POLLERR);
        tell("asked", set(raw, IPPROTO_IP, libc::IP_RECVERR, 1));
        tell("sent", send_to(raw, &lost, AF_INET, LOCAL, 0));
        ready("told", raw, POLLERR);
        tell(
            "its error",
            libc::recv(raw, [0u8; 8].as_mut_ptr().cast(), 8, libc::MSG_TRUNC) as i64,
        );
        libc::close(raw);
    }
}
