//! UDP-Lite: how much of a datagram its checksum covers; and the control messages of IPv6 sockets
//! about IPv4.

use std::mem;

use libc::{
    AF_INET, AF_INET6, IPPROTO_IPV6, IPPROTO_UDP, MSG_DONTWAIT, SOCK_DGRAM, c_int, socklen_t,
};

use crate::inet::{bind, own_port, send_to};
use crate::tell;
use crate::unix::set;

const LOCAL: u32 = 0x7f00_0001;
const UDP_LITE: c_int = 136;
const SEND_COVERAGE: c_int = 10;
const RECEIVE_COVERAGE: c_int = 11;
const IPV6_RECVPKTINFO: c_int = 49;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        options();
        coverage();
        mapped();
    }
}

unsafe fn get(file: c_int, name: c_int) -> c_int {
    let (mut value, mut size) = (-7, 4 as socklen_t);
    unsafe { libc::getsockopt(file, UDP_LITE, name, (&raw mut value).cast(), &mut size) };
    value
}

unsafe fn options() {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_DGRAM, UDP_LITE);
        for name in [SEND_COVERAGE, RECEIVE_COVERAGE] {
            println!("at first: {}", get(file, name));
            for value in [0, 1, 7, 8, 9, 65535, 65536, -1] {
                tell("set", set(file, UDP_LITE, name, value));
                println!("{value}: {}", get(file, name));
            }
            tell("short", set(file, UDP_LITE, name, 1u16));
        }
        libc::close(file);
        let file = libc::socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
        tell("UDP", set(file, UDP_LITE, SEND_COVERAGE, 8));
        tell("UDP, its level", set(file, IPPROTO_UDP, SEND_COVERAGE, 8));
        libc::close(file);
    }
}

unsafe fn coverage() {
    unsafe {
        for least in [None, Some(0), Some(8), Some(12), Some(20)] {
            let receiver = libc::socket(AF_INET, SOCK_DGRAM, UDP_LITE);
            bind(receiver, AF_INET, LOCAL, 0);
            if let Some(least) = least {
                set(receiver, UDP_LITE, RECEIVE_COVERAGE, least);
            }
            let sender = libc::socket(AF_INET, SOCK_DGRAM, UDP_LITE);
            for sent in [0, 8, 12, 18, 20, 1000] {
                set(sender, UDP_LITE, SEND_COVERAGE, sent);
                let port = own_port(receiver);
                tell("send", send_to(sender, b"0123456789", AF_INET, LOCAL, port));
                let mut bytes = [0u8; 16];
                let got = libc::recv(receiver, bytes.as_mut_ptr().cast(), 16, MSG_DONTWAIT);
                println!("{least:?}, {sent}: {got}");
            }
            libc::close(sender);
            libc::close(receiver);
        }
    }
}

/// IPV6_PKTINFO of an IPv4 datagram.
unsafe fn mapped() {
    unsafe {
        let receiver = libc::socket(AF_INET6, SOCK_DGRAM, 0);
        bind(receiver, AF_INET6, 0, 0);
        tell("option", set(receiver, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
        let sender = libc::socket(AF_INET, SOCK_DGRAM, 0);
        tell(
            "send",
            send_to(sender, b"x", AF_INET, LOCAL, own_port(receiver)),
        );
        let mut byte = 0u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut control = [0u64; 16];
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = 128;
        tell(
            "receive",
            libc::recvmsg(receiver, &mut message, MSG_DONTWAIT) as i64,
        );
        let mut at = libc::CMSG_FIRSTHDR(&message);
        while !at.is_null() {
            let data =
                std::slice::from_raw_parts(libc::CMSG_DATA(at), (*at).cmsg_len as usize - 16);
            println!("{} {}: {data:?}", (*at).cmsg_level, (*at).cmsg_type);
            at = libc::CMSG_NXTHDR(&message, at);
        }
        libc::close(sender);
        libc::close(receiver);
    }
}
