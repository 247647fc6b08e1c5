//! Broadcasts on the loopback network: permission to send them, and their receivers.

use libc::{
    AF_INET, AF_INET6, IPPROTO_ICMP, IPPROTO_IP, IPPROTO_RAW, IPPROTO_UDP, MSG_DONTWAIT,
    SO_BROADCAST, SO_REUSEADDR, SO_REUSEPORT, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOL_SOCKET, c_int,
};

use crate::inet::{bind, connect, name, own_port, send_to};
use crate::tell;
use crate::unix::set;

const LOCAL: u32 = 0x7f00_0001;
/// The broadcast address of lo's network, the network itself, and the limited broadcast.
const ALL: u32 = 0x7fff_ffff;
const NETWORK: u32 = 0x7f00_0000;
const LIMITED: u32 = 0xffff_ffff;
const UDP_CORK: c_int = 1;
const UDP_SEGMENT: c_int = 103;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        permission();
        connected();
        corked();
        receivers();
        shared();
        nobody();
        bound();
        streams();
        mapped();
        source();
        raw();
    }
}

unsafe fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    unsafe { libc::socket(family, kind, protocol) }
}

fn allow(file: c_int, on: c_int) {
    tell("SO_BROADCAST", set(file, SOL_SOCKET, SO_BROADCAST, on));
}

/// A datagram socket bound to `ip` and `port`, or to any port for 0.
unsafe fn at(ip: u32, port: u16) -> c_int {
    unsafe {
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        set(file, SOL_SOCKET, SO_REUSEADDR, 1);
        tell("bind", bind(file, AF_INET, ip, port));
        file
    }
}

unsafe fn received(what: &str, file: c_int) {
    unsafe {
        loop {
            let mut bytes = [0u8; 64];
            let count = libc::recv(file, bytes.as_mut_ptr().cast(), bytes.len(), MSG_DONTWAIT);
            tell(what, count as i64);
            if count < 0 {
                return;
            }
        }
    }
}

unsafe fn permission() {
    unsafe {
        println!("permission");
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        for ip in [ALL, NETWORK, LIMITED] {
            println!("{ip:x}");
            tell("port 0", send_to(file, b"x", AF_INET, ip, 0));
            tell("without", send_to(file, b"x", AF_INET, ip, 9));
            tell("nothing", send_to(file, b"", AF_INET, ip, 9));
            println!("has a port: {}", own_port(file) != 0);
            allow(file, 7);
            tell("with", send_to(file, b"x", AF_INET, ip, 9));
            allow(file, 0);
            tell("again without", send_to(file, b"x", AF_INET, ip, 9));
        }
        libc::close(file);
    }
}

/// A connected socket sends without SO_BROADCAST.
unsafe fn connected() {
    unsafe {
        println!("connected");
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        tell("without", connect(file, AF_INET, ALL, 9));
        name("own", file, libc::getsockname);
        allow(file, 1);
        tell("with", connect(file, AF_INET, ALL, 9));
        name("own", file, libc::getsockname);
        name("peer", file, libc::getpeername);
        allow(file, 0);
        tell("send", libc::send(file, b"x".as_ptr().cast(), 1, 0) as i64);
        tell("send to", send_to(file, b"x", AF_INET, ALL, 9));
        tell("another", connect(file, AF_INET, LOCAL, 9));
        tell("back", connect(file, AF_INET, ALL, 9));
        name("peer", file, libc::getpeername);
        libc::close(file);
    }
}

/// The first part of a corked datagram checks the option.
unsafe fn corked() {
    unsafe {
        println!("corked");
        let receiver = at(0, 0);
        let port = own_port(receiver);
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        set(file, IPPROTO_UDP, UDP_CORK, 1);
        tell("without", send_to(file, b"one", AF_INET, ALL, port));
        allow(file, 1);
        tell("with", send_to(file, b"one", AF_INET, ALL, port));
        allow(file, 0);
        tell("more", send_to(file, b"two", AF_INET, ALL, port));
        tell("uncork", set(file, IPPROTO_UDP, UDP_CORK, 0));
        received("received", receiver);
        for file in [receiver, file] {
            libc::close(file);
        }
    }
}

/// Sockets bound to the address or to any receive a copy; connected ones only from their peer.
unsafe fn receivers() {
    unsafe {
        println!("receivers");
        let any = at(0, 0);
        let port = own_port(any);
        let others = [at(0, port), at(ALL, port), at(LOCAL, port), at(0, port)];
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        bind(file, AF_INET, LOCAL, 0);
        tell("a stranger", connect(others[3], AF_INET, LOCAL, port));
        allow(file, 1);
        tell("send", send_to(file, b"to all", AF_INET, ALL, port));
        received("any", any);
        for other in others {
            received("other", other);
        }
        tell(
            "the sender",
            connect(others[0], AF_INET, LOCAL, own_port(file)),
        );
        name("its own", others[0], libc::getsockname);
        tell("send", send_to(file, b"again", AF_INET, ALL, port));
        received("any", any);
        for other in others {
            received("other", other);
        }
        tell("segments of 2", set(file, IPPROTO_UDP, UDP_SEGMENT, 2));
        tell("send", send_to(file, b"apart", AF_INET, ALL, port));
        received("any", any);
        received("bound", others[1]);
        for file in others.into_iter().chain([any, file]) {
            libc::close(file);
        }
    }
}

/// All sockets that share a port by SO_REUSEPORT receive a copy.
unsafe fn shared() {
    unsafe {
        println!("shared");
        let member = |port| {
            let file = socket(AF_INET, SOCK_DGRAM, 0);
            set(file, SOL_SOCKET, SO_REUSEPORT, 1);
            tell("bind", bind(file, AF_INET, 0, port));
            file
        };
        let first = member(0);
        let port = own_port(first);
        let members = [first, member(port), member(port)];
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        allow(file, 1);
        tell("send", send_to(file, b"x", AF_INET, ALL, port));
        for member in members {
            received("member", member);
        }
        for file in members.into_iter().chain([file]) {
            libc::close(file);
        }
    }
}

/// A broadcast without receivers causes no error.
unsafe fn nobody() {
    unsafe {
        println!("nobody");
        let free = at(LOCAL, 0);
        let port = own_port(free);
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        allow(file, 1);
        tell("IP_RECVERR", set(file, IPPROTO_IP, libc::IP_RECVERR, 1));
        tell("connect", connect(file, AF_INET, ALL, port));
        for _ in 0..2 {
            tell("send", libc::send(file, b"x".as_ptr().cast(), 1, 0) as i64);
        }
        received("elsewhere", free);
        for file in [free, file] {
            libc::close(file);
        }
    }
}

/// A socket bound to the broadcast address sends from the machine's own address.
unsafe fn bound() {
    unsafe {
        println!("bound");
        let receiver = at(LOCAL, 0);
        let file = at(ALL, 0);
        name("own", file, libc::getsockname);
        tell(
            "send",
            send_to(file, b"x", AF_INET, LOCAL, own_port(receiver)),
        );
        let mut from: libc::sockaddr_in = std::mem::zeroed();
        let mut length = size_of::<libc::sockaddr_in>() as u32;
        let mut byte = 0u8;
        let count = libc::recvfrom(
            receiver,
            (&raw mut byte).cast(),
            1,
            MSG_DONTWAIT,
            (&raw mut from).cast(),
            &mut length,
        );
        tell("received", count as i64);
        println!("from {:x}", u32::from_be(from.sin_addr.s_addr));
        tell("connect", connect(file, AF_INET, LOCAL, own_port(receiver)));
        name("own", file, libc::getsockname);
        for file in [receiver, file] {
            libc::close(file);
        }
    }
}

/// TCP does not connect to broadcast addresses.
unsafe fn streams() {
    unsafe {
        println!("streams");
        let listener = socket(AF_INET, SOCK_STREAM, 0);
        tell("bind", bind(listener, AF_INET, ALL, 0));
        tell("listen", libc::listen(listener, 1));
        name("listener", listener, libc::getsockname);
        let file = socket(AF_INET, SOCK_STREAM, 0);
        allow(file, 1);
        tell("connect", connect(file, AF_INET, ALL, own_port(listener)));
        tell("its own", connect(file, AF_INET, LOCAL, own_port(listener)));
        libc::close(file);
        let server = socket(AF_INET, SOCK_STREAM, 0);
        tell("bind", bind(server, AF_INET, LOCAL, 0));
        tell("listen", libc::listen(server, 1));
        let file = socket(AF_INET, SOCK_STREAM, 0);
        tell("bind", bind(file, AF_INET, ALL, 0));
        tell("connect", connect(file, AF_INET, LOCAL, own_port(server)));
        name("own", file, libc::getsockname);
        refused();
        for file in [listener, server, file] {
            libc::close(file);
        }
    }
}

/// A refused connection resets the socket to the machine's own address and its port.
unsafe fn refused() {
    unsafe {
        // A port assigned by bind(2) stays.
        let file = socket(AF_INET, SOCK_STREAM, 0);
        let free = (23_000..24_000).find(|&port| bind(file, AF_INET, ALL, port) == 0);
        let port = free.unwrap_or(0);
        tell("bind", port != 0);
        let owner = socket(AF_INET, SOCK_STREAM, 0);
        tell("an owner", bind(owner, AF_INET, LOCAL, port));
        tell("connect", connect(file, AF_INET, LOCAL, 1));
        name("own", file, libc::getsockname);
        tell("listen", libc::listen(file, 1));
        tell("the owner", libc::listen(owner, 1));
        libc::close(owner);
        for ip in [LOCAL, ALL] {
            let other = socket(AF_INET, SOCK_STREAM, 0);
            tell("another", bind(other, AF_INET, ip, port));
            libc::close(other);
        }
        tell("listen", libc::listen(file, 1));
        let client = socket(AF_INET, SOCK_STREAM, 0);
        tell("connect to it", connect(client, AF_INET, LOCAL, port));
        libc::close(client);
        libc::close(file);
    }
}

/// The IPv4-mapped broadcast address, for IPv6 sockets.
unsafe fn mapped() {
    unsafe {
        println!("mapped");
        let receiver = socket(AF_INET6, SOCK_DGRAM, 0);
        tell("bind", bind(receiver, AF_INET6, 0, 0));
        let port = own_port(receiver);
        let file = socket(AF_INET6, SOCK_DGRAM, 0);
        tell("without", send_to(file, b"x", AF_INET6, ALL, port));
        tell("connect", connect(file, AF_INET6, ALL, port));
        allow(file, 1);
        tell("with", send_to(file, b"x", AF_INET6, ALL, port));
        received("received", receiver);
        for file in [receiver, file] {
            libc::close(file);
        }
    }
}

/// Packets neither have the broadcast address as source, nor report it as the local address.
unsafe fn source() {
    unsafe {
        println!("source");
        let receiver = at(0, 0);
        set(receiver, IPPROTO_IP, libc::IP_PKTINFO, 1);
        let file = socket(AF_INET, SOCK_DGRAM, 0);
        allow(file, 1);
        tell(
            "send",
            send_to(file, b"x", AF_INET, ALL, own_port(receiver)),
        );
        let mut byte = 0u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut control = [0u64; 8];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = 64;
        tell(
            "receive",
            libc::recvmsg(receiver, &mut message, MSG_DONTWAIT) as i64,
        );
        let info = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message)).cast::<libc::in_pktinfo>();
        let info = info.read_unaligned();
        for ip in [info.ipi_spec_dst, info.ipi_addr] {
            println!("{:x}", u32::from_be(ip.s_addr));
        }
        // Reuses the message, to send from that address.
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = AF_INET as u16;
        to.sin_port = own_port(receiver).to_be();
        to.sin_addr.s_addr = LOCAL.to_be();
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = 16;
        for ip in [LOCAL, ALL] {
            let data = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message));
            let chosen = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: ip.to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            data.cast::<libc::in_pktinfo>().write_unaligned(chosen);
            tell("send from", libc::sendmsg(file, &message, 0) as i64);
        }
        for file in [receiver, file] {
            libc::close(file);
        }
    }
}

unsafe fn raw() {
    unsafe {
        println!("raw");
        let echo = [8u8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let file = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
        tell("without", send_to(file, &echo, AF_INET, ALL, 0));
        tell("connect", connect(file, AF_INET, ALL, 0));
        allow(file, 1);
        tell("with", send_to(file, &echo, AF_INET, ALL, 0));
        received("the request, unanswered", file);
        tell("connect", connect(file, AF_INET, ALL, 0));
        allow(file, 0);
        tell("send", libc::send(file, echo.as_ptr().cast(), 8, 0) as i64);
        libc::close(file);
        let receiver = at(0, 0);
        let second = at(0, own_port(receiver));
        let mut packet = [0u8; 30];
        packet[0] = 0x45;
        packet[8] = 64;
        packet[9] = IPPROTO_UDP as u8;
        packet[16..20].copy_from_slice(&ALL.to_be_bytes());
        packet[20..22].copy_from_slice(&9u16.to_be_bytes());
        packet[22..24].copy_from_slice(&own_port(receiver).to_be_bytes());
        packet[25] = 10;
        let file = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
        tell("without", send_to(file, &packet, AF_INET, ALL, 0));
        allow(file, 1);
        tell("with", send_to(file, &packet, AF_INET, ALL, 0));
        for receiver in [receiver, second] {
            received("received", receiver);
            libc::close(receiver);
        }
        libc::close(file);
    }
}
