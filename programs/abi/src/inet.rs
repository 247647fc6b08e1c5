//! TCP and UDP on the local machine, over IPv4 and IPv6.

use std::mem;
use std::ptr;

use libc::{
    AF_INET, AF_INET6, IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, POLLIN, POLLOUT,
    POLLRDHUP, SO_ERROR, SO_LINGER, SO_REUSEADDR, SO_REUSEPORT, SO_TYPE, SOCK_DGRAM, SOCK_NONBLOCK,
    SOCK_STREAM, SOL_SOCKET, c_int, sockaddr_in6, socklen_t,
};

use crate::pipes::ready;
use crate::tell;
use crate::unix::{option, receive, send, set};

/// 127.0.0.1 in host byte order.
const LOCAL: u32 = 0x7f00_0001;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        kinds();
        for family in [AF_INET, AF_INET6] {
            println!("family {family}");
            connections(family);
            ends(family);
            datagrams(family);
        }
        unread();
        headers();
        names();
        kept();
        both();
        options();
        interfaces();
    }
}

/// Waits until the peer has acknowledged all data, which it may do later.
pub fn await_acknowledged(file: c_int) {
    // SAFETY: the number outlives the call.
    let is_done = || unsafe {
        let mut unsent: c_int = 0;
        libc::ioctl(file, libc::TIOCOUTQ, &mut unsent);
        unsent == 0 || libc::usleep(20_000) != 0
    };
    _ = (0..1000).any(|_| is_done());
}

/// Waits until no connection awaits the acknowledgement of its FIN, which a peer may delay. Waits
/// only some seconds, in case an earlier part has left such connections.
pub fn await_answers() {
    let awaits = || {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        let states = tables.iter().flatten().flat_map(|table| table.lines());
        // FIN_WAIT1, LAST_ACK and CLOSING.
        let mut states = states.filter_map(|line| line.split_whitespace().nth(3));
        states.any(|state| ["04", "09", "0B"].contains(&state))
    };
    // SAFETY: the call takes no pointer.
    _ = (0..100).any(|_| !awaits() || unsafe { libc::usleep(30_000) } != 0);
}

/// Bytes that the peer has received but not read count as sent and acknowledged.
unsafe fn unread() {
    unsafe {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = std::net::TcpStream::connect(address).expect("a connection");
        let (server, _) = listener.accept().expect("a connection");
        let mut number: c_int = -1;
        for _ in 0..2 {
            client.write_all(&[7; 1000]).expect("room");
            await_acknowledged(client.as_raw_fd());
            tell(
                "unsent",
                libc::ioctl(client.as_raw_fd(), libc::TIOCOUTQ, &mut number),
            );
            println!("  {number}");
            libc::ioctl(server.as_raw_fd(), libc::FIONREAD, &mut number);
            println!("to be read: {number}");
        }
        let mut memory = [0u32; 9];
        let mut size: socklen_t = 36;
        libc::getsockopt(
            client.as_raw_fd(),
            SOL_SOCKET,
            55,
            memory.as_mut_ptr().cast(),
            &mut size,
        );
        println!("of memory: {} {}", memory[0], memory[5]);
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let own = format!(":{:04X} 01 ", address.port());
        let line = table.lines().find(|line| line.contains(&own));
        let queues = line.and_then(|line| line.split_whitespace().nth(4));
        println!("in the table: {queues:?}");
    }
}

/// A socket address; for IPv6 the mapped address of `ip`, or ::1 and :: for 127.0.0.1 and 0.0.0.0.
fn address(family: c_int, ip: u32, port: u16) -> (sockaddr_in6, socklen_t) {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_in6 = unsafe { mem::zeroed() };
    address.sin6_family = family as _;
    address.sin6_port = port.to_be();
    if family == AF_INET {
        address.sin6_flowinfo = ip.to_be();
        return (address, 16);
    }
    if ip == LOCAL {
        address.sin6_addr.s6_addr[15] = 1;
    } else if ip != 0 {
        address.sin6_addr.s6_addr[10..12].fill(0xff);
        address.sin6_addr.s6_addr[12..].copy_from_slice(&ip.to_be_bytes());
    }
    (address, 28)
}

pub unsafe fn bind(file: c_int, family: c_int, ip: u32, port: u16) -> c_int {
    let (address, length) = address(family, ip, port);
    unsafe { libc::bind(file, (&raw const address).cast(), length) }
}

pub unsafe fn connect(file: c_int, family: c_int, ip: u32, port: u16) -> c_int {
    let (address, length) = address(family, ip, port);
    unsafe { libc::connect(file, (&raw const address).cast(), length) }
}

pub unsafe fn send_to(file: c_int, bytes: &[u8], family: c_int, ip: u32, port: u16) -> i64 {
    let (address, length) = address(family, ip, port);
    unsafe {
        libc::sendto(
            file,
            bytes.as_ptr().cast(),
            bytes.len(),
            0,
            (&raw const address).cast(),
            length,
        ) as i64
    }
}

pub type Namer = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int;

/// The socket's port, or 0 if it has none.
unsafe fn port(file: c_int, call: Namer) -> u16 {
    let (mut address, _) = address(AF_INET, 0, 0);
    let mut length = mem::size_of::<sockaddr_in6>() as socklen_t;
    unsafe { call(file, (&raw mut address).cast(), &mut length) };
    u16::from_be(address.sin6_port)
}

pub unsafe fn own_port(file: c_int) -> u16 {
    unsafe { port(file, libc::getsockname) }
}

/// Prints a socket's address without the port.
pub unsafe fn name(what: &str, file: c_int, call: Namer) {
    let (mut address, _) = address(AF_INET, 0, 0);
    let mut length = mem::size_of::<sockaddr_in6>() as socklen_t;
    let result = unsafe { call(file, (&raw mut address).cast(), &mut length) };
    if result != 0 {
        return tell(what, result);
    }
    let named = address.sin6_port != 0;
    let family = address.sin6_family;
    if c_int::from(family) == AF_INET {
        let ip = u32::from_be(address.sin6_flowinfo);
        println!("{what}: {family} {length} {ip:x} {named}");
    } else {
        println!(
            "{what}: {family} {length} {:x?} {named}",
            address.sin6_addr.s6_addr
        );
    }
}

unsafe fn listener(family: c_int, backlog: c_int) -> (c_int, u16) {
    unsafe {
        let server = libc::socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        tell("bind", bind(server, family, LOCAL, 0));
        tell("listen", libc::listen(server, backlog));
        (server, own_port(server))
    }
}

unsafe fn accept(server: c_int) -> c_int {
    unsafe { libc::accept(server, ptr::null_mut(), ptr::null_mut()) }
}

/// The two ends of a connection, the accepted one first.
pub unsafe fn pair(family: c_int) -> [c_int; 2] {
    unsafe {
        let server = libc::socket(family, SOCK_STREAM, 0);
        bind(server, family, LOCAL, 0);
        libc::listen(server, 1);
        let client = libc::socket(family, SOCK_STREAM, 0);
        if connect(client, family, LOCAL, own_port(server)) != 0 {
            tell("pair", -1);
        }
        let accepted = accept(server);
        libc::close(server);
        [accepted, client]
    }
}

/// Waits until the socket has one of these events.
unsafe fn wait_for(file: c_int, events: i16) {
    let mut entry = libc::pollfd {
        fd: file,
        events,
        revents: 0,
    };
    unsafe { libc::poll(&mut entry, 1, -1) };
}

unsafe fn kinds() {
    unsafe {
        tell(
            "an odd protocol",
            libc::socket(AF_INET, SOCK_STREAM, libc::IPPROTO_UDP),
        );
        tell("an odd kind", libc::socket(AF_INET, 4, 0));
        let mut ends = [0; 2];
        tell(
            "a pair",
            libc::socketpair(AF_INET, SOCK_STREAM, 0, ends.as_mut_ptr()),
        );
        let a = libc::socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
        println!(
            "{} {} {}",
            option(a, SO_TYPE),
            option(a, libc::SO_PROTOCOL),
            option(a, libc::SO_DOMAIN)
        );
        name("unnamed", a, libc::getsockname);
        name("unconnected", a, libc::getpeername);
        ready("idle", a, POLLIN | POLLOUT);
        tell("sent too early", send(a, b"x", MSG_NOSIGNAL));
        receive("received too early", a, 1, 0);
        tell("shut down too early", libc::shutdown(a, libc::SHUT_RDWR));
        tell("accept", accept(a));
        libc::close(a);
    }
}

unsafe fn connections(family: c_int) {
    unsafe {
        let (server, port) = listener(family, 5);
        tell("accept nobody", accept(server));
        name("its name", server, libc::getsockname);
        tell(
            "connect a listening one",
            connect(server, family, LOCAL, port),
        );
        let a = libc::socket(family, SOCK_STREAM, 0);
        tell("connect", connect(a, family, LOCAL, port));
        tell("connect again", connect(a, family, LOCAL, port));
        name("its name", a, libc::getsockname);
        name("its peer", a, libc::getpeername);
        println!("the port: {}", self::port(a, libc::getpeername) == port);
        tell("sent before accept", send(a, b"early", 0));
        ready("somebody", server, POLLIN | POLLOUT);
        let first = accept(server);
        wait_for(first, POLLIN);
        receive("it was kept", first, 10, 0);
        name("its name", first, libc::getsockname);
        println!("its port: {}", own_port(first) == port);
        println!(
            "its peer: {}",
            self::port(first, libc::getpeername) == own_port(a)
        );
        receive("nothing", first, 1, MSG_DONTWAIT);
        ready("connected", first, POLLIN | POLLOUT | POLLRDHUP);
        let b = libc::socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        tell("without waiting", connect(b, family, LOCAL, port));
        wait_for(b, POLLOUT);
        println!("error {}", option(b, SO_ERROR));
        tell("once more", connect(b, family, LOCAL, port));
        tell("and once more", connect(b, family, LOCAL, port));
        let second = accept(server);
        send(second, b"12345", 0);
        wait_for(b, POLLIN);
        receive("peek", b, 3, MSG_PEEK);
        receive("all", b, 10, 0);
        libc::close(server);
        let c = libc::socket(family, SOCK_STREAM, 0);
        tell("nobody there", connect(c, family, LOCAL, port));
        let d = libc::socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        tell("nobody, without waiting", connect(d, family, LOCAL, port));
        wait_for(d, POLLOUT);
        ready("refused", d, POLLIN | POLLOUT | POLLRDHUP);
        println!("error {}", option(d, SO_ERROR) == libc::ECONNREFUSED);
        println!("error {}", option(d, SO_ERROR));
        let e = libc::socket(family, SOCK_STREAM, 0);
        tell("elsewhere", connect(e, family, 0x0808_0808, 80));
        for file in [a, b, c, d, e, first, second] {
            libc::close(file);
        }
        let (server, port) = listener(family, 1);
        let e = libc::socket(family, SOCK_STREAM, 0);
        connect(e, family, LOCAL, port);
        libc::close(server);
        wait_for(e, POLLIN);
        receive("never accepted", e, 1, 0);
        libc::close(e);
    }
}

unsafe fn ends(family: c_int) {
    unsafe {
        let [a, b] = pair(family);
        send(a, b"last", 0);
        tell("no more writing", libc::shutdown(a, libc::SHUT_WR));
        tell("send after it", send(a, b"x", MSG_NOSIGNAL));
        wait_for(b, POLLRDHUP);
        ready("the other end", b, POLLIN | POLLOUT | POLLRDHUP);
        receive("what was sent", b, 10, 0);
        receive("the end", b, 10, 0);
        tell("the other way", send(b, b"back", 0));
        wait_for(a, POLLIN);
        receive("it came", a, 10, 0);
        libc::close(b);
        wait_for(a, POLLIN);
        receive("the end here too", a, 10, 0);
        ready("closed", a, POLLIN | POLLOUT | POLLRDHUP);
        let [a, b] = pair(family);
        libc::close(b);
        wait_for(a, POLLRDHUP);
        tell("the first to a closed end", send(a, b"x", 0));
        tell("the second", send(a, b"x", 0));
        receive("the end", a, 10, 0);
        let [a, b] = pair(family);
        send(a, b"unread", 0);
        wait_for(b, POLLIN);
        libc::close(b);
        wait_for(a, POLLIN);
        ready("closed with unread data", a, POLLIN | POLLOUT | POLLRDHUP);
        receive("reset", a, 10, 0);
        receive("then the end", a, 10, 0);
        tell("no more to send", send(a, b"x", 0));
        let [a, b] = pair(family);
        let at_once = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        tell("no lingering", set(b, SOL_SOCKET, SO_LINGER, at_once));
        libc::close(b);
        wait_for(a, POLLIN);
        tell("send", send(a, b"x", 0));
        tell("send again", send(a, b"x", 0));
        let [a, b] = pair(family);
        tell("no more reading", libc::shutdown(a, libc::SHUT_RD));
        receive("at once", a, 10, 0);
        tell("but sent", send(b, b"x", 0));
        let block = vec![7u8; 8 << 20];
        let [a, b] = pair(family);
        let mut sent = 0;
        loop {
            match send(a, &block, MSG_DONTWAIT) {
                -1 => break,
                count => sent += count,
            }
        }
        println!("it is full some time: {}", sent > 50_000);
        libc::shutdown(a, libc::SHUT_WR);
        let mut total = 0;
        let mut bytes = vec![0u8; 70_000];
        while let count @ 1.. = libc::recv(b, bytes.as_mut_ptr().cast(), bytes.len(), 0) {
            total += count as i64;
        }
        println!("all came: {}", total == sent);
    }
}

unsafe fn datagrams(family: c_int) {
    unsafe {
        let server = libc::socket(family, SOCK_DGRAM, 0);
        tell("bind", bind(server, family, LOCAL, 0));
        let to = own_port(server);
        let a = libc::socket(family, SOCK_DGRAM, 0);
        tell("no destination", send(a, b"x", 0));
        tell("sendto", send_to(a, b"hello", family, LOCAL, to));
        name("a name by sending", a, libc::getsockname);
        tell("empty", send_to(a, b"", family, LOCAL, to));
        tell("long", send_to(a, &[1; 9000], family, LOCAL, to));
        receive("cut off", server, 2, 0);
        receive("empty", server, 10, 0);
        let mut bytes = [0u8; 10];
        let (mut from, mut length) = address(AF_INET, 0, 0);
        length = length.max(28);
        let got = libc::recvfrom(
            server,
            bytes.as_mut_ptr().cast(),
            10,
            libc::MSG_TRUNC,
            (&raw mut from).cast(),
            &mut length,
        );
        let known = u16::from_be(from.sin6_port) == own_port(a);
        println!("recvfrom: {got} from {length} {} {known}", from.sin6_family);
        receive("no more", server, 1, MSG_DONTWAIT);
        tell("too long", send_to(a, &vec![1; 70_000], family, LOCAL, to));
        tell("no port", send_to(a, b"x", family, LOCAL, 0));
        tell("elsewhere", send_to(a, b"x", family, 0x0808_0808, 80));
        tell("connect", connect(a, family, LOCAL, to));
        name("its peer", a, libc::getpeername);
        tell("send", send(a, b"y", 0));
        receive("it came", server, 10, 0);
        let stranger = libc::socket(family, SOCK_DGRAM, 0);
        send_to(stranger, b"z", family, LOCAL, own_port(a));
        receive("not from a stranger", a, 10, MSG_DONTWAIT);
        tell("listen", libc::listen(a, 1));
        ready("idle", a, POLLIN | POLLOUT);
        libc::close(server);
        tell("nobody there", send(a, b"x", 0));
        wait_for(a, POLLIN);
        tell("told at the next", send(a, b"x", 0));
        tell("then sent", send(a, b"x", 0));
        wait_for(a, POLLIN);
        receive("or at a receive", a, 1, MSG_DONTWAIT);
        let (mut none, length) = address(family, 0, 0);
        none.sin6_family = libc::AF_UNSPEC as _;
        tell(
            "disconnect",
            libc::connect(a, (&raw const none).cast(), length),
        );
        name("no peer", a, libc::getpeername);
        libc::close(a);
        libc::close(stranger);
    }
}

/// Receives a datagram and prints the types of its control messages.
unsafe fn headers() {
    unsafe {
        for (family, level, wanted) in [
            (AF_INET, libc::IPPROTO_IP, [8, 12, 13]),
            (AF_INET6, libc::IPPROTO_IPV6, [49, 51, 66]),
        ] {
            let server = libc::socket(family, SOCK_DGRAM, 0);
            bind(server, family, LOCAL, 0);
            for name in wanted {
                tell("asked for", set(server, level, name, 1));
            }
            let client = libc::socket(family, SOCK_DGRAM, 0);
            send_to(client, b"x", family, LOCAL, own_port(server));
            let mut control = [0u64; 32];
            let mut byte = 0u8;
            let mut piece = libc::iovec {
                iov_base: (&raw mut byte).cast(),
                iov_len: 1,
            };
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = 256;
            tell("received", libc::recvmsg(server, &mut message, 0) as i64);
            let mut head = libc::CMSG_FIRSTHDR(&message);
            while !head.is_null() {
                let length = (*head).cmsg_len as usize - 16;
                let data = std::slice::from_raw_parts(libc::CMSG_DATA(head), length);
                println!("{} {} {data:?}", (*head).cmsg_level, (*head).cmsg_type);
                head = libc::CMSG_NXTHDR(&message, head);
            }
            libc::close(server);
            libc::close(client);
        }
    }
}

unsafe fn names() {
    unsafe {
        let (server, port) = listener(AF_INET, 1);
        let a = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("taken", bind(a, AF_INET, LOCAL, port));
        tell("taken for all", bind(a, AF_INET, 0, port));
        set(a, SOL_SOCKET, SO_REUSEADDR, 1);
        tell("taken all the same", bind(a, AF_INET, LOCAL, port));
        tell("another address", bind(a, AF_INET, LOCAL + 1, port));
        tell("twice", bind(a, AF_INET, LOCAL, 0));
        let b = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("not of this machine", bind(b, AF_INET, 0x0a01_0203, 0));
        tell("of another family", bind(b, AF_INET6, LOCAL, 0));
        let (short, _) = address(AF_INET, LOCAL, 0);
        tell("too short", libc::bind(b, (&raw const short).cast(), 8));
        tell("listen without a name", libc::listen(b, 1));
        println!("it has one: {}", own_port(b) != 0);
        let (c, d) = (
            libc::socket(AF_INET, SOCK_STREAM, 0),
            libc::socket(AF_INET, SOCK_STREAM, 0),
        );
        for file in [c, d] {
            set(file, SOL_SOCKET, SO_REUSEADDR, 1);
        }
        tell("shared", bind(c, AF_INET, LOCAL, 0));
        let shared = own_port(c);
        tell("by both", bind(d, AF_INET, LOCAL, shared));
        tell("the first listens", libc::listen(c, 1));
        tell("the second cannot", libc::listen(d, 1));
        let (e, f) = (
            libc::socket(AF_INET, SOCK_STREAM, 0),
            libc::socket(AF_INET, SOCK_STREAM, 0),
        );
        for file in [e, f] {
            set(file, SOL_SOCKET, SO_REUSEPORT, 1);
        }
        bind(e, AF_INET, LOCAL, 0);
        tell("a shared port", bind(f, AF_INET, LOCAL, own_port(e)));
        tell("both listen", libc::listen(e, 1) + libc::listen(f, 1));
        for file in [server, a, b, c, d, e, f] {
            libc::close(file);
        }
        let again = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("free again", bind(again, AF_INET, LOCAL, port));
        libc::close(again);
    }
}

/// An accepted connection keeps its listener's port in use.
unsafe fn kept() {
    unsafe {
        for shares in [0, 1] {
            let make = || {
                let socket = libc::socket(AF_INET, SOCK_STREAM, 0);
                set(socket, SOL_SOCKET, SO_REUSEADDR, shares);
                socket
            };
            let (server, client) = (make(), make());
            bind(server, AF_INET, LOCAL, 0);
            libc::listen(server, 1);
            let port = own_port(server);
            connect(client, AF_INET, LOCAL, port);
            let accepted = accept(server);
            libc::close(server);
            let (again, any) = (make(), make());
            println!("with SO_REUSEADDR {shares}");
            tell("bound again", bind(again, AF_INET, LOCAL, port));
            tell("and any", bind(any, AF_INET, 0, port));
            tell("listens again", libc::listen(again, 1));
            // The end that closes first is in TIME_WAIT, and its port is another.
            libc::close(client);
            libc::close(accepted);
            for file in [again, any] {
                libc::close(file);
            }
            let last = make();
            tell("bound after both", bind(last, AF_INET, LOCAL, port));
            libc::close(last);
        }
    }
}

unsafe fn both() {
    unsafe {
        let server = libc::socket(AF_INET6, SOCK_STREAM, 0);
        tell("all of both", bind(server, AF_INET6, 0, 0));
        libc::listen(server, 5);
        let port = own_port(server);
        let a = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("taken", bind(a, AF_INET, 0, port));
        tell("by IPv4", connect(a, AF_INET, LOCAL, port));
        let accepted = accept(server);
        name("a mapped peer", accepted, libc::getpeername);
        name("a mapped name", accepted, libc::getsockname);
        let b = libc::socket(AF_INET6, SOCK_STREAM, 0);
        tell("by a mapped address", connect(b, AF_INET6, LOCAL + 1, port));
        name("its name", b, libc::getsockname);
        name("its peer", b, libc::getpeername);
        let c = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("by any address", connect(c, AF_INET, 0, port));
        name("its peer", c, libc::getpeername);
        let only = libc::socket(AF_INET6, SOCK_STREAM, 0);
        set(only, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        bind(only, AF_INET6, 0, 0);
        libc::listen(only, 1);
        let d = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("IPv6 only", connect(d, AF_INET, LOCAL, own_port(only)));
        let e = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("the port beside it", bind(e, AF_INET, 0, own_port(only)));
        for file in [server, a, b, c, d, e, only, accepted] {
            libc::close(file);
        }
        side_by_side();
    }
}

/// Two datagram sockets at one port, one for IPv6 only and one for IPv4: each receives its own
/// family's packets.
unsafe fn side_by_side() {
    unsafe {
        let [six, four, other] = [AF_INET6, AF_INET, AF_INET6].map(|family| {
            let file = libc::socket(family, SOCK_DGRAM, 0);
            set(file, SOL_SOCKET, SO_REUSEADDR, 0);
            file
        });
        set(six, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        tell("IPv6 alone", bind(six, AF_INET6, 0, 0));
        let port = own_port(six);
        tell("both at its port", bind(other, AF_INET6, 0, port));
        tell("IPv4 at its port", bind(four, AF_INET, 0, port));
        let sender = libc::socket(AF_INET, SOCK_DGRAM, 0);
        send_to(sender, b"four", AF_INET, LOCAL, port);
        let sender6 = libc::socket(AF_INET6, SOCK_DGRAM, 0);
        send_to(sender6, b"six", AF_INET6, LOCAL, port);
        send_to(sender6, b"mapped", AF_INET6, LOCAL + 1, port);
        for (name, file) in [("IPv6", six), ("IPv4", four), ("IPv4", four)] {
            receive(name, file, 8, MSG_DONTWAIT);
        }
        for file in [six, four, other, sender, sender6] {
            libc::close(file);
        }
    }
}

unsafe fn level(file: c_int, level: c_int, name: c_int) -> c_int {
    let (mut value, mut length) = (0, 4);
    let result =
        unsafe { libc::getsockopt(file, level, name, (&raw mut value).cast(), &mut length) };
    if result == 0 { value } else { -1 }
}

unsafe fn options() {
    unsafe {
        let a = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell("no delay", set(a, IPPROTO_TCP, libc::TCP_NODELAY, 1));
        println!("{}", level(a, IPPROTO_TCP, libc::TCP_NODELAY));
        println!("{}", level(a, IPPROTO_TCP, libc::TCP_KEEPIDLE));
        println!("{}", level(a, libc::IPPROTO_IP, libc::IP_TTL));
        tell("keep alive", set(a, SOL_SOCKET, libc::SO_KEEPALIVE, 1));
        println!("{}", option(a, libc::SO_KEEPALIVE));
        tell("an odd one", set(a, IPPROTO_TCP, 99, 1));
        tell("of IPv6", set(a, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1));
        println!(
            "buffers {} {}",
            option(a, libc::SO_SNDBUF),
            option(a, libc::SO_RCVBUF)
        );
        let b = libc::socket(AF_INET6, SOCK_DGRAM, 0);
        println!("{}", level(b, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY));
        tell("V6ONLY", set(b, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1));
        println!("{}", level(b, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY));
        println!("{}", level(b, IPPROTO_TCP, libc::TCP_NODELAY));
    }
}

unsafe fn interfaces() {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        println!("number {}", libc::if_nametoindex(c"lo".as_ptr()));
        println!("none {}", libc::if_nametoindex(c"eth9".as_ptr()));
        libc::close(file);
        let mut list: *mut libc::ifaddrs = ptr::null_mut();
        tell("getifaddrs", libc::getifaddrs(&mut list));
        let mut at = list;
        while let Some(one) = at.as_ref() {
            let family = one.ifa_addr.as_ref().map_or(0, |address| address.sa_family);
            let up = one.ifa_flags & libc::IFF_UP as u32 != 0;
            let name = std::ffi::CStr::from_ptr(one.ifa_name);
            println!("{name:?} {family} {up}");
            at = one.ifa_next;
        }
        libc::freeifaddrs(list);
    }
}
