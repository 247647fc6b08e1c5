//! Control messages about the header of a sent datagram: its interface and address, and IPv6 fields
//! by their names in RFC 2292; and datagrams cut into segments (UDP_SEGMENT) without a checksum.

use libc::{
    AF_INET, AF_INET6, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_UDP, MSG_DONTWAIT, MSG_MORE, SO_NO_CHECK,
    SOCK_DGRAM, SOCK_RAW, SOL_SOCKET, c_int,
};

use crate::inet::{bind, connect, own_port};
use crate::tell;
use crate::unix::{receive, send, send_with, set};

const LOCAL: u32 = 0x7f00_0001;
const UDP_LITE: c_int = 136;
/// A protocol number that is not in use.
const NONE: c_int = 200;
const IP_PKTINFO: c_int = 8;
const NO_CHECK6: c_int = 101;
const SEGMENT: c_int = 103;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (what, family, peer, kind, protocol) in [
            ("UDP", AF_INET, LOCAL, SOCK_DGRAM, 0),
            ("UDP, mapped", AF_INET6, 0x7f00_0002, SOCK_DGRAM, 0),
            ("UDP over IPv6", AF_INET6, LOCAL, SOCK_DGRAM, 0),
            ("raw", AF_INET, LOCAL, SOCK_RAW, NONE),
            ("raw over IPv6", AF_INET6, LOCAL, SOCK_RAW, NONE),
        ] {
            println!("{what}");
            let receiver = libc::socket(family, kind, protocol);
            bind(receiver, family, if peer == LOCAL { LOCAL } else { 0 }, 0);
            let file = libc::socket(family, kind, protocol);
            let port = if kind == SOCK_RAW {
                0
            } else {
                own_port(receiver)
            };
            tell("connect", connect(file, family, peer, port));
            v4(file);
            v6(file);
            fields(file);
            libc::close(file);
            libc::close(receiver);
        }
        for family in [AF_INET, AF_INET6] {
            for protocol in [IPPROTO_UDP, UDP_LITE] {
                println!("segments {family} {protocol}");
                segments(family, protocol);
            }
        }
    }
}

/// Prints the result of a send with a control message.
unsafe fn with(what: &str, file: c_int, kind: (c_int, c_int), data: &[u8]) {
    tell(what, unsafe { send_with(file, b"0123456789", kind, data) });
}

/// `struct in_pktinfo` with interfaces and addresses, and with other lengths.
unsafe fn v4(file: c_int) {
    unsafe {
        for index in [0, 1, 2, 99, -1] {
            for from in [0, LOCAL, 0x7f00_0005, 0x0a00_0001, 0xe000_0001] {
                let mut data = i32::to_ne_bytes(index).to_vec();
                data.extend(from.to_be_bytes());
                data.extend([0; 4]);
                let what = format!("IP_PKTINFO {index} {from:x}");
                with(&what, file, (IPPROTO_IP, IP_PKTINFO), &data);
            }
        }
        for length in [4, 8, 16] {
            let what = format!("IP_PKTINFO of {length}");
            with(&what, file, (IPPROTO_IP, IP_PKTINFO), &[0; 16][..length]);
        }
    }
}

/// `struct in6_pktinfo` by both names.
unsafe fn v6(file: c_int) {
    let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, last];
    let v6 = |first, last| [first, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let own = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    unsafe {
        for kind in [50, 2] {
            for index in [0, 1, 2, 99, -1] {
                for (what, from) in [
                    ("any", [0; 16]),
                    ("own", own),
                    ("mapped", mapped(1)),
                    ("link", v6(0xfe, 1)),
                    ("other", v6(0x20, 1)),
                    ("group", v6(0xff, 1)),
                ] {
                    let mut data = from.to_vec();
                    data.extend(i32::to_ne_bytes(index));
                    let what = format!("{kind} {index} {what}");
                    with(&what, file, (IPPROTO_IPV6, kind), &data);
                }
            }
            for length in [4, 16, 19, 24] {
                let what = format!("{kind} of {length}");
                with(&what, file, (IPPROTO_IPV6, kind), &[0; 24][..length]);
            }
        }
    }
}

/// Numeric fields: IPV6_FLOWINFO, both names of the hop limit, IPV6_TCLASS, IPV6_DONTFRAG; and
/// extension headers (IPV6_HOPOPTS and the like), which are too short.
unsafe fn fields(file: c_int) {
    unsafe {
        for kind in [11, 8, 52, 62, 67, 3, 4, 5, 54, 55, 57, 59, 60, 16, 49, 100] {
            for value in [-2, -1, 0, 1, 2, 255, 256] {
                let what = format!("{kind} {value}");
                with(&what, file, (IPPROTO_IPV6, kind), &i32::to_ne_bytes(value));
            }
            for length in [0, 1, 3, 8] {
                let what = format!("{kind} of {length}");
                with(&what, file, (IPPROTO_IPV6, kind), &[0; 8][..length]);
            }
        }
    }
}

/// Segments with or without checksums, sent at once or in parts.
unsafe fn segments(family: c_int, protocol: c_int) {
    unsafe {
        let receiver = libc::socket(family, SOCK_DGRAM, protocol);
        bind(receiver, family, LOCAL, 0);
        set(receiver, protocol, 102, 1);
        for option in [(SOL_SOCKET, SO_NO_CHECK), (protocol, NO_CHECK6)] {
            for on in [0, 1] {
                let file = libc::socket(family, SOCK_DGRAM, protocol);
                connect(file, family, LOCAL, own_port(receiver));
                println!("option {} {on}", option.1);
                set(file, option.0, option.1, on);
                tell("segments", set(file, protocol, SEGMENT, 100));
                for length in [50, 100, 350, 12800, 12801] {
                    tell(&format!("send {length}"), send(file, &vec![0; length], 0));
                    arrived(receiver);
                }
                tell("begin", send(file, &[0; 150], MSG_MORE));
                tell("end", send(file, &[0; 50], 0));
                arrived(receiver);
                tell("begin", send(file, &[0; 150], MSG_MORE));
                tell("go on", send(file, &[0; 12700], MSG_MORE));
                tell("end", send(file, &[0; 50], 0));
                arrived(receiver);
                tell("begin", send(file, &[0; 150], MSG_MORE));
                tell("other segments", set(file, protocol, SEGMENT, 0));
                tell("end", send(file, &[0; 50], 0));
                arrived(receiver);
                let one = 60u16.to_ne_bytes();
                tell(
                    "with",
                    send_with(file, &[0; 100], (IPPROTO_UDP, SEGMENT), &one),
                );
                arrived(receiver);
                tell("cork", set(file, protocol, 1, 1));
                tell(
                    "with",
                    send_with(file, &[0; 100], (IPPROTO_UDP, SEGMENT), &one),
                );
                tell("uncork", set(file, protocol, 1, 0));
                arrived(receiver);
                receive("then", file, 10, MSG_DONTWAIT);
                libc::close(file);
            }
        }
        libc::close(receiver);
    }
}

/// Prints the lengths of the received datagrams.
unsafe fn arrived(file: c_int) {
    let (mut bytes, mut lengths) = ([0u8; 16], Vec::new());
    loop {
        let flags = MSG_DONTWAIT | libc::MSG_TRUNC;
        let got = unsafe { libc::recv(file, bytes.as_mut_ptr().cast(), 16, flags) };
        if got < 0 {
            break;
        }
        match lengths.last_mut() {
            Some((last, often)) if *last == got => *often += 1,
            _ => lengths.push((got, 1)),
        }
    }
    println!("  {lengths:?}");
}
