//! Sockets beyond plain data: urgent data, errors of datagrams, several messages in one call, and
//! control messages that options request.

use std::mem;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC, F_SETOWN, FIONREAD, IPPROTO_IP, IPPROTO_IPV6,
    IPPROTO_TCP, IPPROTO_UDP, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, POLLERR, POLLIN,
    POLLPRI, SIGURG, SO_OOBINLINE, SO_REUSEADDR, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM,
    SOL_SOCKET, c_int, sockaddr_un, socklen_t,
};

use crate::inet::{self, bind, connect, own_port, send_to};
use crate::options::{controls, udp};
use crate::pipes::ready;
use crate::unix::{pair, receive, send, send_with, set};
use crate::{in_child, tell, tell_end};

const LOCAL: u32 = 0x7f00_0001;
const SIOCATMARK: u64 = 0x8905;
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
const IP_LOCAL_PORT_RANGE: c_int = 51;
const TCP_INQ: c_int = 36;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        dissolved();
        several();
        refused();
        told();
        ports();
        senders();
        shared();
        fast();
        devices();
        netlink_ports();
        let status = in_child(administered);
        tell_end("a user", status);
        for family in [AF_INET, AF_UNIX] {
            urgent(family);
            inline(family);
            no_bytes(family);
        }
    }
}

unsafe fn unspecified(file: c_int) -> c_int {
    let mut address: libc::sockaddr = unsafe { mem::zeroed() };
    address.sa_family = AF_UNSPEC as _;
    unsafe { libc::connect(file, &address, mem::size_of_val(&address) as socklen_t) }
}

/// Prints the socket's address, and whether its port is the same as before, another or none.
unsafe fn place(what: &str, file: c_int, before: u16) {
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&address) as socklen_t;
    unsafe { libc::getsockname(file, (&raw mut address).cast(), &mut length) };
    let port = match u16::from_be(address.sin_port) {
        0 => "no port",
        port if port == before => "its port",
        _ => "another port",
    };
    println!(
        "{what}: {:#x}, {port}",
        u32::from_be(address.sin_addr.s_addr)
    );
}

/// connect to AF_UNSPEC keeps the address and port given to bind.
unsafe fn dissolved() {
    unsafe {
        for kind in [SOCK_DGRAM, SOCK_STREAM] {
            let server = libc::socket(AF_INET, kind, 0);
            bind(server, AF_INET, LOCAL, 0);
            libc::listen(server, 50);
            let to = own_port(server);
            for (what, ip, port) in [
                ("nothing", None, 0),
                ("any", Some(0), 0),
                ("an address", Some(LOCAL), 0),
                ("a port", Some(0), 20401 + kind as u16),
                ("both", Some(LOCAL), 20411 + kind as u16),
            ] {
                println!("kind {kind} bound to {what}");
                let file = libc::socket(AF_INET, kind, 0);
                if let Some(ip) = ip {
                    tell("bind", bind(file, AF_INET, ip, port));
                }
                let before = own_port(file);
                place("before", file, before);
                tell("connect", connect(file, AF_INET, LOCAL, to));
                let during = own_port(file);
                place("connected", file, if before == 0 { during } else { before });
                tell("dissolve", unspecified(file));
                place("dissolved", file, during);
                inet::name("peer", file, libc::getpeername);
                tell("again", connect(file, AF_INET, LOCAL, to));
                println!("has a port: {}", own_port(file) != 0);
                libc::close(file);
            }
            libc::close(server);
        }
    }
}

/// Receives until nothing is left, and prints the lengths.
unsafe fn lengths(what: &str, file: c_int) {
    let mut bytes = [0u8; 4096];
    let mut found = Vec::new();
    loop {
        let room = bytes.len();
        let count = unsafe { libc::recv(file, bytes.as_mut_ptr().cast(), room, MSG_DONTWAIT) };
        if count < 0 {
            break;
        }
        found.push(count);
    }
    println!("{what}: {found:?}");
}

/// Sends several datagrams in one call, and receives them in one.
unsafe fn several() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let (from, to) = (udp(family), udp(family));
            tell("connect", connect(from, family, LOCAL, own_port(to)));
            let bytes = [7u8; 350];
            tell("segments", set(from, IPPROTO_UDP, UDP_SEGMENT, 100));
            tell("send", send(from, &bytes, 0));
            lengths("received", to);
            tell("too many", send(from, &[0; 13_000], 0));
            tell("no segments", set(from, IPPROTO_UDP, UDP_SEGMENT, 0));
            let size = 150u16.to_ne_bytes();
            tell(
                "by a message",
                send_with(from, &bytes, (IPPROTO_UDP, UDP_SEGMENT), &size),
            );
            lengths("received", to);
            tell(
                "an odd one",
                send_with(from, &bytes, (IPPROTO_UDP, UDP_SEGMENT), &[1]),
            );
            tell("another", send_with(from, &bytes, (IPPROTO_UDP, 77), &size));
            tell("gro", set(to, IPPROTO_UDP, UDP_GRO, 1));
            tell(
                "by a message",
                send_with(from, &bytes, (IPPROTO_UDP, UDP_SEGMENT), &size),
            );
            for (_, data) in controls("together", to) {
                println!("  {:?}", data);
            }
            tell("alone", send(from, &bytes, 0));
            controls("alone", to);
            libc::close(from);
            libc::close(to);
        }
    }
}

/// Receives from the error queue and prints the message.
unsafe fn queued(what: &str, file: c_int) {
    unsafe {
        let mut room = [0u64; 32];
        let mut bytes = [0u8; 8];
        let mut from = [0u8; 28];
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = from.len() as _;
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&room) as _;
        let count = libc::recvmsg(file, &mut message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if count < 0 {
            return tell(what, -1);
        }
        println!(
            "{what}: {count} {:?} flags {:#x}, to family {} of {}",
            String::from_utf8_lossy(&bytes[..count as usize]),
            message.msg_flags & !MSG_DONTWAIT,
            from[0],
            message.msg_namelen
        );
        let head = libc::CMSG_FIRSTHDR(&message);
        if let Some(header) = head.as_ref() {
            let length = header.cmsg_len as usize - 16;
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(head), length);
            println!("  {} {}: {data:?}", header.cmsg_level, header.cmsg_type);
        }
    }
}

/// Errors of datagrams that nobody received.
unsafe fn refused() {
    unsafe {
        for (family, level, option) in [
            (AF_INET, IPPROTO_IP, libc::IP_RECVERR),
            (AF_INET6, IPPROTO_IPV6, libc::IPV6_RECVERR),
        ] {
            let (file, gone) = (udp(family), udp(family));
            let port = own_port(gone);
            libc::close(gone);
            tell("not asked", send_to(file, b"lost", family, LOCAL, port));
            ready("not asked", file, POLLIN | POLLERR);
            queued("empty", file);
            tell("ask", set(file, level, option, 1));
            tell("one", send_to(file, b"one", family, LOCAL, port));
            ready("an error", file, POLLIN | POLLERR);
            tell("two", send_to(file, b"two", family, LOCAL, port));
            tell(
                "two again",
                send_to(file, b"long two, again", family, LOCAL, port),
            );
            queued("first", file);
            receive("received", file, 8, MSG_DONTWAIT);
            queued("second", file);
            ready("no more", file, POLLIN | POLLERR);
            queued("no more", file);
            receive("received", file, 8, MSG_DONTWAIT);
            tell("three", send_to(file, b"three", family, LOCAL, port));
            tell("ask no more", set(file, level, option, 0));
            queued("forgotten", file);
            libc::close(file);
        }
    }
}

/// Control messages of received datagrams.
unsafe fn told() {
    unsafe {
        // The software timestamp, and no hardware timestamp.
        let (from, to) = (udp(AF_INET), udp(AF_INET));
        let port = own_port(to);
        tell("stamping", set(to, SOL_SOCKET, libc::SO_TIMESTAMPING, 0x18));
        send_to(from, b"x", AF_INET, LOCAL, port);
        for (_, data) in controls("stamped", to) {
            let words: Vec<i64> = data
                .as_chunks()
                .0
                .iter()
                .map(|&w| i64::from_ne_bytes(w))
                .collect();
            println!("  a time: {}, then {:?}", words[0] > 0, &words[2..]);
        }
        tell("not told", set(to, SOL_SOCKET, libc::SO_TIMESTAMPING, 8));
        send_to(from, b"x", AF_INET, LOCAL, port);
        controls("stamped", to);
        tell("odd", set(to, SOL_SOCKET, libc::SO_TIMESTAMPING, 1 << 30));
        // The original destination of the datagram, and its sender.
        tell("to", set(to, IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1));
        send_to(from, b"x", AF_INET, LOCAL, port);
        for (_, data) in controls("told", to) {
            println!(
                "  {}: {:?}",
                u16::from_be_bytes([data[2], data[3]]) == port,
                &data[4..]
            );
        }
        tell("no more", set(to, IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 0));
        let info = [0i32, 0x0200_007f, 0].map(i32::to_ne_bytes).concat();
        connect(from, AF_INET, LOCAL, port);
        tell(
            "from",
            send_with(from, b"x", (IPPROTO_IP, libc::IP_PKTINFO), &info),
        );
        let mut address: libc::sockaddr_in = mem::zeroed();
        let mut length = mem::size_of_val(&address) as socklen_t;
        let mut byte = 0u8;
        let count = libc::recvfrom(
            to,
            (&raw mut byte).cast(),
            1,
            MSG_DONTWAIT,
            (&raw mut address).cast(),
            &mut length,
        );
        println!("from: {count} {:#x}", u32::from_be(address.sin_addr.s_addr));
        let far = [0i32, 0x0808_0808, 0].map(i32::to_ne_bytes).concat();
        let sent = send_with(from, b"x", (IPPROTO_IP, libc::IP_PKTINFO), &far);
        println!("from elsewhere: {}", sent == -1);
        for (what, kind, data) in [
            ("ttl 0", libc::IP_TTL, &[0, 0, 0, 0][..]),
            ("short ttl", libc::IP_TTL, &[1]),
            ("tos", libc::IP_TOS, &[8]),
            ("odd", 99, &[0, 0, 0, 0]),
        ] {
            tell(what, send_with(from, b"x", (IPPROTO_IP, kind), data));
        }
        lengths("received", to);
        // The number of dropped datagrams.
        tell("lost", set(to, SOL_SOCKET, libc::SO_RXQ_OVFL, 1));
        tell("room", set(to, SOL_SOCKET, libc::SO_RCVBUF, 2304));
        for _ in 0..20 {
            send(from, &[0; 1000], 0);
        }
        let mut bytes = [0u8; 2048];
        while libc::recv(to, bytes.as_mut_ptr().cast(), 2048, MSG_DONTWAIT) > 0 {}
        send(from, b"x", 0);
        for (_, data) in controls("after those", to) {
            println!("  lost some: {}", data != [0, 0, 0, 0]);
        }
        connect(to, AF_INET, LOCAL, own_port(from));
        send(from, b"x", 0);
        lengths("received", to);
        println!(
            "a cpu: {}",
            crate::unix::option(to, libc::SO_INCOMING_CPU) >= 0
        );
        // Unread bytes of a connection.
        let [a, b] = inet::pair(AF_INET);
        tell("inq", set(b, IPPROTO_TCP, TCP_INQ, 1));
        tell("inq 2", set(b, IPPROTO_TCP, TCP_INQ, 2));
        send(a, b"twelve bytes", 0);
        for (_, data) in controls("eight of twelve", b) {
            println!("  {data:?}");
        }
        libc::shutdown(a, libc::SHUT_WR);
        for (_, data) in controls("the rest", b) {
            println!("  {data:?}");
        }
    }
}

/// The choice of ports, and addresses that are not local.
unsafe fn ports() {
    unsafe {
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            let range = 46010u32 << 16 | 46008;
            let files: Vec<c_int> = (0..4).map(|_| libc::socket(AF_INET, kind, 0)).collect();
            for &file in &files {
                tell("range", set(file, IPPROTO_IP, IP_LOCAL_PORT_RANGE, range));
                let bound = bind(file, AF_INET, LOCAL, 0);
                tell("bind", bound);
                println!("within: {}", (46008..=46010).contains(&own_port(file)));
            }
            files.iter().for_each(|&file| _ = libc::close(file));
            let file = libc::socket(AF_INET, kind, 0);
            for range in [46008u32 << 16 | 46010, 46010, 46010 << 16, 10 << 16 | 5] {
                tell("range", set(file, IPPROTO_IP, IP_LOCAL_PORT_RANGE, range));
            }
            tell("elsewhere", bind(file, AF_INET, 0x0808_0808, 0));
            tell("free", set(file, IPPROTO_IP, libc::IP_FREEBIND, 1));
            tell("elsewhere", bind(file, AF_INET, 0x0808_0808, 0));
            libc::close(file);
            let file = libc::socket(AF_INET, kind, 0);
            tell(
                "late",
                set(file, IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1),
            );
            tell("bind", bind(file, AF_INET, LOCAL, 0));
            place("bound", file, 1);
            let server = libc::socket(AF_INET, kind, 0);
            set(server, SOL_SOCKET, SO_REUSEADDR, 1);
            bind(server, AF_INET, LOCAL, 0);
            libc::listen(server, 1);
            tell("connect", connect(file, AF_INET, LOCAL, own_port(server)));
            println!("has a port: {}", own_port(file) != 0);
            libc::close(file);
            libc::close(server);
        }
    }
}

/// Sockets that share a port share its connections, and a sender always reaches the same one.
unsafe fn shared() {
    unsafe {
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            let mut port = 0;
            let servers = [0; 4].map(|_| {
                let file = libc::socket(AF_INET, kind | libc::SOCK_NONBLOCK, 0);
                set(file, SOL_SOCKET, libc::SO_REUSEPORT, 1);
                bind(file, AF_INET, LOCAL, port);
                libc::listen(file, 100);
                port = own_port(file);
                file
            });
            let clients: Vec<c_int> = (0..64)
                .map(|_| {
                    let file = libc::socket(AF_INET, kind, 0);
                    connect(file, AF_INET, LOCAL, port);
                    send(file, b"x", 0);
                    file
                })
                .collect();
            let mut counts = servers.map(|file| {
                (0..64)
                    .filter(|_| match kind {
                        SOCK_STREAM => {
                            let nothing = std::ptr::null_mut();
                            libc::close(libc::accept(file, nothing, nothing.cast())) == 0
                        }
                        _ => libc::recv(file, [0u8; 4].as_mut_ptr().cast(), 4, 0) == 1,
                    })
                    .count()
            });
            counts.sort();
            println!(
                "shared: {}, all served: {}",
                counts.iter().sum::<usize>(),
                counts[0] > 0
            );
            clients
                .iter()
                .chain(&servers)
                .for_each(|&file| _ = libc::close(file));
        }
    }
}

/// A connection that starts with data (TCP fast open).
unsafe fn fast() {
    unsafe {
        const MSG_FASTOPEN: c_int = 0x2000_0000;
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        bind(server, AF_INET, LOCAL, 0);
        libc::listen(server, 5);
        let mut address: libc::sockaddr_in = mem::zeroed();
        address.sin_family = AF_INET as _;
        address.sin_port = own_port(server).to_be();
        address.sin_addr.s_addr = LOCAL.to_be();
        let length = mem::size_of_val(&address) as socklen_t;
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        let at = (&raw const address).cast();
        let bytes = b"hello".as_ptr().cast();
        let sent = libc::sendto(client, bytes, 5, MSG_FASTOPEN, at, length);
        tell("sent", sent as i64);
        let accepted = libc::accept(server, std::ptr::null_mut(), std::ptr::null_mut());
        receive("received", accepted, 8, 0);
        let sent = libc::sendto(client, bytes, 5, MSG_FASTOPEN, at, length);
        tell("again", sent as i64);
        [server, client, accepted]
            .iter()
            .for_each(|&file| _ = libc::close(file));
    }
}

/// Netlink sockets that report devices (NETLINK_KOBJECT_UEVENT).
unsafe fn devices() {
    const NETLINK_KOBJECT_UEVENT: c_int = 15;
    unsafe {
        let events = libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM, NETLINK_KOBJECT_UEVENT);
        let mut address: libc::sockaddr_nl = mem::zeroed();
        address.nl_family = libc::AF_NETLINK as _;
        address.nl_groups = 1;
        let length = mem::size_of_val(&address) as socklen_t;
        tell(
            "bind",
            libc::bind(events, (&raw const address).cast(), length),
        );
        receive("no device", events, 64, MSG_DONTWAIT);
        tell("odd", set(events, 270, 99, 1));
        tell("group", set(events, 270, 1, 1));
        libc::close(events);
    }
}

/// The ports of netlink sockets: the process ID for the first, another for each further one.
unsafe fn netlink_ports() {
    unsafe {
        let sockets = [(); 3].map(|()| libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0));
        let length = mem::size_of::<libc::sockaddr_nl>() as socklen_t;
        let bind = |what: &str, socket: c_int, port: u32| {
            let mut address: libc::sockaddr_nl = mem::zeroed();
            address.nl_family = libc::AF_NETLINK as _;
            address.nl_pid = port;
            tell(
                what,
                libc::bind(socket, (&raw const address).cast(), length),
            );
        };
        let port = |socket: c_int| {
            let (mut address, mut length): (libc::sockaddr_nl, _) = (mem::zeroed(), length);
            libc::getsockname(socket, (&raw mut address).cast(), &mut length);
            address.nl_pid
        };
        let own = libc::getpid() as u32;
        println!("port before: {}", port(sockets[0]));
        bind("any", sockets[0], 0);
        bind("any", sockets[1], 0);
        let [first, second] = [port(sockets[0]), port(sockets[1])];
        println!("own {} further {}", first == own, second >> 31);
        bind("taken", sockets[2], own);
        bind("free", sockets[2], 77_777);
        bind("the same", sockets[2], 77_777);
        bind("another", sockets[2], 0);
        libc::close(sockets[0]);
        let next = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
        bind("free again", next, own);
        for socket in [next, sockets[1], sockets[2]] {
            libc::close(socket);
        }
    }
}

/// Options that require CAP_NET_ADMIN.
fn administered() {
    const ICMP: c_int = 1;
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::setgid(1234);
        libc::setuid(1234);
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        for (what, level, name, value) in [
            ("debug", SOL_SOCKET, 1, 1),
            ("no debug", SOL_SOCKET, 1, 0),
            ("priority 6", SOL_SOCKET, 12, 6),
            ("priority 7", SOL_SOCKET, 12, 7),
            ("mark", SOL_SOCKET, libc::SO_MARK, 1),
            ("force", SOL_SOCKET, libc::SO_SNDBUFFORCE, 1 << 20),
            ("busy poll", SOL_SOCKET, libc::SO_BUSY_POLL, 50),
            ("transparent", IPPROTO_IP, libc::IP_TRANSPARENT, 1),
            ("free", IPPROTO_IP, libc::IP_FREEBIND, 1),
        ] {
            tell(what, set(file, level, name, value));
        }
        let mut stat: libc::stat = mem::zeroed();
        libc::fstat(file, &mut stat);
        println!("whose: {} {}", stat.st_uid, stat.st_gid);
        tell("low port", bind(file, AF_INET, LOCAL, 100));
        tell("ping", libc::socket(AF_INET, SOCK_DGRAM, ICMP));
        tell("raw", libc::socket(AF_INET, libc::SOCK_RAW, ICMP));
    }
}

/// The sender's credentials of data that a Unix connection receives.
unsafe fn senders() {
    unsafe {
        for kind in [SOCK_STREAM, SOCK_SEQPACKET] {
            let [server, client] = [0; 2].map(|_| libc::socket(AF_UNIX, kind, 0));
            let mut names: [sockaddr_un; 2] = mem::zeroed();
            for (at, name) in names.iter_mut().enumerate() {
                name.sun_family = AF_UNIX as _;
                name.sun_path[1] = b'a' as _;
                name.sun_path[2] = (b'0' + at as u8) as _;
            }
            libc::bind(server, (&raw const names[0]).cast(), 5);
            libc::bind(client, (&raw const names[1]).cast(), 5);
            libc::listen(server, 1);
            tell(
                "connect",
                libc::connect(client, (&raw const names[0]).cast(), 5),
            );
            let accepted = libc::accept(server, std::ptr::null_mut(), std::ptr::null_mut());
            send(client, b"to", 0);
            send(accepted, b"back", 0);
            for file in [accepted, client] {
                let mut from: sockaddr_un = mem::zeroed();
                let mut length = mem::size_of_val(&from) as socklen_t;
                let mut bytes = [0u8; 8];
                let count = libc::recvfrom(
                    file,
                    bytes.as_mut_ptr().cast(),
                    8,
                    0,
                    (&raw mut from).cast(),
                    &mut length,
                );
                println!("{count} from {length}: {:?}", &from.sun_path[..3]);
            }
            for file in [server, client, accepted] {
                libc::close(file);
            }
        }
    }
}

/// Prints the results of SIOCATMARK and FIONREAD.
unsafe fn mark(what: &str, file: c_int) {
    let (mut at, mut count) = (-1, -1);
    unsafe {
        libc::ioctl(file, SIOCATMARK as _, &mut at);
        libc::ioctl(file, FIONREAD as _, &mut count);
    }
    println!("{what}: at the mark {at}, waiting {count}");
}

fn priority(file: c_int) -> bool {
    let mut asked = libc::pollfd {
        fd: file,
        events: POLLPRI,
        revents: 0,
    };
    // SAFETY: the array has one entry.
    unsafe { libc::poll(&mut asked, 1, 0) == 1 && asked.revents & POLLPRI != 0 }
}

fn connection(family: c_int) -> [c_int; 2] {
    // SAFETY: creates sockets.
    match family {
        AF_UNIX => pair(SOCK_STREAM),
        _ => unsafe { inet::pair(family) },
    }
}

/// Urgent data.
unsafe fn urgent(family: c_int) {
    unsafe {
        println!("family {family}");
        let [a, b] = connection(family);
        receive("none", b, 8, MSG_OOB | MSG_DONTWAIT);
        mark("empty", b);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, SIGURG);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        tell("own", libc::fcntl(b, F_SETOWN, libc::getpid()));
        tell("send", send(a, b"hello", MSG_OOB));
        let time = libc::timespec {
            tv_sec: 5,
            tv_nsec: 0,
        };
        let signal = libc::sigtimedwait(&set, std::ptr::null_mut(), &time);
        println!("SIGURG: {}", signal == SIGURG);
        ready("urgent", b, POLLIN | POLLPRI);
        println!("priority: {}", priority(b));
        mark("before", b);
        receive("look", b, 8, MSG_OOB | MSG_PEEK);
        receive("urgent", b, 8, MSG_OOB);
        receive("once", b, 8, MSG_OOB | MSG_DONTWAIT);
        ready("taken", b, POLLIN | POLLPRI);
        println!("priority: {}", priority(b));
        receive("up to it", b, 8, MSG_DONTWAIT);
        mark("there", b);
        receive("nothing", b, 8, MSG_DONTWAIT);
        send(a, b"world", 0);
        receive("after it", b, 8, MSG_DONTWAIT);
        mark("after", b);
        // Bytes before and after it, unread.
        send(a, b"ab", 0);
        send(a, b"c", MSG_OOB);
        send(a, b"de", 0);
        receive("up to it", b, 8, MSG_DONTWAIT);
        mark("there", b);
        ready("there", b, POLLIN | POLLPRI);
        receive("past it", b, 8, MSG_DONTWAIT);
        receive("gone", b, 8, MSG_OOB | MSG_DONTWAIT);
        ready("gone", b, POLLIN | POLLPRI);
        // A second urgent byte replaces the first, which becomes ordinary data.
        send(a, b"fg", 0);
        send(a, b"h", MSG_OOB);
        send(a, b"i", 0);
        send(a, b"j", MSG_OOB);
        receive("the second", b, 8, MSG_OOB | MSG_DONTWAIT);
        receive("all before", b, 8, MSG_DONTWAIT);
        receive("the end", b, 8, MSG_DONTWAIT);
        // The same if the first one was read.
        send(a, b"lm", 0);
        send(a, b"n", MSG_OOB);
        send(a, b"op", 0);
        receive("the first", b, 8, MSG_OOB | MSG_DONTWAIT);
        send(a, b"q", MSG_OOB);
        receive("all before", b, 16, MSG_DONTWAIT);
        receive("the end", b, 8, MSG_DONTWAIT);
        // The last byte of the connection.
        send(a, b"k", MSG_OOB);
        libc::close(a);
        receive("end", b, 8, MSG_DONTWAIT);
        receive("end", b, 8, MSG_DONTWAIT);
        libc::close(b);
    }
}

/// Urgent data in line (SO_OOBINLINE).
unsafe fn inline(family: c_int) {
    unsafe {
        let [a, b] = connection(family);
        tell("inline", set(b, SOL_SOCKET, SO_OOBINLINE, 1));
        send(a, b"ab", 0);
        send(a, b"c", MSG_OOB);
        send(a, b"de", 0);
        ready("inline", b, POLLIN | POLLPRI);
        receive("refused", b, 8, MSG_OOB | MSG_DONTWAIT);
        receive("up to it", b, 8, MSG_DONTWAIT);
        mark("there", b);
        receive("from it on", b, 8, MSG_DONTWAIT);
        ready("gone", b, POLLIN | POLLPRI);
        mark("after", b);
        libc::close(a);
        libc::close(b);
    }
}

/// Receives of zero bytes: they wait and fail as others do, except read(2).
unsafe fn no_bytes(family: c_int) {
    unsafe {
        let [a, b] = connection(family);
        receive("nothing there", b, 0, MSG_DONTWAIT);
        let mut byte = 0u8;
        tell("read", libc::read(b, (&raw mut byte).cast(), 0) as i64);
        send(a, b"ab", 0);
        receive("bytes there", b, 0, MSG_DONTWAIT);
        receive("still", b, 8, MSG_DONTWAIT);
        send(b, b"unread", 0);
        libc::close(a);
        receive("reset", b, 0, 0);
        receive("once", b, 0, 0);
        libc::close(b);
    }
}
