//! Events of poll(2) and epoll(7) that few files report: those of urgent data, and similar ones.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_NETLINK, AF_UNIX, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, c_int,
};

use crate::{error, tell};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (what, kind) in [
            ("stream", SOCK_STREAM),
            ("datagrams", SOCK_DGRAM),
            ("records", SOCK_SEQPACKET),
        ] {
            let mut ends = [0; 2];
            libc::socketpair(AF_UNIX, kind, 0, ends.as_mut_ptr());
            look(&format!("Unix {what}"), ends[0]);
            libc::send(ends[1], c"x".as_ptr().cast(), 1, 0);
            look("with data", ends[0]);
            libc::shutdown(ends[1], libc::SHUT_WR);
            look("with an end", ends[0]);
            libc::close(ends[1]);
            look("alone", ends[0]);
            look("not connected", libc::socket(AF_UNIX, kind, 0));
        }
        look("UDP", libc::socket(AF_INET, SOCK_DGRAM, 0));
        look("TCP", libc::socket(AF_INET, SOCK_STREAM, 0));
        look("raw", libc::socket(AF_INET, SOCK_RAW, libc::IPPROTO_ICMP));
        look("netlink", libc::socket(AF_NETLINK, SOCK_RAW, 0));
        listening();
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        look("a pipe's room", ends[1]);
        look("an eventfd", libc::eventfd(1, 0));
        look("a file", libc::open(c"/dev/null".as_ptr(), libc::O_RDWR));
    }
}

/// A TCP listener, and both ends of a connection to it.
unsafe fn listening() {
    unsafe {
        let listener = libc::socket(AF_INET, SOCK_STREAM, 0);
        let mut address: libc::sockaddr_in = mem::zeroed();
        address.sin_family = AF_INET as u16;
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut len = size_of_val(&address) as u32;
        libc::bind(listener, (&raw const address).cast(), len);
        tell("listen", libc::listen(listener, 1));
        libc::getsockname(listener, (&raw mut address).cast(), &mut len);
        look("a listener", listener);
        let one = libc::socket(AF_INET, SOCK_STREAM, 0);
        tell(
            "connect",
            libc::connect(one, (&raw const address).cast(), len),
        );
        look("a listener with one", listener);
        let other = libc::accept(listener, ptr::null_mut(), ptr::null_mut());
        look("connected", one);
        libc::send(other, c"x".as_ptr().cast(), 1, libc::MSG_OOB);
        look("urgent", one);
    }
}

/// Prints the events that poll, epoll and select report for a file, for all and for single events.
unsafe fn look(what: &str, fd: c_int) {
    unsafe {
        let polled = |events: i16| {
            let mut one = libc::pollfd {
                fd,
                events,
                revents: 0,
            };
            libc::poll(&mut one, 1, 0);
            one.revents
        };
        let all = polled(!0);
        let alone = polled(0x200);
        let set = libc::epoll_create1(0);
        let watched = |events: u32| {
            let mut event = libc::epoll_event { events, u64: 0 };
            if libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event) != 0 {
                return error().to_owned();
            }
            event.events = 0;
            libc::epoll_wait(set, &mut event, 1, 0);
            libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, ptr::null_mut());
            format!("{:#x}", { event.events })
        };
        let (every, band) = (watched(0x3fff), watched(0x200));
        libc::close(set);
        println!("{what}: {all:#x}, asked for 0x200 {alone:#x}, epoll {every} and {band}");
    }
}
