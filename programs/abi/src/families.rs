//! Addresses of a family other than the socket's, of AF_UNSPEC, and truncated ones: results of
//! bind, connect and sendto.

use std::ptr;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_IPV6, IPV6_V6ONLY,
    MSG_DONTWAIT, MSG_MORE, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, c_int, socklen_t,
};

use crate::inet::{bind, connect, name, own_port};
use crate::tell;
use crate::unix::set;

const LOCAL: u32 = 0x7f00_0001;
const UDP_LITE: c_int = 136;
/// A protocol number that is not in use.
const NONE: c_int = 200;

/// A socket: name, family, type, protocol.
type Socket = (&'static str, c_int, c_int, c_int);
const SOCKETS: [Socket; 10] = [
    ("TCP", AF_INET, SOCK_STREAM, 0),
    ("TCP", AF_INET6, SOCK_STREAM, 0),
    ("UDP", AF_INET, SOCK_DGRAM, 0),
    ("UDP", AF_INET6, SOCK_DGRAM, 0),
    ("UDP-Lite", AF_INET, SOCK_DGRAM, UDP_LITE),
    ("UDP-Lite", AF_INET6, SOCK_DGRAM, UDP_LITE),
    ("raw", AF_INET, SOCK_RAW, NONE),
    ("raw", AF_INET6, SOCK_RAW, NONE),
    ("ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
    ("ping", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
];

/// The IP address in a socket address.
#[derive(Clone, Copy, PartialEq)]
enum Ip {
    Any,
    /// 127.0.0.1, at its offset in `struct sockaddr_in`.
    V4,
    /// ::1 and ::ffff:127.0.0.1.
    V6,
    Mapped,
}

/// Addresses: family, IP address, length.
const GIVEN: [(c_int, Ip, socklen_t); 17] = [
    (AF_UNSPEC, Ip::Any, 28),
    (AF_UNSPEC, Ip::Any, 16),
    (AF_UNSPEC, Ip::Any, 8),
    (AF_UNSPEC, Ip::Any, 1),
    (AF_UNSPEC, Ip::V4, 28),
    (AF_UNSPEC, Ip::V6, 28),
    (AF_INET, Ip::Any, 28),
    (AF_INET, Ip::Any, 8),
    (AF_INET, Ip::V4, 28),
    (AF_INET, Ip::V4, 16),
    (AF_INET6, Ip::Any, 28),
    (AF_INET6, Ip::V6, 28),
    (AF_INET6, Ip::V6, 24),
    (AF_INET6, Ip::V6, 16),
    (AF_INET6, Ip::Mapped, 28),
    (AF_UNIX, Ip::V4, 28),
    (AF_UNIX, Ip::V4, 8),
];

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for socket in SOCKETS {
            for only in [false, true] {
                if socket.1 == AF_INET && only {
                    continue;
                }
                println!(
                    "{} {}{}",
                    socket.0,
                    socket.1,
                    if only { " only" } else { "" }
                );
                binds(socket, only);
                connects(socket, only);
                sends(socket, only);
            }
        }
        more();
    }
}

fn address(family: c_int, ip: Ip, port: u16) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    match ip {
        Ip::Any => {}
        Ip::V4 => bytes[4..8].copy_from_slice(&LOCAL.to_be_bytes()),
        Ip::V6 => bytes[23] = 1,
        Ip::Mapped => {
            bytes[18..20].fill(0xff);
            bytes[20..24].copy_from_slice(&LOCAL.to_be_bytes());
        }
    }
    bytes
}

fn shown((family, ip, length): (c_int, Ip, socklen_t)) -> String {
    let ip = match ip {
        Ip::Any => "any",
        Ip::V4 => "127.0.0.1",
        Ip::V6 => "::1",
        Ip::Mapped => "::ffff:127.0.0.1",
    };
    format!("{family} {ip} {length}")
}

unsafe fn open((_, family, kind, protocol): Socket, only: bool) -> c_int {
    unsafe {
        let file = libc::socket(family, kind, protocol);
        if file < 0 {
            tell("socket", file);
        }
        if only {
            set(file, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        }
        file
    }
}

unsafe fn binds(socket: Socket, only: bool) {
    unsafe {
        for given in GIVEN {
            let file = open(socket, only);
            let bytes = address(given.0, given.1, 0);
            let done = libc::bind(file, bytes.as_ptr().cast(), given.2);
            tell(&format!("bind {}", shown(given)), done);
            if done == 0 {
                name("  name", file, libc::getsockname);
            }
            libc::close(file);
        }
    }
}

/// Listeners or receivers at 127.0.0.1 and ::1, with the same port.
unsafe fn receivers((_, _, kind, protocol): Socket) -> ([c_int; 2], u16) {
    unsafe {
        loop {
            let files = [AF_INET, AF_INET6].map(|family| libc::socket(family, kind, protocol));
            bind(files[0], AF_INET, LOCAL, 0);
            let port = own_port(files[0]);
            if bind(files[1], AF_INET6, LOCAL, port) == 0 {
                for file in files {
                    libc::listen(file, 5);
                }
                return (files, port);
            }
            close(files);
        }
    }
}

unsafe fn connects(socket: Socket, only: bool) {
    unsafe {
        let ported = matches!(socket.0, "TCP" | "UDP" | "UDP-Lite");
        let (files, port) = match ported {
            true => receivers(socket),
            false => ([-1; 2], 0),
        };
        for given in GIVEN {
            let file = open(socket, only);
            let bytes = address(given.0, given.1, port);
            let done = libc::connect(file, bytes.as_ptr().cast(), given.2);
            tell(&format!("connect {}", shown(given)), done);
            if done == 0 {
                name("  name", file, libc::getsockname);
                name("  peer", file, libc::getpeername);
            }
            libc::close(file);
        }
        close(files);
    }
}

/// Sends to each address, also from sockets connected to ::1 or 127.0.0.1, and prints the receiver.
unsafe fn sends(socket: Socket, only: bool) {
    unsafe {
        let (_, family, kind, _) = socket;
        if kind == SOCK_STREAM {
            return;
        }
        let ported = matches!(socket.0, "UDP" | "UDP-Lite");
        let (files, port) = match (ported, socket.0) {
            (true, _) => receivers(socket),
            (_, "raw") => ([AF_INET, AF_INET6].map(|f| libc::socket(f, kind, NONE)), 0),
            _ => ([-1; 2], 0),
        };
        let echo = if family == AF_INET { 8u8 } else { 128 };
        let bytes = [echo, 0, 0, 0, 0, 0, 0, 0];
        let peers: &[_] = match family {
            AF_INET => &[None, Some(Ip::V4)],
            _ => &[None, Some(Ip::V6), Some(Ip::Mapped)],
        };
        for &peer in peers {
            for given in GIVEN {
                let file = open(socket, only);
                if let Some(ip) = peer {
                    let to = address(family, ip, port);
                    let length = if family == AF_INET { 16 } else { 28 };
                    if libc::connect(file, to.as_ptr().cast(), length) != 0 {
                        libc::close(file);
                        continue;
                    }
                }
                let to = address(given.0, given.1, port);
                let (from, length) = (bytes.as_ptr().cast(), bytes.len());
                let done = libc::sendto(file, from, length, 0, to.as_ptr().cast(), given.2);
                let connected = if peer.is_some() { ", connected" } else { "" };
                tell(&format!("send {}{connected}", shown(given)), done as i64);
                for (what, file) in [("IPv4", files[0]), ("IPv6", files[1])] {
                    if receives(file) {
                        println!("  received: {what}");
                    }
                }
                if !ported && socket.0 != "raw" && receives(file) {
                    println!("  echoed");
                }
                libc::close(file);
            }
        }
        close(files);
    }
}

unsafe fn close(files: [c_int; 2]) {
    for file in files {
        unsafe { libc::close(file) };
    }
}

unsafe fn receives(file: c_int) -> bool {
    let mut bytes = [0u8; 64];
    unsafe { libc::recv(file, bytes.as_mut_ptr().cast(), bytes.len(), MSG_DONTWAIT) >= 0 }
}

/// The rest of a corked datagram with an address of another family; and a stream socket, which
/// ignores the address.
unsafe fn more() {
    unsafe {
        let socket = ("UDP", AF_INET6, SOCK_DGRAM, 0);
        let (files, port) = receivers(socket);
        for begun in [Ip::V6, Ip::Mapped] {
            for (family, ip) in [(AF_INET, Ip::V4), (AF_INET6, Ip::V6), (AF_UNSPEC, Ip::Any)] {
                let file = open(socket, false);
                for (to, flags) in [((AF_INET6, begun), MSG_MORE), ((family, ip), 0)] {
                    let to = address(to.0, to.1, port);
                    let at = to.as_ptr().cast();
                    let done = libc::sendto(file, b"ab".as_ptr().cast(), 2, flags, at, 28);
                    tell("part", done as i64);
                }
                for (what, file) in [("IPv4", files[0]), ("IPv6", files[1])] {
                    if receives(file) {
                        println!("  received: {what}");
                    }
                }
                libc::close(file);
            }
        }
        close(files);
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        bind(server, AF_INET, LOCAL, 0);
        libc::listen(server, 1);
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        connect(client, AF_INET, LOCAL, own_port(server));
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        for given in GIVEN {
            let to = address(given.0, given.1, 1);
            let at = to.as_ptr().cast();
            let done = libc::sendto(client, b"a".as_ptr().cast(), 1, 0, at, given.2);
            tell(&format!("stream {}", shown(given)), done as i64);
        }
        for file in [server, client, accepted] {
            libc::close(file);
        }
    }
}
