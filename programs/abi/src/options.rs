//! Socket options: defaults, accepted values and the values then returned; and the effects of some.

use std::mem;
use std::ptr;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, MSG_DONTWAIT,
    MSG_MORE, MSG_PEEK, MSG_WAITALL, POLLIN, SO_PASSCRED, SO_RCVLOWAT, SOCK_DGRAM, SOCK_STREAM,
    SOL_SOCKET, c_int,
};

use crate::inet::{self, own_port, send_to};
use crate::pipes::ready;
use crate::unix::{option, pair, receive, send, set};
use crate::{error, tell, tell_ok};

/// A datagram socket bound to a port.
pub unsafe fn udp(family: c_int) -> c_int {
    unsafe {
        let file = libc::socket(family, SOCK_DGRAM, 0);
        inet::bind(file, family, 0x7f00_0001, 0);
        file
    }
}

/// Options that libc does not define yet.
const SO_PEERPIDFD: c_int = 77;
const SO_PASSPIDFD: c_int = 76;
const UDP_CORK: c_int = 1;

/// Levels, and the numbers of their options.
const OPTIONS: [(c_int, &[c_int]); 5] = [
    (
        SOL_SOCKET,
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 25, 27, 28,
            29, 30, 34, 35, 36, 38, 39, 40, 41, 43, 44, 45, 46, 48, 55, 56, 57, 59, 63, 64, 75, 76,
            77,
        ],
    ),
    (
        IPPROTO_IP,
        &[
            1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 15, 18, 19, 20, 22, 23, 24, 26, 33, 34, 49,
        ],
    ),
    (
        IPPROTO_TCP,
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 18, 23, 25, 30, 43,
        ],
    ),
    (IPPROTO_UDP, &[1]),
    (
        IPPROTO_IPV6,
        &[
            2, 3, 4, 5, 8, 16, 18, 19, 22, 23, 25, 26, 29, 31, 49, 51, 53, 56, 58, 60, 62, 66, 67,
            74, 75, 77, 78,
        ],
    ),
];

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (family, kind) in [
            (AF_UNIX, SOCK_STREAM),
            (AF_INET, SOCK_STREAM),
            (AF_INET, SOCK_DGRAM),
            (AF_INET6, SOCK_STREAM),
            (AF_INET6, SOCK_DGRAM),
        ] {
            for (level, names) in OPTIONS {
                println!("family {family} kind {kind} level {level}");
                for &name in names {
                    numbers(family, kind, level, name);
                }
            }
        }
        connected();
        pieces();
        least();
        times();
        peers();
        effects();
        elsewhere();
        protocols();
        programs();
        lingers();
        device();
        lost_pidfd();
        polling();
        crate::tell_end(
            "user",
            crate::in_child(|| {
                libc::setresuid(1000, 1000, 1000);
                polling();
            }),
        );
    }
}

/// The parameters of epoll's busy polling (`struct epoll_params`).
unsafe fn polling() {
    const SET: libc::Ioctl = 0x4008_8a01_u32 as libc::Ioctl;
    const GET: libc::Ioctl = 0x8008_8a02_u32 as libc::Ioctl;
    unsafe {
        let file = libc::epoll_create1(0);
        for (time, budget, prefers, zero) in [
            (0, 0, 0, 0),
            (50, 64, 1, 0),
            (50, 65, 0, 0),
            (0, 65535, 0, 0),
            (-1, 1, 0, 0),
            (i32::MAX, 1, 0, 0),
            (1, 1, 2, 0),
            (1, 1, 1, 1),
        ] {
            let mut params = [0u8; 8];
            params[..4].copy_from_slice(&i32::to_ne_bytes(time));
            params[4..6].copy_from_slice(&u16::to_ne_bytes(budget));
            params[6..].copy_from_slice(&[prefers, zero]);
            tell("poll", libc::ioctl(file, SET, params.as_ptr()));
            params = [7; 8];
            libc::ioctl(file, GET, params.as_mut_ptr());
            println!("  {params:?}");
        }
        tell("unmapped", libc::ioctl(file, SET, 8));
        tell("unmapped", libc::ioctl(file, GET, 8));
        tell("neither", libc::ioctl(file, SET + 2, 8));
        libc::close(file);
    }
}

/// Options that only some families have.
unsafe fn elsewhere() {
    unsafe {
        for (family, kind) in [
            (AF_UNIX, SOCK_DGRAM),
            (AF_INET, SOCK_STREAM),
            (AF_INET6, libc::SOCK_RAW),
            (libc::AF_NETLINK, libc::SOCK_RAW),
        ] {
            println!("family {family} kind {kind}");
            let protocol = if family == AF_INET6 { 200 } else { 0 };
            let file = libc::socket(family, kind, protocol);
            for name in [15, 46, 69, 70, 73] {
                print!("{name}: {}", value(file, SOL_SOCKET, name));
                for given in [0, 1, 64, 65, 65535, 65536, -1, 0] {
                    let after = match set(file, SOL_SOCKET, name, given) {
                        0 => value(file, SOL_SOCKET, name),
                        _ => error().to_string(),
                    };
                    print!(", {given} {after}");
                }
                println!();
            }
            println!("56: {}", value(file, SOL_SOCKET, 56));
            tell("56", set(file, SOL_SOCKET, 56, 1));
            libc::close(file);
        }
        let user = crate::in_child(|| {
            libc::setresuid(1000, 1000, 1000);
            let file = libc::socket(AF_INET, SOCK_STREAM, 0);
            for (name, given) in [(46, 50), (69, 1), (69, 0), (70, 8), (70, 0), (70, -1)] {
                tell("user", set(file, SOL_SOCKET, name, given));
            }
        });
        crate::tell_end("user", user);
    }
}

/// Upper-layer protocols of TCP (TCP_ULP), of which there is none.
unsafe fn protocols() {
    const ULP: c_int = 31;
    unsafe {
        let [a, b] = inet::pair(AF_INET);
        for room in [0, 1, 16] {
            let (mut name, mut length) = ([7u8; 16], room);
            let to = name.as_mut_ptr().cast();
            tell(
                "protocol",
                libc::getsockopt(a, IPPROTO_TCP, ULP, to, &mut length),
            );
            println!("  {length} {}", name[0]);
        }
        for name in [
            &b"nonesuch"[..],
            b"nonesuch\0",
            b"",
            b"far too long for any name",
        ] {
            let (at, length) = (name.as_ptr().cast(), name.len() as u32);
            tell("take", libc::setsockopt(a, IPPROTO_TCP, ULP, at, length));
        }
        tell(
            "unmapped",
            libc::setsockopt(a, IPPROTO_TCP, ULP, 8 as *const _, 4),
        );
        libc::close(a);
        libc::close(b);
    }
}

/// BPF programs by invalid descriptors, or with wrong lengths.
unsafe fn programs() {
    unsafe {
        for family in [AF_UNIX, AF_INET] {
            let file = libc::socket(family, SOCK_DGRAM, 0);
            for name in [50, 52] {
                tell(&format!("{name} of 2"), set(file, SOL_SOCKET, name, 0u16));
                tell(&format!("{name} of 8"), set(file, SOL_SOCKET, name, 0u64));
                println!("{name}: {}", value(file, SOL_SOCKET, name));
            }
            tell("lock", set(file, SOL_SOCKET, libc::SO_LOCK_FILTER, 1));
            tell("locked", set(file, SOL_SOCKET, 50, 0));
            libc::close(file);
        }
    }
}

/// SO_LINGER keeps its time while it is disabled.
unsafe fn lingers() {
    unsafe {
        for family in [AF_UNIX, AF_INET] {
            let file = libc::socket(family, SOCK_STREAM, 0);
            for given in [
                [0, 9],
                [1, 5],
                [0, 0],
                [0, 7],
                [1, 0],
                [0, 3],
                [1, -1],
                [0, 0],
            ] {
                tell("linger", set(file, SOL_SOCKET, libc::SO_LINGER, given));
                let (mut now, mut length) = ([7, 7], 8);
                let to = now.as_mut_ptr().cast();
                libc::getsockopt(file, SOL_SOCKET, libc::SO_LINGER, to, &mut length);
                println!("  {given:?}: {now:?}");
            }
            libc::close(file);
        }
    }
}

/// SO_BINDTODEVICE needs room for the longest name.
unsafe fn device() {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        for bound in [false, true] {
            if bound {
                tell("bind", set(file, SOL_SOCKET, libc::SO_BINDTODEVICE, *b"lo"));
            }
            for room in [0, 2, 3, 15, 16, 32] {
                let (mut name, mut length) = ([7u8; 32], room);
                let to = name.as_mut_ptr().cast();
                let device = libc::SO_BINDTODEVICE;
                let got = libc::getsockopt(file, SOL_SOCKET, device, to, &mut length);
                tell(&format!("room of {room}"), got);
                println!("  {length} {:?}", &name[..4]);
            }
        }
        libc::close(file);
    }
}

/// A pidfd that cannot be returned is not opened.
unsafe fn lost_pidfd() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        let next = libc::dup(a);
        libc::close(next);
        let mut length = 4u32;
        let at = 8 as *mut libc::c_void;
        tell(
            "no value",
            libc::getsockopt(a, SOL_SOCKET, SO_PEERPIDFD, at, &mut length),
        );
        let after = libc::dup(a);
        println!("nothing opened: {}", after == next);
        libc::close(after);
        for room in [0u32, 3, 4, 8] {
            let mut given = room;
            let mut number = -1i32;
            let to = (&raw mut number).cast();
            tell(
                "pidfd",
                libc::getsockopt(a, SOL_SOCKET, SO_PEERPIDFD, to, &mut given),
            );
            println!("  room of {room}: {given}");
        }
        libc::close(a);
        libc::close(b);
    }
}

/// The option's value, as a number unless its length is stated.
pub unsafe fn value(file: c_int, level: c_int, name: c_int) -> String {
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as u32;
    let result =
        unsafe { libc::getsockopt(file, level, name, bytes.as_mut_ptr().cast(), &mut length) };
    match (result, length) {
        (0, 4) => i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).to_string(),
        (0, length) => format!("[{length}]"),
        _ => error().to_string(),
    }
}

/// Sets the option to several numbers, each on a new socket.
unsafe fn numbers(family: c_int, kind: c_int, level: c_int, name: c_int) {
    const GIVEN: [c_int; 8] = [-1, 0, 1, 2, 100, 256, 40000, 70000];
    unsafe {
        let file = libc::socket(family, kind, 0);
        let mut line = value(file, level, name);
        libc::close(file);
        let mut known = line != "ENOPROTOOPT" && line != "EOPNOTSUPP";
        for given in GIVEN {
            let file = libc::socket(family, kind, 0);
            let after = if set(file, level, name, given) == 0 {
                value(file, level, name)
            } else {
                error().to_string()
            };
            known |= after != "ENOPROTOOPT" && after != "EOPNOTSUPP";
            line += &format!(", {given} {after}");
            libc::close(file);
        }
        if known {
            println!("{name}: {line}");
        }
    }
}

/// Options that only a connection has.
unsafe fn connected() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let [a, b] = inet::pair(family);
            println!("IP_MTU {}", value(a, IPPROTO_IP, 14));
            println!("IPV6_MTU {}", value(a, IPPROTO_IPV6, 24));
            println!("TCP_INFO {}", value(a, IPPROTO_TCP, 11));
            println!("SO_PEERNAME {}", value(b, SOL_SOCKET, 28));
            libc::close(a);
            libc::close(b);
        }
    }
}

/// Datagrams that are sent in parts.
unsafe fn pieces() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let (from, to) = (udp(family), udp(family));
            let (own, port) = (own_port(from), own_port(to));
            let ip = 0x7f00_0001;
            tell("connect", inet::connect(from, family, ip, port));
            tell("piece", send(from, b"one ", MSG_MORE));
            receive("nothing yet", to, 64, MSG_DONTWAIT);
            tell("piece", send(from, b"two ", MSG_MORE));
            tell("last", send(from, b"three", 0));
            receive("whole", to, 64, MSG_DONTWAIT);
            receive("no more", to, 64, MSG_DONTWAIT);
            tell("cork", set(from, IPPROTO_UDP, UDP_CORK, 1));
            tell("piece", send(from, b"four ", 0));
            // The rest goes to the destination of the first part.
            tell("piece", send_to(from, b"five", family, ip, own));
            receive("nothing yet", to, 64, MSG_DONTWAIT);
            tell("uncork", set(from, IPPROTO_UDP, UDP_CORK, 0));
            receive("whole", to, 64, MSG_DONTWAIT);
            receive("not here", from, 64, MSG_DONTWAIT);
            tell("piece", send(from, &[0; 60000], MSG_MORE));
            tell("too long", send(from, &[0; 6000], 0));
            tell("uncork", set(from, IPPROTO_UDP, UDP_CORK, 0));
            libc::close(from);
            libc::close(to);
        }
    }
}

/// SO_RCVLOWAT, and the amount for which MSG_PEEK waits.
unsafe fn least() {
    unsafe {
        for family in [AF_UNIX, AF_INET] {
            let [a, b] = match family {
                AF_UNIX => pair(SOCK_STREAM),
                _ => inet::pair(family),
            };
            tell("lowat", set(b, SOL_SOCKET, SO_RCVLOWAT, 8));
            send(a, b"1234", 0);
            ready("four of eight", b, POLLIN);
            receive("without waiting", b, 64, MSG_DONTWAIT);
            send(a, b"123456789", 0);
            ready("nine of eight", b, POLLIN);
            receive("less room", b, 3, 0);
            receive("the rest", b, 64, MSG_DONTWAIT);
            tell("lowat", set(b, SOL_SOCKET, SO_RCVLOWAT, 1));
            send(a, b"abcdef", 0);
            receive("look", b, 6, MSG_PEEK | MSG_WAITALL);
            receive("look", b, 9, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT);
            receive("take", b, 9, MSG_WAITALL | MSG_DONTWAIT);
            libc::close(a);
            libc::close(b);
        }
    }
}

/// Receives a message, and prints the types and lengths of its control messages.
pub unsafe fn controls(what: &str, file: c_int) -> Vec<(c_int, Vec<u8>)> {
    let mut found = Vec::new();
    unsafe {
        let mut room = [0u64; 32];
        let mut byte = [0u8; 8];
        let mut piece = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: byte.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&room) as _;
        tell(what, libc::recvmsg(file, &mut message, MSG_DONTWAIT) as i64);
        let mut at = libc::CMSG_FIRSTHDR(&message);
        while let Some(header) = at.as_ref() {
            let length = header.cmsg_len as usize - mem::size_of::<libc::cmsghdr>();
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(at), length);
            println!("  {} {} {length}", header.cmsg_level, header.cmsg_type);
            found.push((header.cmsg_type, data.to_vec()));
            at = libc::CMSG_NXTHDR(&message, at);
        }
    }
    found
}

/// Timestamps of received datagrams.
unsafe fn times() {
    unsafe {
        let to = udp(AF_INET);
        let port = own_port(to);
        let [a, b] = pair(SOCK_DGRAM);
        for (name, unit) in [(29, 1_000_000), (35, 1_000_000_000)] {
            for (file, datagram) in [(to, true), (b, false)] {
                tell("stamps", set(file, SOL_SOCKET, name, 1));
                if datagram {
                    let from = udp(AF_INET);
                    send_to(from, b"x", AF_INET, 0x7f00_0001, port);
                    libc::close(from);
                } else {
                    send(a, b"x", 0);
                }
                for (_, data) in controls("stamped", file) {
                    let part = i64::from_ne_bytes(data[8..].try_into().unwrap_or_default());
                    println!("a part: {}", (0..unit).contains(&part));
                }
                tell("29", option(file, 29));
                tell("35", option(file, 35));
                tell("none", set(file, SOL_SOCKET, name, 0));
            }
        }
    }
}

/// Credentials of peers.
unsafe fn peers() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        let mut groups = [0u32; 64];
        let mut length = 0;
        let read = |groups: &mut [u32; 64], length: &mut u32| {
            libc::getsockopt(a, SOL_SOCKET, 59, groups.as_mut_ptr().cast(), length)
        };
        let own = libc::getgroups(0, ptr::null_mut());
        let result = read(&mut groups, &mut length);
        tell_ok(
            "no room",
            (result == -1) == (own > 0) && length == own as u32 * 4,
        );
        length = mem::size_of_val(&groups) as u32;
        tell("groups", read(&mut groups, &mut length));
        println!("all of them: {}", length == own as u32 * 4);
        let process = option(a, SO_PEERPIDFD);
        println!("a process: {}", process > 2);
        let flags = libc::fcntl(process, libc::F_GETFD);
        tell("closed by exec", flags);
        tell(
            "signal 0",
            libc::syscall(libc::SYS_pidfd_send_signal, process, 0, 0, 0),
        );
        tell("pidfds", set(b, SOL_SOCKET, SO_PASSPIDFD, 1));
        send(a, b"x", 0);
        for (_, data) in controls("who", b) {
            let fd = i32::from_ne_bytes(data.try_into().unwrap_or_default());
            println!("a process: {}", fd > 2);
        }
        tell("credentials", set(b, SOL_SOCKET, SO_PASSCRED, 1));
        send(a, b"x", 0);
        controls("both", b);
    }
}

/// Receives a message, and prints its control messages.
unsafe fn beside(what: &str, file: c_int) {
    unsafe {
        libc::poll(
            &mut libc::pollfd {
                fd: file,
                events: POLLIN,
                revents: 0,
            },
            1,
            500,
        );
        let (mut bytes, mut room) = ([0u8; 16], [0u64; 32]);
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&room) as _;
        let count = libc::recvmsg(file, &mut message, MSG_DONTWAIT);
        if count < 0 {
            return println!("{what}: {}", error());
        }
        print!("{what}: {count}");
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while let Some(header) = head.as_ref() {
            let first = libc::CMSG_DATA(head).cast::<u32>().read_unaligned();
            print!(
                ", {} {} [{}] {first}",
                header.cmsg_level, header.cmsg_type, header.cmsg_len
            );
            head = libc::CMSG_NXTHDR(&message, head);
        }
        println!();
    }
}

/// The priority (SO_PRIORITY) that a change of the type of service sets.
unsafe fn services() {
    const IP_TOS: c_int = 1;
    const IPV6_TCLASS: c_int = 67;
    unsafe {
        for (family, kind) in [
            (AF_INET, SOCK_DGRAM),
            (AF_INET, SOCK_STREAM),
            (AF_INET6, SOCK_DGRAM),
        ] {
            let file = libc::socket(family, kind, 0);
            let priority = || value(file, SOL_SOCKET, libc::SO_PRIORITY);
            for service in [0x10, 0x08, 0x18, 0x1c, 0xff, 0x03, 0x20] {
                tell("service", set(file, IPPROTO_IP, IP_TOS, service));
                println!("  {}", priority());
            }
            tell("one byte", set(file, IPPROTO_IP, IP_TOS, 0x10u8));
            println!("  {}", priority());
            tell("priority", set(file, SOL_SOCKET, libc::SO_PRIORITY, 3));
            tell("the same service", set(file, IPPROTO_IP, IP_TOS, 0x10));
            println!("  {}", priority());
            tell("class", set(file, IPPROTO_IPV6, IPV6_TCLASS, 8));
            println!("  {}", priority());
            libc::close(file);
        }
    }
}

/// Effects of options that only two ends can show.
unsafe fn effects() {
    const LOCAL: u32 = 0x7f00_0001;
    unsafe {
        services();
        for family in [AF_INET, AF_INET6] {
            let [a, b] = [udp(family), udp(family)];
            inet::connect(a, family, LOCAL, own_port(b));
            tell("mark", set(a, SOL_SOCKET, libc::SO_MARK, 77));
            send(a, b"unmarked", 0);
            beside("not told", b);
            tell("told", set(b, SOL_SOCKET, 75, 1));
            send(a, b"marked", 0);
            beside("told", b);
            tell("lock", set(a, SOL_SOCKET, libc::SO_LOCK_FILTER, 1));
            tell("detach", set(a, SOL_SOCKET, libc::SO_DETACH_FILTER, 0));
            let bytes = vec![0u8; 65536];
            let size = |length: usize| send(a, &bytes[..length], 0);
            for length in [65488, 65489, 65507, 65508, 65527, 65528, 65535, 65536] {
                println!("{length}: {}", size(length) >= 0);
            }
            if family == AF_INET6 {
                for (name, value) in [(62, 1), (62, 0), (23, 2), (23, 3), (23, 1)] {
                    tell("whole", set(a, IPPROTO_IPV6, name, value));
                    println!("{} {}", size(65488), size(65489));
                }
                for packet in [1, 1279, -1, 1280, 65536, 70000, 0] {
                    tell("packet", set(a, IPPROTO_IPV6, 24, packet));
                    println!("in pieces {}", size(2000));
                    set(a, IPPROTO_IPV6, 62, 1);
                    let sizes = [1232, 1233, 65488, 65489].map(size);
                    println!("whole {sizes:?}, told {}", value(a, IPPROTO_IPV6, 24));
                    set(a, IPPROTO_IPV6, 62, 0);
                }
            }
            libc::close(a);
            libc::close(b);
            segments(family);
            deferred(family);
            overdue(family);
        }
        let [a, b] = [udp(AF_INET6), udp(AF_INET6)];
        inet::connect(a, AF_INET6, LOCAL, own_port(b));
        for name in [2, 8] {
            tell("older names", set(b, IPPROTO_IPV6, name, 1));
        }
        send(a, b"old", 0);
        beside("told", b);
        tell("no checksum", set(a, IPPROTO_UDP, 101, 1));
        send(a, b"lost", 0);
        beside("lost", b);
        tell("none wanted", set(b, IPPROTO_UDP, 102, 1));
        send(a, b"found", 0);
        beside("found", b);
        libc::close(a);
        libc::close(b);
    }
}

/// A listener and its port.
unsafe fn listener(family: c_int) -> (c_int, u16) {
    unsafe {
        let server = libc::socket(family, SOCK_STREAM | libc::SOCK_NONBLOCK, 0);
        inet::bind(server, family, 0x7f00_0001, 0);
        libc::listen(server, 5);
        (server, own_port(server))
    }
}

/// The segment size (TCP_MAXSEG), on which both ends agree.
unsafe fn segments(family: c_int) {
    unsafe {
        for [own, other] in [[1000, 0], [0, 1000], [2000, 1000]] {
            let (server, port) = listener(family);
            let client = libc::socket(family, SOCK_STREAM, 0);
            set(client, IPPROTO_TCP, libc::TCP_MAXSEG, own);
            set(server, IPPROTO_TCP, libc::TCP_MAXSEG, other);
            set(server, IPPROTO_TCP, libc::TCP_NODELAY, 1);
            inet::connect(client, family, 0x7f00_0001, port);
            let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
            let size = |file| value(file, IPPROTO_TCP, libc::TCP_MAXSEG);
            println!(
                "{own} {other}: {} {} {} {}",
                size(client),
                size(accepted),
                size(server),
                value(accepted, IPPROTO_TCP, libc::TCP_NODELAY)
            );
            for file in [server, client, accepted] {
                libc::close(file);
            }
        }
    }
}

/// A deferred connection without data is accepted after the requested time.
unsafe fn overdue(family: c_int) {
    unsafe {
        let (server, port) = listener(family);
        let set = set(server, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1);
        tell("defer", set);
        let client = libc::socket(family, SOCK_STREAM, 0);
        let begin = std::time::Instant::now();
        tell("connect", inet::connect(client, family, 0x7f00_0001, port));
        let mut entry = libc::pollfd {
            fd: server,
            events: POLLIN,
            revents: 0,
        };
        tell("somebody", libc::poll(&mut entry, 1, 60_000));
        println!("after a second {}", begin.elapsed().as_millis() > 900);
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        receive("nothing", accepted, 8, libc::MSG_DONTWAIT);
        send(client, b"data", 0);
        receive("what came", accepted, 8, 0);
        for file in [server, client, accepted] {
            libc::close(file);
        }
    }
}

/// A deferred connection is accepted once it has data, or its peer has shut down.
unsafe fn deferred(family: c_int) {
    unsafe {
        let (server, port) = listener(family);
        tell(
            "defer",
            set(server, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 60),
        );
        let accept = || libc::accept(server, ptr::null_mut(), ptr::null_mut());
        for ends in [false, true] {
            let client = libc::socket(family, SOCK_STREAM, 0);
            tell("connect", inet::connect(client, family, 0x7f00_0001, port));
            ready("deferred", server, POLLIN);
            tell("nobody", accept());
            if ends {
                libc::shutdown(client, libc::SHUT_WR);
            } else {
                send(client, b"data", 0);
            }
            libc::poll(
                &mut libc::pollfd {
                    fd: server,
                    events: POLLIN,
                    revents: 0,
                },
                1,
                5000,
            );
            let accepted = accept();
            tell_ok("somebody", accepted >= 0);
            receive("what came", accepted, 8, 0);
            libc::close(accepted);
            libc::close(client);
        }
        let client = libc::socket(family, SOCK_STREAM, 0);
        tell("connect", inet::connect(client, family, 0x7f00_0001, port));
        libc::close(server);
        send(client, b"late", libc::MSG_NOSIGNAL);
        let mut byte = 0u8;
        let count = libc::recv(client, (&raw mut byte).cast(), 1, 0);
        println!("without a listener: {count} {}", error());
        libc::close(client);
    }
}
