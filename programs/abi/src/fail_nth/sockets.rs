//! Sockets.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, EAGAIN, ENFILE, ENOBUFS, MSG_DONTWAIT,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, c_int, c_long,
    sockaddr, sockaddr_in, sockaddr_un, socklen_t,
};

use super::{Starved, close};
use crate::path;

/// What any call of a socket may return.
const ALSO: [c_int; 2] = [ENFILE, ENOBUFS];

pub unsafe fn run(starved: &Starved) {
    unsafe {
        families(starved);
        unix_names(starved);
        streams(starved);
        messages(starved);
        rights(starved);
        inet(starved);
        options(starved);
        netlink(starved);
    }
}

unsafe fn families(starved: &Starved) {
    for (name, family, kind) in [
        ("unix stream", AF_UNIX, SOCK_STREAM),
        ("unix datagrams", AF_UNIX, SOCK_DGRAM),
        ("unix packets", AF_UNIX, SOCK_SEQPACKET),
        ("tcp", AF_INET, SOCK_STREAM),
        ("udp", AF_INET, SOCK_DGRAM),
        ("raw", AF_INET, SOCK_RAW),
        ("tcp6", AF_INET6, SOCK_STREAM),
        ("udp6", AF_INET6, SOCK_DGRAM),
        ("netlink", AF_NETLINK, SOCK_RAW),
        ("packet", AF_PACKET, SOCK_DGRAM),
    ] {
        let protocol = if kind == SOCK_RAW && family == AF_INET {
            17
        } else {
            0
        };
        let name = format!("socket {name}");
        starved.each(
            &name,
            &ALSO,
            || unsafe { libc::socket(family, kind, protocol).into() },
            close,
        );
    }
    for (name, kind) in [("stream", SOCK_STREAM), ("datagrams", SOCK_DGRAM)] {
        let mut ends = [-1; 2];
        let made: *mut c_int = ends.as_mut_ptr();
        let name = format!("socketpair {name}");
        starved.each(
            &name,
            &ALSO,
            || unsafe { libc::socketpair(AF_UNIX, kind, 0, made).into() },
            |result| {
                // SAFETY: `made` is this function's.
                let both = unsafe { mem::replace(&mut *made.cast::<[c_int; 2]>(), [-1; 2]) };
                result == -1 || both.iter().all(|&end| close(end.into()) && end != -1)
            },
        );
    }
}

fn unix(name: &[u8]) -> (sockaddr_un, socklen_t) {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as _;
    }
    (address, (2 + name.len()) as socklen_t)
}

unsafe fn bind(socket: c_int, (address, len): &(sockaddr_un, socklen_t)) -> c_long {
    unsafe { libc::bind(socket, ptr::from_ref(address).cast(), *len).into() }
}

unsafe fn unix_names(starved: &Starved) {
    unsafe {
        for (name, address) in [
            ("bind path", unix(b"socket")),
            ("bind abstract", unix(b"\0name")),
        ] {
            // The socket is new each time: one that is bound cannot be bound again.
            let mut socket = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
            let current: *mut c_int = &mut socket;
            starved.each(
                name,
                &[ENOBUFS, libc::ENOSPC],
                || bind(*current, &address),
                |result| {
                    let there = libc::unlink(path(c"socket")) == 0;
                    // A failure leaves it without a name.
                    let again = result == 0 || bind(*current, &address) == 0;
                    libc::unlink(path(c"socket"));
                    let fresh = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
                    libc::dup2(fresh, *current);
                    libc::close(fresh);
                    again && (name != "bind path" || there == (result == 0))
                },
            );
            libc::close(socket);
        }
        let mut socket = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        let current: *mut c_int = &mut socket;
        starved.each(
            "bind automatic",
            &ALSO,
            || bind(*current, &(unix(b"").0, 2)),
            |_| {
                let fresh = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
                libc::dup2(fresh, *current);
                libc::close(fresh) == 0
            },
        );
        libc::close(socket);
    }
}

/// Listening, connecting and accepting, over Unix and TCP sockets.
unsafe fn streams(starved: &Starved) {
    unsafe {
        let mut loopback: sockaddr_in = mem::zeroed();
        loopback.sin_family = AF_INET as u16;
        loopback.sin_port = 7777u16.to_be();
        loopback.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let here = unix(b"\0listener");
        let tcp: (*const sockaddr, socklen_t) = (ptr::from_ref(&loopback).cast(), 16);
        let local: (*const sockaddr, socklen_t) = (ptr::from_ref(&here.0).cast(), here.1);
        for (kind, family, (address, len)) in [("unix", AF_UNIX, local), ("tcp", AF_INET, tcp)] {
            let socket = || libc::socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
            let mut listener = socket();
            let current: *mut c_int = &mut listener;
            let on: c_int = 1;
            let reuse = |socket| {
                libc::setsockopt(
                    socket,
                    SOL_SOCKET,
                    libc::SO_REUSEADDR,
                    (&raw const on).cast(),
                    4,
                )
            };
            let renew = |at: *mut c_int| {
                libc::close(*at);
                *at = socket();
                reuse(*at) == 0
            };
            reuse(listener);
            let name = format!("{kind} bind and listen");
            starved.each(
                &name,
                &ALSO,
                || match libc::bind(*current, address, len) {
                    0 => libc::listen(*current, 8).into(),
                    result => result.into(),
                },
                |_| renew(current),
            );
            libc::bind(listener, address, len);
            libc::listen(listener, 8);
            let mut client = socket();
            let other: *mut c_int = &mut client;
            let accept = || libc::accept4(*current, ptr::null_mut(), ptr::null_mut(), 0);
            // The connection exists as far as the client was told.
            let connect = || match libc::connect(*other, address, len) {
                -1 if *libc::__errno_location() == libc::EINPROGRESS => 0,
                result => result,
            };
            starved.each(
                &format!("{kind} connect"),
                &[ENOBUFS, EAGAIN],
                || connect().into(),
                |result| {
                    if result == -1 {
                        return accept() == -1 && renew(other);
                    }
                    let mut ready = libc::pollfd {
                        fd: *current,
                        events: libc::POLLIN,
                        revents: 0,
                    };
                    libc::poll(&mut ready, 1, 1000);
                    let server = accept();
                    let so = close(server.into()) && server != -1;
                    renew(other) && so
                },
            );
            starved.each(
                &format!("{kind} connect again"),
                &[ENOBUFS, EAGAIN],
                || connect().into(),
                |result| {
                    // The same socket can connect after a failure.
                    let again = result == 0 || connect() == 0;
                    let mut ready = libc::pollfd {
                        fd: *current,
                        events: libc::POLLIN,
                        revents: 0,
                    };
                    libc::poll(&mut ready, 1, 1000);
                    let server = accept();
                    let so = close(server.into()) && server != -1;
                    renew(other) && so && again
                },
            );
            connect();
            starved.each(
                &format!("{kind} accept"),
                &[ENFILE, ENOBUFS, EAGAIN, libc::ECONNABORTED],
                || accept().into(),
                |result| {
                    // One that was not accepted is still there, or was told.
                    let left = if result == -1 { accept().into() } else { -1 };
                    close(left);
                    let so = close(result) && renew(other);
                    so && connect() == 0
                },
            );
            let server = accept();
            let bytes = [4u8; 40000];
            let mut room = [0u8; 40000];
            let end = *other;
            starved.each(
                &format!("{kind} send"),
                &[ENOBUFS, EAGAIN],
                || libc::send(end, bytes.as_ptr().cast(), bytes.len(), MSG_DONTWAIT) as c_long,
                |result| {
                    let mut got = 0;
                    while got < result.max(0) {
                        let more =
                            libc::recv(server, room.as_mut_ptr().cast(), room.len(), 0) as c_long;
                        if more <= 0 {
                            return false;
                        }
                        got += more;
                    }
                    libc::recv(server, room.as_mut_ptr().cast(), 1, MSG_DONTWAIT) == -1
                        && got == result.max(0)
                },
            );
            [server, end, listener]
                .iter()
                .for_each(|&socket| _ = libc::close(socket));
        }
    }
}

unsafe fn messages(starved: &Starved) {
    unsafe {
        for (name, kind) in [("datagrams", SOCK_DGRAM), ("packets", SOCK_SEQPACKET)] {
            let mut ends = [0; 2];
            libc::socketpair(AF_UNIX, kind, 0, ends.as_mut_ptr());
            let bytes = [4u8; 9000];
            let mut room = [0u8; 9000];
            starved.each(
                &format!("send unix {name}"),
                &ALSO,
                || libc::send(ends[0], bytes.as_ptr().cast(), bytes.len(), 0) as c_long,
                |result| {
                    let got =
                        libc::recv(ends[1], room.as_mut_ptr().cast(), room.len(), MSG_DONTWAIT);
                    got as c_long == result
                },
            );
            ends.iter().for_each(|&end| _ = libc::close(end));
        }
    }
}

/// Files in messages.
unsafe fn rights(starved: &Starved) {
    unsafe {
        let mut ends = [0; 2];
        libc::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr());
        let mut byte = [b'x'];
        let part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        let mut control = [0u64; 4];
        let head: *mut u64 = control.as_mut_ptr();
        let message = || {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &raw const part as *mut _;
            message.msg_iovlen = 1;
            message.msg_control = head.cast();
            message.msg_controllen = 24;
            message
        };
        let send = || {
            *head = 24;
            *head.add(1) = (libc::SCM_RIGHTS as u64) << 32 | SOL_SOCKET as u64;
            *head.add(2) = (ends[1] as u64) << 32 | ends[0] as u64;
            libc::sendmsg(ends[0], &message(), 0) as c_long
        };
        let receive = || {
            let mut message = message();
            let got = libc::recvmsg(ends[1], &mut message, MSG_DONTWAIT);
            let files = got == 1 && message.msg_controllen >= 24;
            let two = *head.add(2);
            if files {
                libc::close(two as c_int);
                libc::close((two >> 32) as c_int);
            }
            (got as c_long, files)
        };
        starved.each("SCM_RIGHTS send", &ALSO, send, |result| {
            receive() == (result, result == 1)
        });
        send();
        // Files that there is no memory for are lost, and the message says so.
        starved.each(
            "SCM_RIGHTS receive",
            &[EAGAIN],
            || receive().0,
            |_| {
                receive();
                send() == 1
            },
        );
        receive();
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
}

unsafe fn inet(starved: &Starved) {
    unsafe {
        let mut to: sockaddr_in = mem::zeroed();
        to.sin_family = AF_INET as u16;
        to.sin_port = 7778u16.to_be();
        to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let address: *const sockaddr = ptr::from_ref(&to).cast();
        let mut socket = libc::socket(AF_INET, SOCK_DGRAM, 0);
        let current: *mut c_int = &mut socket;
        let renew = || {
            libc::close(*current);
            *current = libc::socket(AF_INET, SOCK_DGRAM, 0);
            true
        };
        starved.each(
            "udp bind",
            &ALSO,
            || libc::bind(*current, address, 16).into(),
            |_| renew(),
        );
        starved.each(
            "udp connect",
            &[ENOBUFS, EAGAIN],
            || libc::connect(*current, address, 16).into(),
            |_| renew(),
        );
        let target = libc::socket(AF_INET, SOCK_DGRAM, 0);
        libc::bind(target, address, 16);
        let bytes = [4u8; 3000];
        let mut room = [0u8; 3000];
        // A datagram may be lost on its way.
        starved.each(
            "udp sendto",
            &[ENOBUFS, EAGAIN],
            || libc::sendto(*current, bytes.as_ptr().cast(), 3000, 0, address, 16) as c_long,
            |result| {
                let got = libc::recv(target, room.as_mut_ptr().cast(), 3000, MSG_DONTWAIT);
                (got == -1 || result == 3000) && renew()
            },
        );
        let raw = libc::socket(AF_INET, SOCK_RAW, 200);
        starved.each(
            "raw sendto",
            &ALSO,
            || libc::sendto(raw, bytes.as_ptr().cast(), 1000, 0, address, 16) as c_long,
            |_| {
                libc::recv(raw, room.as_mut_ptr().cast(), 3000, MSG_DONTWAIT);
                true
            },
        );
        [raw, target, socket]
            .iter()
            .for_each(|&socket| _ = libc::close(socket));
    }
}

unsafe fn options(starved: &Starved) {
    unsafe {
        let socket = libc::socket(AF_INET, SOCK_DGRAM, 0);
        let filter = [libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0xffff,
        }; 40];
        let program = libc::sock_fprog {
            len: 40,
            filter: filter.as_ptr().cast_mut(),
        };
        let size = size_of_val(&program) as socklen_t;
        starved.each(
            "SO_ATTACH_FILTER",
            &ALSO,
            || {
                libc::setsockopt(
                    socket,
                    SOL_SOCKET,
                    libc::SO_ATTACH_FILTER,
                    (&raw const program).cast(),
                    size,
                )
                .into()
            },
            |result| {
                let number: c_int = 0;
                let gone = libc::setsockopt(
                    socket,
                    SOL_SOCKET,
                    libc::SO_DETACH_FILTER,
                    (&raw const number).cast(),
                    4,
                );
                gone == result as c_int
            },
        );
        libc::close(socket);
        let socket = libc::socket(AF_PACKET, SOCK_DGRAM, 0);
        let group = libc::packet_mreq {
            mr_ifindex: 1,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let size = size_of_val(&group) as socklen_t;
        let membership = |option| {
            let value = (&raw const group).cast();
            libc::setsockopt(socket, libc::SOL_PACKET, option, value, size)
        };
        starved.each(
            "PACKET_ADD_MEMBERSHIP",
            &ALSO,
            || membership(libc::PACKET_ADD_MEMBERSHIP).into(),
            |result| result == -1 || membership(libc::PACKET_DROP_MEMBERSHIP) == 0,
        );
        libc::close(socket);
    }
}

unsafe fn netlink(starved: &Starved) {
    unsafe {
        let socket = libc::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0);
        let mut room = [0u8; 16384];
        let mut drain =
            || while libc::recv(socket, room.as_mut_ptr().cast(), room.len(), MSG_DONTWAIT) > 0 {};
        for (name, kind) in [
            ("links", 18u32),
            ("addresses", 22),
            ("routes", 26),
            ("neighbours", 30),
        ] {
            // A header with NLM_F_REQUEST and NLM_F_DUMP, and a `rtgenmsg`.
            let request = [20, kind | 0x301 << 16, 1, 0, 0];
            starved.each(
                &format!("netlink {name}"),
                &ALSO,
                || libc::send(socket, request.as_ptr().cast(), 20, 0) as c_long,
                |_| {
                    drain();
                    true
                },
            );
        }
        libc::close(socket);
        let mut socket = libc::socket(AF_NETLINK, SOCK_RAW, 0);
        let current: *mut c_int = &mut socket;
        let mut address: libc::sockaddr_nl = mem::zeroed();
        address.nl_family = AF_NETLINK as u16;
        address.nl_groups = 1;
        starved.each(
            "netlink bind",
            &ALSO,
            || libc::bind(*current, (&raw const address).cast(), 12).into(),
            |_| {
                libc::close(*current);
                *current = libc::socket(AF_NETLINK, SOCK_RAW, 0);
                true
            },
        );
        libc::close(socket);
    }
}
