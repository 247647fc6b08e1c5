//! Netlink: requests about the interface, acknowledgements, and socket options; and ioctl(2)
//! requests with the same purpose.

use std::{fs, mem, ptr};

use libc::{
    AF_INET, AF_NETLINK, AF_UNSPEC, IFF_LOOPBACK, IFF_RUNNING, IFF_UP, MSG_DONTWAIT, MSG_TRUNC,
    SO_PASSCRED, SO_RCVBUF, SO_SNDBUF, SOCK_DGRAM, SOCK_RAW, SOL_SOCKET, c_int, c_ulong,
    sockaddr_nl, socklen_t,
};

use crate::unix::{send, send_with, set};
use crate::{in_child, tell, tell_end};

const SOL_NETLINK: c_int = 270;
const ADD: c_int = 1;
const DROP: c_int = 2;
const LIST: c_int = 9;
const CAP_ACK: c_int = 10;
/// Flags of messages.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const ASK: u16 = REQUEST | ACK;
const REPLACE: u16 = 0x100;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;
/// Types of messages.
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDR: u16 = 20;
const GET_ROUTE: u16 = 26;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        links();
        addresses();
        routes();
        acknowledged();
        switches();
        groups();
        beside();
        operations();
        ports();
        groups_reached();
        tell_end("user", in_child(|| user()));
        tell_end("user's ports", in_child(|| user_ports()));
    }
}

unsafe fn socket() -> c_int {
    unsafe { libc::socket(AF_NETLINK, SOCK_RAW, 0) }
}

/// A request's body: `struct ifinfomsg`, and the name of an interface if that is not empty.
fn link(index: c_int, flags: u32, change: u32, name: &str) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [index as u32, flags, change] {
        body.extend(word.to_ne_bytes());
    }
    if !name.is_empty() {
        put(&mut body, 3, format!("{name}\0").as_bytes());
    }
    body
}

fn put(body: &mut Vec<u8>, kind: u16, data: &[u8]) {
    body.extend((4 + data.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends a request, and prints the types of the replies, and the error or the index in them.
unsafe fn ask(file: c_int, what: &str, kind: u16, flags: u16, body: &[u8]) {
    let mut bytes = Vec::new();
    bytes.extend((16 + body.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(body);
    unsafe { libc::send(file, bytes.as_ptr().cast(), bytes.len(), 0) };
    let mut line = format!("{what}:");
    let mut reply = [0u8; 8192];
    loop {
        let room = reply.len();
        let to = reply.as_mut_ptr().cast();
        let got = unsafe { libc::recv(file, to, room, MSG_DONTWAIT) };
        let Ok(got) = usize::try_from(got) else { break };
        let mut rest = &reply[..got];
        while rest.len() >= 20 {
            let half = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
            let word = |at: usize| i32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
            let (len, kind) = (word(0) as usize, half(4));
            match kind {
                2 => line += &format!(" [error {} length {len} flags {:x}]", word(16), half(6)),
                3 => line += " [done]",
                kind => line += &format!(" [kind {kind} index {}]", word(20)),
            }
            rest = &rest[len.clamp(16, rest.len())..];
        }
    }
    println!("{line}");
}

/// Requests that name the interface, another one, or none.
unsafe fn links() {
    unsafe {
        let file = socket();
        for (what, index, name) in [
            ("index 1", 1, ""),
            ("index 77", 77, ""),
            ("name lo", 0, "lo"),
            ("name eth0", 0, "eth0"),
            ("index 1 and a name", 1, "eth0"),
            ("nothing", 0, ""),
            ("below 0", -1, ""),
        ] {
            println!("{what}");
            ask(file, "  get", GET_LINK, ASK, &link(index, 0, 0, name));
            if name != "eth0" || index != 1 {
                ask(file, "  set", SET_LINK, ASK, &link(index, 0, 0, name));
                ask(file, "  new", NEW_LINK, ASK, &link(index, 0, 0, name));
            }
            ask(file, "  delete", DEL_LINK, ASK, &link(index, 0, 0, name));
        }
        ask(file, "short", GET_LINK, ASK, &[0; 8]);
        ask(file, "up", NEW_LINK, ASK, &link(1, 1, 1, ""));
        ask(file, "up alone", NEW_LINK, REQUEST, &link(1, 1, 1, ""));
        ask(file, "set up", SET_LINK, ASK, &link(0, 1, 1, "lo"));
        let exclusive = ASK | CREATE | EXCL;
        ask(
            file,
            "lo once more",
            NEW_LINK,
            exclusive,
            &link(1, 1, 1, ""),
        );
        ask(
            file,
            "in its place",
            NEW_LINK,
            ASK | REPLACE,
            &link(1, 1, 1, ""),
        );
        let mut body = link(0, 0, 0, "eth7");
        ask(file, "no kind", NEW_LINK, ASK | CREATE, &body);
        let mut kind = Vec::new();
        put(&mut kind, 1, b"nokind");
        put(&mut body, 18, &kind);
        ask(file, "an odd kind", NEW_LINK, exclusive, &body);
        ask(file, "an odd kind alone", NEW_LINK, exclusive & !ACK, &body);
        ask(file, "dump", GET_LINK, ASK | 0x300, &link(0, 0, 0, ""));
        ask(
            file,
            "half a dump",
            GET_LINK,
            REQUEST | 0x200,
            &link(0, 0, 0, ""),
        );
        libc::close(file);
    }
}

/// A new address that exists already, on this interface or another.
unsafe fn addresses() {
    unsafe {
        let file = socket();
        let address = |bits: u8, index: u32, kinds: &[u16]| {
            let mut body = vec![AF_INET as u8, bits, 0, 0];
            body.extend(index.to_ne_bytes());
            for &kind in kinds {
                put(&mut body, kind, &[127, 0, 0, 1]);
            }
            body
        };
        let flags = ASK | CREATE | EXCL;
        for (what, body) in [
            ("the same", address(8, 1, &[1, 2])),
            ("elsewhere", address(8, 99, &[1, 2])),
            ("not local", address(8, 1, &[1])),
            ("too many bits", address(33, 1, &[1, 2])),
            ("short", vec![AF_INET as u8, 8, 0, 0]),
        ] {
            ask(file, what, NEW_ADDR, flags, &body);
        }
        libc::close(file);
    }
}

/// Routes to addresses of the interface: the second number is `struct rtmsg`'s table, protocol,
/// scope and type.
unsafe fn routes() {
    unsafe {
        let file = socket();
        for last in [1, 2, 255] {
            let mut body = vec![AF_INET as u8, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            put(&mut body, 1, &[127, last, last, last]);
            ask(file, "a route", GET_ROUTE, REQUEST, &body);
        }
        libc::close(file);
    }
}

/// The requests that are acknowledged, and how much of them comes back.
unsafe fn acknowledged() {
    unsafe {
        let file = socket();
        ask(file, "no request", GET_LINK, 0, &link(1, 0, 0, ""));
        ask(file, "no request, asked", GET_LINK, ACK, &link(1, 0, 0, ""));
        ask(file, "control", 5, ASK, &[0; 4]);
        for on in [0, 1, 0] {
            tell("short", set(file, SOL_NETLINK, CAP_ACK, on));
            ask(file, "done", SET_LINK, ASK, &link(1, 0, 0, ""));
            ask(file, "failed", GET_LINK, ASK, &link(9, 0, 0, "odd"));
        }
        libc::close(file);
    }
}

/// The value of an option in hexadecimal, cut off at `room` bytes.
unsafe fn value(file: c_int, name: c_int, room: socklen_t) -> String {
    let (mut bytes, mut length) = ([0xeeu8; 16], room);
    let to = bytes.as_mut_ptr().cast();
    match unsafe { libc::getsockopt(file, SOL_NETLINK, name, to, &mut length) } {
        0 => {
            let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{length} {}", &shown[..16])
        }
        _ => crate::error().to_string(),
    }
}

/// Boolean options.
unsafe fn switches() {
    unsafe {
        let file = socket();
        for name in [0, 3, 4, 5, 10, 11, 13, 99] {
            println!("option {name}: {}", value(file, name, 4));
            for given in [1, 7, -1, 0] {
                tell("  set", set(file, SOL_NETLINK, name, given));
                println!("  {given}: {}", value(file, name, 4));
            }
            set(file, SOL_NETLINK, name, 1);
            tell("  set short", set(file, SOL_NETLINK, name, 1u8));
            println!("  {}", value(file, name, 4));
            println!("  room of 3: {}", value(file, name, 3));
            println!("  room of 8: {}", value(file, name, 8));
        }
        tell("another level", set(file, 271, 3, 1));
        let (mut byte, mut length) = (0u8, 4);
        let got = libc::getsockopt(file, 271, 3, (&raw mut byte).cast(), &mut length);
        tell("another level", got);
        libc::close(file);
    }
}

fn address(port: u32, groups: u32) -> sockaddr_nl {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = AF_NETLINK as _;
    address.nl_pid = port;
    address.nl_groups = groups;
    address
}

unsafe fn bind(file: c_int, port: u32, groups: u32) -> c_int {
    let address = address(port, groups);
    let length = mem::size_of_val(&address) as socklen_t;
    unsafe { libc::bind(file, (&raw const address).cast(), length) }
}

/// Prints the groups that a socket has joined, from three sources.
unsafe fn tell_groups(file: c_int, protocol: c_int) {
    let mut name = address(0, 0);
    let mut length = mem::size_of_val(&name) as socklen_t;
    unsafe { libc::getsockname(file, (&raw mut name).cast(), &mut length) };
    let text = fs::read_to_string("/proc/net/netlink").unwrap_or_default();
    let listed = text.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let own = words.get(1..3)? == [protocol.to_string(), name.nl_pid.to_string()];
        own.then(|| words[3].to_string())
    });
    println!("  groups {:x} {listed:?}", name.nl_groups);
    println!("  list {}", unsafe { value(file, LIST, 16) });
}

/// Membership of groups.
unsafe fn groups() {
    unsafe {
        for protocol in [0, 4, 15] {
            println!("protocol {protocol}");
            let file = libc::socket(AF_NETLINK, SOCK_DGRAM, protocol);
            println!("  list {}", value(file, LIST, 16));
            tell("bind", bind(file, 0, 0x11));
            tell_groups(file, protocol);
            for group in [2, 30, 32, 33, 36, 37, 64, 65, 0] {
                tell("add", set(file, SOL_NETLINK, ADD, group));
            }
            tell_groups(file, protocol);
            for room in [0, 3, 4, 6, 8] {
                println!("  room of {room}: {}", value(file, LIST, room));
            }
            for group in [1, 33, 34, 0] {
                tell("drop", set(file, SOL_NETLINK, DROP, group));
            }
            tell_groups(file, protocol);
            tell("bind elsewhere", bind(file, 77_777, 4));
            let own = libc::getpid() as u32;
            tell("bind", bind(file, own, 4));
            tell_groups(file, protocol);
            tell("bind", bind(file, own, 0));
            tell_groups(file, protocol);
            libc::close(file);
        }
    }
}

/// The control messages that accompany a message.
unsafe fn beside() {
    unsafe {
        let file = socket();
        tell("information", set(file, SOL_NETLINK, 3, 1));
        tell("credentials", set(file, SOL_SOCKET, SO_PASSCRED, 1));
        let mut request = Vec::new();
        request.extend(32u32.to_ne_bytes());
        request.extend([GET_LINK as u8, 0, REQUEST as u8, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        request.extend(link(1, 0, 0, ""));
        let sent = libc::send(file, request.as_ptr().cast(), request.len(), 0);
        tell("sent", sent as i64);
        let (mut bytes, mut control) = ([0u8; 4096], [0u64; 32]);
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut name = address(9, 9);
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = mem::size_of_val(&name) as _;
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        let got = libc::recvmsg(file, &mut message, MSG_DONTWAIT);
        println!("got: {}", got > 0);
        println!("from {} {}", name.nl_pid, name.nl_groups);
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while !head.is_null() {
            let one = &*head;
            let data = libc::CMSG_DATA(head);
            let len = one.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let words: Vec<_> = (0..len / 4)
                .map(|at| ptr::read_unaligned(data.cast::<i32>().add(at)))
                .collect();
            println!("{} {}: {words:?}", one.cmsg_level, one.cmsg_type);
            head = libc::CMSG_NXTHDR(&message, head);
        }
        libc::close(file);
    }
}

/// Makes a request for an interface, with 16 bytes after its name.
unsafe fn operation(what: &str, request: c_ulong, name: &str, given: [u8; 16]) {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
        let mut bytes = [0u8; 40];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[16..32].copy_from_slice(&given);
        tell(what, libc::ioctl(file, request as _, bytes.as_mut_ptr()));
        libc::close(file);
    }
}

fn flags(flags: c_int) -> [u8; 16] {
    let mut given = [0; 16];
    given[..2].copy_from_slice(&(flags as u16).to_ne_bytes());
    given
}

fn v4(family: c_int, address: [u8; 4]) -> [u8; 16] {
    let mut given = [0; 16];
    given[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    given[4..8].copy_from_slice(&address);
    given
}

/// Requests that read settings.
unsafe fn operations() {
    const SIOCSIFFLAGS: c_ulong = 0x8914;
    const SIOCSIFADDR: c_ulong = 0x8916;
    const SIOCSIFNETMASK: c_ulong = 0x891c;
    unsafe {
        let up = flags(IFF_UP | IFF_LOOPBACK | IFF_RUNNING);
        let own = v4(AF_INET, [127, 0, 0, 1]);
        let mask = v4(AF_INET, [255, 0, 0, 0]);
        for name in ["lo", "eth0"] {
            println!("{name}");
            operation("up", SIOCSIFFLAGS, name, up);
            operation("address", SIOCSIFADDR, name, own);
            operation("mask", SIOCSIFNETMASK, name, mask);
            operation("odd address", SIOCSIFADDR, name, v4(7, [127, 0, 0, 1]));
            operation("odd mask", SIOCSIFNETMASK, name, v4(7, [255, 0, 0, 0]));
        }
    }
}

/// The same by a user who may change nothing.
unsafe fn user() {
    unsafe {
        libc::setresuid(1000, 1000, 1000);
        operations();
        let file = socket();
        ask(file, "get", GET_LINK, ASK, &link(1, 0, 0, ""));
        ask(file, "set up", SET_LINK, ASK, &link(1, 1, 1, ""));
        ask(file, "down", NEW_LINK, ASK, &link(1, 0, 1, ""));
        ask(file, "down elsewhere", NEW_LINK, ASK, &link(99, 0, 1, ""));
        ask(
            file,
            "new",
            NEW_LINK,
            ASK | CREATE | EXCL,
            &link(0, 0, 0, "eth7"),
        );
        ask(file, "delete", DEL_LINK, ASK, &link(99, 0, 0, ""));
        for group in [1, 29, 30, 31, 32] {
            tell("add", set(file, SOL_NETLINK, ADD, group));
        }
        tell("bind", bind(file, 0, 1 << 29));
        tell("bind", bind(file, 0, 1 << 28));
        libc::close(file);
    }
}

/// Ports that are no process ID.
const PORTS: [u32; 3] = [0x4000_0001, 0x4000_0002, 0x4000_0003];
const NOBODY: u32 = 0x4000_0099;

/// A socket of `protocol` bound to this port and these groups.
unsafe fn at(protocol: c_int, port: u32, groups: u32) -> c_int {
    unsafe {
        let file = libc::socket(AF_NETLINK, SOCK_RAW, protocol);
        tell("bind", bind(file, port, groups));
        file
    }
}

unsafe fn connect(file: c_int, name: &sockaddr_nl, length: usize) -> c_int {
    unsafe { libc::connect(file, (&raw const *name).cast(), length as socklen_t) }
}

unsafe fn send_to(file: c_int, bytes: &[u8], name: &sockaddr_nl, length: usize) -> i64 {
    let (from, to) = (bytes.as_ptr().cast(), (&raw const *name).cast());
    let length = length as socklen_t;
    unsafe { libc::sendto(file, from, bytes.len(), MSG_DONTWAIT, to, length) as i64 }
}

unsafe fn tell_peer(file: c_int) {
    let mut name = address(9, 9);
    let mut length = mem::size_of_val(&name) as socklen_t;
    let result = unsafe { libc::getpeername(file, (&raw mut name).cast(), &mut length) };
    match result {
        0 => println!("  peer {length} {:x} {:x}", name.nl_pid, name.nl_groups),
        _ => tell("  peer", result),
    }
}

/// Prints the queued messages: their first bytes, their senders, and their control messages.
unsafe fn tell_waiting(what: &str, file: c_int) {
    loop {
        let (mut bytes, mut control) = ([0u8; 16], [0u64; 32]);
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut name = address(9, 9);
        // SAFETY: every pointer passed is to a live value of the right type.
        unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_name = (&raw mut name).cast();
            message.msg_namelen = mem::size_of_val(&name) as _;
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = mem::size_of_val(&control) as _;
            let got = libc::recvmsg(file, &mut message, MSG_DONTWAIT | MSG_TRUNC);
            if got < 0 {
                return println!("  {what}: {}", crate::error());
            }
            let shown = &bytes[..(got as usize).min(4)];
            let (port, groups) = (name.nl_pid, name.nl_groups);
            let own = port == libc::getpid() as u32;
            let port = if own {
                "own".into()
            } else {
                format!("{port:x}")
            };
            print!("  {what}: {got} {shown:?} from {port} {groups:x}");
            let mut head = libc::CMSG_FIRSTHDR(&message);
            while !head.is_null() {
                let one = &*head;
                let words = (one.cmsg_len as usize - libc::CMSG_LEN(0) as usize) / 4;
                let data = libc::CMSG_DATA(head).cast::<u32>();
                print!(" {} {}:", one.cmsg_level, one.cmsg_type);
                for at in 0..words {
                    match ptr::read_unaligned(data.add(at)) {
                        own if own == libc::getpid() as u32 => print!(" own"),
                        word => print!(" {word:x}"),
                    }
                }
                head = libc::CMSG_NXTHDR(&message, head);
            }
            println!();
        }
    }
}

/// Messages between sockets, and to a port that nobody has.
unsafe fn ports() {
    const WHOLE: usize = mem::size_of::<sockaddr_nl>();
    unsafe {
        for protocol in [0, 4, 15] {
            println!("ports of protocol {protocol}");
            let [a, b] = [PORTS[0], PORTS[1]].map(|port| at(protocol, port, 0));
            set(b, SOL_NETLINK, 3, 1);
            set(b, SOL_SOCKET, SO_PASSCRED, 1);
            tell_peer(a);
            let there = address(PORTS[1], 0);
            tell("send", send_to(a, b"to b", &there, WHOLE));
            tell("send more", send_to(a, &[7; 5000], &there, WHOLE));
            tell_waiting("b", b);
            tell("to nobody", send_to(a, b"none", &address(NOBODY, 0), WHOLE));
            tell(
                "to itself",
                send_to(a, b"self", &address(PORTS[0], 0), WHOLE),
            );
            tell_waiting("a", a);
            for length in [0, 1, 2, 11, 13, 100] {
                let mut long = [0u8; 128];
                ptr::copy_nonoverlapping((&raw const there).cast(), long.as_mut_ptr(), WHOLE);
                let name = (&raw const long).cast::<sockaddr_nl>();
                tell(
                    &format!("send {length}"),
                    send_to(a, b"abcd", &*name, length),
                );
                tell_waiting("b", b);
                tell(&format!("connect {length}"), connect(a, &*name, length));
                tell_peer(a);
                tell("send", send(a, b"defg", MSG_DONTWAIT));
                tell_waiting("b", b);
            }
            for family in [AF_UNSPEC, AF_INET] {
                let mut other = address(PORTS[1], 0);
                other.nl_family = family as _;
                println!("family {family}");
                tell("connect", connect(a, &there, WHOLE));
                tell("send", send_to(a, b"abcd", &other, WHOLE));
                tell("connect", connect(a, &other, WHOLE));
                tell_peer(a);
                tell("connect shorter", connect(a, &other, 2));
                tell_waiting("b", b);
            }
            // A connected socket receives from its peer and from the kernel.
            tell("connect b", connect(b, &address(PORTS[2], 0), WHOLE));
            tell_peer(b);
            tell("send", send_to(a, b"abcd", &there, WHOLE));
            let c = at(protocol, PORTS[2], 0);
            tell("send", send_to(c, b"from", &there, WHOLE));
            tell_waiting("b", b);
            tell("to the kernel", connect(b, &address(0, 0), WHOLE));
            tell("send", send_to(a, b"abcd", &there, WHOLE));
            tell_peer(b);
            tell("to groups", connect(b, &address(0, 0x14), WHOLE));
            tell_peer(b);
            for file in [a, b, c] {
                libc::close(file);
            }
            let fresh = libc::socket(AF_NETLINK, SOCK_RAW, protocol);
            tell("connect", connect(fresh, &address(NOBODY, 0), WHOLE));
            tell("send", send(fresh, b"none", 0));
            tell("nothing", send(fresh, b"", 0));
            tell("bind", bind(fresh, PORTS[0], 0));
            libc::close(fresh);
            let fresh = libc::socket(AF_NETLINK, SOCK_RAW, protocol);
            tell("send", send(fresh, b"kernel", 0));
            tell_waiting("answer", fresh);
            for kind in [1, 2, 3, 4, 37] {
                let none = (-1i32).to_ne_bytes();
                let sent = send_with(fresh, b"rights", (SOL_SOCKET, kind), &none);
                tell(&format!("control message {kind}"), sent);
            }
            let claimed = [libc::getpid(), 0, 0].map(i32::to_ne_bytes).concat();
            let sent = send_with(fresh, b"kernel", (SOL_SOCKET, 2), &claimed);
            tell("credentials", sent);
            let sent = send_with(fresh, b"kernel", (SOL_NETLINK, 3), &claimed);
            tell("another level", sent);
            libc::close(fresh);
            full(protocol);
        }
    }
}

/// How much a socket that does not read can be sent, and the largest possible message.
unsafe fn full(protocol: c_int) {
    unsafe {
        let [a, b] = [PORTS[0], PORTS[1]].map(|port| at(protocol, port, 0));
        let there = address(PORTS[1], 0);
        let whole = mem::size_of_val(&there);
        set(a, SOL_SOCKET, SO_SNDBUF, 20_000);
        set(b, SOL_SOCKET, SO_RCVBUF, 4000);
        for length in [39_968, 39_969, 100_000] {
            tell(
                &format!("a message of {length}"),
                send_to(a, &vec![1; length], &there, whole),
            );
            tell("another", send_to(a, b"more", &there, whole));
            tell_waiting("b", b);
        }
        let sent = (0..1000).take_while(|_| send_to(a, &[2; 1000], &there, whole) == 1000);
        println!("few sent: {}", (2..9).contains(&sent.count()));
        let mut word = [0u8; 1000];
        libc::recv(b, word.as_mut_ptr().cast(), 1000, MSG_DONTWAIT);
        let got = libc::recv(b, word.as_mut_ptr().cast(), 1000, MSG_DONTWAIT);
        println!("got: {got}");
        tell("sent after", send_to(a, &[2; 100], &there, whole));
        libc::close(a);
        libc::close(b);
    }
}

/// Messages to groups.
unsafe fn groups_reached() {
    unsafe {
        for protocol in [0, 15] {
            println!("groups of protocol {protocol}");
            let a = at(protocol, PORTS[0], 1);
            let b = at(protocol, PORTS[1], 1);
            let c = at(protocol, PORTS[2], 6);
            for file in [a, b, c] {
                set(file, SOL_NETLINK, 3, 1);
            }
            for (port, groups) in [(0, 1), (0, 2), (0, 3), (0, 4), (PORTS[1], 1), (NOBODY, 4)] {
                let there = address(port, groups);
                let sent = send_to(a, b"abcd", &there, mem::size_of_val(&there));
                tell(&format!("send {port:x} {groups:x}"), sent);
                for (what, file) in [("a", a), ("b", b), ("c", c)] {
                    tell_waiting(what, file);
                }
            }
            // A socket that does not read gets an error for lost messages.
            set(b, SOL_SOCKET, SO_RCVBUF, 4000);
            let there = address(0, 1);
            for _ in 0..20 {
                send_to(a, &[0; 1000], &there, mem::size_of_val(&there));
            }
            let mut word = [0u8; 4];
            let got = libc::recv(b, word.as_mut_ptr().cast(), 4, MSG_DONTWAIT);
            tell("overrun", got as i64);
            let got = libc::recv(b, word.as_mut_ptr().cast(), 4, MSG_DONTWAIT);
            tell("then", got as i64);
            for file in [a, b, c] {
                libc::close(file);
            }
        }
    }
}

/// The same by a user who may send only to the kernel.
unsafe fn user_ports() {
    unsafe {
        libc::setresuid(1000, 1000, 1000);
        for protocol in [0, 4, 15] {
            let [a, b] = [PORTS[0], PORTS[1]].map(|port| at(protocol, port, 0));
            for (port, groups) in [(0, 0), (PORTS[1], 0), (NOBODY, 0), (0, 1), (4, 8)] {
                let there = address(port, groups);
                let length = mem::size_of_val(&there);
                println!("{port:x} {groups:x}");
                tell("send", send_to(a, b"abcd", &there, length));
                tell("connect", connect(a, &there, length));
                tell("short", send_to(a, b"abcd", &there, 11));
                tell("connect short", connect(a, &there, 11));
            }
            libc::close(a);
            libc::close(b);
        }
    }
}
