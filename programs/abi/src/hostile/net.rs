//! The network: requests corrupted at every byte, ports of others, forged senders, invalid sizes,
//! listeners that are closed.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, MSG_CTRUNC, MSG_DONTWAIT, SO_REUSEADDR, SO_REUSEPORT,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_STREAM, SOL_SOCKET, c_int, c_void, socklen_t,
};

use super::USER;
use crate::inet::{bind, connect, own_port, send_to};
use crate::unix::{pair, send, set};
use crate::{error, in_child, tell, tell_end, tell_ok};

/// 127.0.0.1, and a user other than root and [`USER`].
const LOCAL: u32 = 0x7f00_0001;
const THIRD: u32 = 1001;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer that is to be valid is to a live value.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        ports();
        let status = in_child(|| {
            become_user(USER);
            netlink();
            senders();
            files();
            sizes();
            listener();
        });
        tell_end("the user", status);
    }
}

unsafe fn become_user(user: u32) {
    unsafe {
        libc::setgid(user);
        libc::setuid(user);
    }
}

/// A second user gets none of the first user's ports, and none of root's.
unsafe fn ports() {
    unsafe {
        for (what, kind) in [("TCP", SOCK_STREAM), ("UDP", SOCK_DGRAM)] {
            for (shared, option) in [("port", SO_REUSEPORT), ("address", SO_REUSEADDR)] {
                let mut told = pair(SOCK_STREAM);
                let first = libc::fork();
                if first == 0 {
                    become_user(USER);
                    let file = libc::socket(AF_INET, kind, 0);
                    set(file, SOL_SOCKET, option, 1);
                    bind(file, AF_INET, 0, 0);
                    if kind == SOCK_STREAM {
                        libc::listen(file, 5);
                    }
                    let port = own_port(file).to_ne_bytes();
                    send(told[1], &port, 0);
                    loop {
                        libc::pause();
                    }
                }
                let mut port = [0u8; 2];
                libc::recv(told[0], port.as_mut_ptr().cast(), 2, 0);
                let port = u16::from_ne_bytes(port);
                for user in [USER, THIRD] {
                    let status = in_child(|| {
                        become_user(user);
                        for (at, ip) in [("any", 0), ("local", LOCAL)] {
                            let file = libc::socket(AF_INET, kind, 0);
                            set(file, SOL_SOCKET, option, 1);
                            let mut done = bind(file, AF_INET, ip, port);
                            if done == 0 && kind == SOCK_STREAM {
                                done = libc::listen(file, 5);
                            }
                            tell(&format!("{what}, shared {shared}, {user}, {at}"), done);
                        }
                    });
                    tell_end("ended", status);
                }
                libc::kill(first, libc::SIGKILL);
                libc::waitpid(first, ptr::null_mut(), 0);
                told.iter_mut().for_each(|file| _ = libc::close(*file));
            }
        }
        let status = in_child(|| {
            become_user(USER);
            for family in [AF_INET, AF_INET6] {
                for kind in [SOCK_STREAM, SOCK_DGRAM] {
                    let file = libc::socket(family, kind, 0);
                    tell("a low port", bind(file, family, LOCAL, 1023));
                }
            }
        });
        tell_end("ended", status);
    }
}

/// A netlink request: a header, with `flags` to ask for a dump or not, and a body.
fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[..4].copy_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes
}

unsafe fn drain(file: c_int) {
    let mut bytes = [0u8; 8192];
    while unsafe { libc::recv(file, bytes.as_mut_ptr().cast(), 8192, MSG_DONTWAIT) } > 0 {}
}

/// Requests with each byte changed, of each length, and with wrong lengths in them.
unsafe fn netlink() {
    const ROUTE: c_int = 0;
    const DIAG: c_int = 4;
    const DUMP: u16 = 0x301;
    let mut inet = vec![2, 6, 0xff, 0, 0xff, 0xff, 0xff, 0xff];
    inet.resize(56, 0);
    let mut unix = vec![1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff];
    unix.resize(24, 0);
    let mut to = vec![2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    to.extend_from_slice(&[8, 0, 1, 0, 127, 0, 0, 1]);
    let requests = [
        (ROUTE, request(18, DUMP, &[0; 16])),
        (ROUTE, request(22, DUMP, &[0; 8])),
        (ROUTE, request(26, DUMP, &[0; 12])),
        (ROUTE, request(26, 1, &to)),
        (DIAG, request(20, DUMP, &inet)),
        (DIAG, request(20, DUMP, &unix)),
    ];
    unsafe {
        for (protocol, whole) in &requests {
            let file = libc::socket(AF_NETLINK, SOCK_RAW, *protocol);
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = whole.clone();
                    damaged[at] = value;
                    send(file, &damaged, MSG_DONTWAIT);
                    drain(file);
                }
                send(file, &whole[..at], MSG_DONTWAIT);
                drain(file);
            }
            for len in [0u32, 1, 15, 17, u32::MAX, 1 << 31] {
                let mut lies = whole.clone();
                lies[..4].copy_from_slice(&len.to_ne_bytes());
                lies.extend_from_slice(&[0xff; 64]);
                send(file, &lies, MSG_DONTWAIT);
                drain(file);
            }
            // Starts a dump that nobody reads, and a second one.
            (0..3).for_each(|_| _ = send(file, whole, MSG_DONTWAIT));
            libc::close(file);
        }
        let file = libc::socket(AF_NETLINK, SOCK_RAW, ROUTE);
        tell("changing", send(file, &request(16, 5, &[0; 16]), 0));
        let mut bytes = [0u8; 256];
        libc::recv(file, bytes.as_mut_ptr().cast(), 256, 0);
        println!("refused: {} {}", bytes[4], bytes[16] as i8);
        tell("asking", send(file, &requests[0].1, 0));
        libc::recv(file, bytes.as_mut_ptr().cast(), 256, libc::MSG_TRUNC);
        println!("told: {} of {}", bytes[4], bytes[20]);
        libc::close(file);
    }
}

/// Sends a byte with one control message of level SOL_SOCKET.
unsafe fn send_with(file: c_int, kind: c_int, data: &[u8]) -> i64 {
    let mut room = vec![0u64; 2 + data.len().div_ceil(8)];
    room[0] = 16 + data.len() as u64;
    room[1] = SOL_SOCKET as u64 | (kind as u64) << 32;
    unsafe {
        ptr::copy_nonoverlapping(data.as_ptr(), room.as_mut_ptr().add(2).cast(), data.len());
        let mut byte = 0u8;
        let mut piece = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = (room.len() * 8) as _;
        libc::syscall(libc::SYS_sendmsg, file, &message, MSG_DONTWAIT) as i64
    }
}

/// Nobody can claim to be somebody else (SCM_CREDENTIALS).
unsafe fn senders() {
    unsafe {
        let [a, b] = pair(SOCK_DGRAM);
        let own = libc::getpid() as u32;
        for (what, who) in [
            ("itself", [own, USER, USER]),
            ("init", [1, USER, USER]),
            ("root", [own, 0, USER]),
            ("root's group", [own, USER, 0]),
            ("nobody", [own, u32::MAX, USER]),
            ("no process", [0, USER, USER]),
        ] {
            let bytes = who.map(u32::to_ne_bytes).concat();
            tell(what, send_with(a, libc::SCM_CREDENTIALS, &bytes));
        }
        tell("too short", send_with(a, libc::SCM_CREDENTIALS, &[0; 11]));
        tell("too long", send_with(a, libc::SCM_CREDENTIALS, &[0; 13]));
        libc::close(a);
        libc::close(b);
    }
}

/// The number of open descriptors.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// SCM_RIGHTS with closed files, with the socket itself, with too many, and without room for them.
unsafe fn files() {
    unsafe {
        let before = descriptors();
        let [a, b] = pair(SOCK_STREAM);
        let closed = libc::dup(a);
        libc::close(closed);
        for (what, file) in [
            ("closed", closed),
            ("none", -1),
            ("itself", a),
            ("its peer", b),
        ] {
            tell(what, send_with(a, libc::SCM_RIGHTS, &file.to_ne_bytes()));
        }
        let many = |count: usize| a.to_ne_bytes().repeat(count);
        tell("253", send_with(a, libc::SCM_RIGHTS, &many(253)));
        tell("254", send_with(a, libc::SCM_RIGHTS, &many(254)));
        let mut all = [0u8; 64];
        let mut room = [0u64; 4];
        loop {
            let mut piece = libc::iovec {
                iov_base: all.as_mut_ptr().cast(),
                iov_len: all.len(),
            };
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = 19;
            let count = libc::recvmsg(b, &mut message, MSG_DONTWAIT);
            if count < 0 {
                break;
            }
            let cut = message.msg_flags & MSG_CTRUNC != 0;
            println!("{count}, cut {cut}, {} of control", message.msg_controllen);
        }
        libc::close(a);
        libc::close(b);
        println!("descriptors: {}", descriptors() == before);
    }
}

/// Sizes of messages and of their parts.
unsafe fn sizes() {
    unsafe {
        let udp = libc::socket(AF_INET, SOCK_DGRAM, 0);
        bind(udp, AF_INET, LOCAL, 0);
        connect(udp, AF_INET, LOCAL, own_port(udp));
        let [stream, peer] = pair(SOCK_STREAM);
        set(stream, SOL_SOCKET, libc::SO_SNDBUF, 4096);
        let bytes = vec![1u8; 65536];
        let nowhere = ptr::without_provenance::<c_void>(4096);
        for size in [0, 1, 65507, 65508, 65536, 1 << 31, usize::MAX] {
            let from = if size > 65536 {
                nowhere
            } else {
                bytes.as_ptr().cast()
            };
            let sent = libc::send(udp, from, size, MSG_DONTWAIT);
            println!("{size}: {sent} {}", if sent < 0 { error() } else { "" });
            drain(udp);
        }
        for size in [0, 1 << 31, usize::MAX] {
            let sent = libc::send(stream, nowhere, size, MSG_DONTWAIT);
            println!("{size}: {sent} {}", if sent < 0 { error() } else { "" });
        }
        let mut byte = 0u8;
        for (what, count, len) in [
            ("1024 pieces", 1024, 1),
            ("1025 pieces", 1025, 1),
            ("2^31 pieces", 1 << 31, 1),
            ("pieces without end", usize::MAX, 1),
            ("too many bytes", 3, usize::MAX / 4),
            ("a negative one", 1, usize::MAX),
        ] {
            let pieces = vec![
                libc::iovec {
                    iov_base: (&raw mut byte).cast(),
                    iov_len: len,
                };
                count.min(1025)
            ];
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = pieces.as_ptr().cast_mut();
            message.msg_iovlen = count as _;
            let sent = libc::syscall(libc::SYS_sendmsg, udp, &message, MSG_DONTWAIT) as i64;
            tell(what, sent);
            drain(udp);
        }
        for length in [0, 1, 15, 129, u32::MAX] {
            let address = [0u8; 256];
            let at = address.as_ptr().cast::<libc::sockaddr>();
            tell(
                "a name's length",
                libc::bind(stream, at, length as socklen_t),
            );
        }
        for file in [udp, stream, peer] {
            libc::close(file);
        }
    }
}

/// A listener is closed while many connections wait for it.
unsafe fn listener() {
    unsafe {
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        bind(server, AF_INET, LOCAL, 0);
        let port = own_port(server);
        let child = libc::fork();
        if child == 0 {
            libc::listen(server, 20);
            loop {
                libc::pause();
            }
        }
        libc::close(server);
        let first = loop {
            let first = libc::socket(AF_INET, SOCK_STREAM, 0);
            if connect(first, AF_INET, LOCAL, port) == 0 {
                break first;
            }
            libc::close(first);
            libc::usleep(1000);
        };
        let more: Vec<c_int> = (0..200)
            .map(|_| {
                let file = libc::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                connect(file, AF_INET, LOCAL, port);
                file
            })
            .collect();
        tell("sent", send(first, b"waits", 0));
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
        let mut byte = 0u8;
        let got = libc::recv(first, (&raw mut byte).cast(), 1, 0);
        println!("received: {got} {}", error());
        let late = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("too late", connect(late, AF_INET, LOCAL, port));
        more.iter().for_each(|&file| _ = libc::close(file));
        let again = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(again, SOL_SOCKET, SO_REUSEADDR, 1);
        tell_ok("the port", bind(again, AF_INET, LOCAL, port) == 0);
        for file in [first, late, again] {
            libc::close(file);
        }
        // Many sockets with a port each, one of which receives a datagram.
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: 4096,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        let mut all = Vec::new();
        loop {
            let family = [AF_UNIX, AF_INET, AF_INET6][all.len() % 3];
            let file = libc::socket(family, SOCK_DGRAM, 0);
            if file < 0 {
                break;
            }
            if family != AF_UNIX {
                bind(file, family, LOCAL, 0);
            }
            all.push(file);
        }
        println!("then: {}", error());
        let to = all[all.len() / 3 * 3 - 2];
        let port = own_port(to);
        tell("sent", send_to(to, b"found", AF_INET, LOCAL, port));
        crate::unix::receive("received", to, 8, 0);
        all.iter().for_each(|&file| _ = libc::close(file));
    }
}
