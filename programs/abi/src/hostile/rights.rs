//! Descriptors in flight: cycles of sockets that no program can receive, and a user's limit on
//! descriptors in flight.

use std::mem;
use std::ptr;

use libc::{
    AF_UNIX, MSG_DONTWAIT, MSG_PEEK, POLLHUP, RLIMIT_NOFILE, SCM_RIGHTS, SOCK_DGRAM,
    SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, c_int, sockaddr_un, socklen_t,
};

use super::USER;
use crate::unix::pair;
use crate::{in_child, tell, tell_end};

/// The maximum number of descriptors in a message, and the limit on open files here.
const MOST: usize = 253;
const LIMIT: u64 = 1024;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let limit = libc::rlimit {
            rlim_cur: LIMIT,
            rlim_max: LIMIT,
        };
        tell("limit", libc::setrlimit(RLIMIT_NOFILE, &limit));
        circles();
        reachable();
        let status = in_child(leaked);
        tell_end("the user", status);
        let status = in_child(kept);
        tell_end("root", status);
    }
}

fn become_user() {
    // SAFETY: these calls take only numbers.
    unsafe {
        libc::setgid(USER);
        libc::setuid(USER);
    }
}

/// Sends a byte and descriptors.
fn send(file: c_int, files: &[c_int]) -> isize {
    let mut control = [0u64; (16 + MOST * 4).div_ceil(8)];
    let mut byte = b'x';
    let mut piece = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: the message's pointers are to live values, and the control message fits.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of_val(files) as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = SOL_SOCKET;
        (*head).cmsg_type = SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(mem::size_of_val(files) as u32) as _;
        let to = libc::CMSG_DATA(head).cast();
        ptr::copy_nonoverlapping(files.as_ptr(), to, files.len());
        libc::sendmsg(file, &message, MSG_DONTWAIT)
    }
}

/// Receives up to four descriptors.
fn receive(file: c_int, flags: c_int) -> Vec<c_int> {
    let mut control = [0u64; 4];
    let mut byte = 0u8;
    let mut piece = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: as in `send`.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        if libc::recvmsg(file, &mut message, flags | MSG_DONTWAIT) != 1 {
            return Vec::new();
        }
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null() {
            return Vec::new();
        }
        let count = ((*head).cmsg_len as usize - 16) / 4;
        let data = libc::CMSG_DATA(head).cast::<c_int>();
        (0..count).map(|at| *data.add(at)).collect()
    }
}

fn close(files: &[c_int]) {
    for &file in files {
        // SAFETY: only closes a descriptor.
        unsafe { libc::close(file) };
    }
}

/// A pipe: its read end hangs up when nobody has the write end any more.
fn pipe() -> [c_int; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

fn is_hung_up(reader: c_int, wait: c_int) -> bool {
    let mut asked = libc::pollfd {
        fd: reader,
        events: 0,
        revents: 0,
    };
    // SAFETY: the array has one entry.
    unsafe { libc::poll(&mut asked, 1, wait) == 1 && asked.revents & POLLHUP != 0 }
}

/// Prints whether files in a cycle are freed; closing other sockets triggers that.
fn tell_end_of(what: &str, reader: c_int) {
    let gone = (0..500).any(|_| {
        close(&pair(SOCK_STREAM));
        is_hung_up(reader, 20)
    });
    println!("{what}: {}", if gone { "ends" } else { "stays" });
    close(&[reader]);
}

fn address(name: &[u8]) -> (sockaddr_un, socklen_t) {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = AF_UNIX as _;
    for (to, &from) in address.sun_path.iter_mut().zip(name) {
        *to = from as _;
    }
    (address, 2 + name.len() as socklen_t)
}

/// A listener, and a socket that is connected to it but not accepted.
unsafe fn waiting(name: &[u8]) -> [c_int; 2] {
    unsafe {
        let (address, length) = address(name);
        let listener = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        libc::bind(listener, (&raw const address).cast(), length);
        libc::listen(listener, 4);
        let client = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell(
            "connect",
            libc::connect(client, (&raw const address).cast(), length),
        );
        [listener, client]
    }
}

/// Cycles of all kinds are freed once none of their sockets is open.
unsafe fn circles() {
    unsafe {
        for (name, kind) in [
            ("a stream in itself", SOCK_STREAM),
            ("datagrams in themselves", SOCK_DGRAM),
            ("records in themselves", SOCK_SEQPACKET),
        ] {
            let ([a, b], [reader, writer]) = (pair(kind), pipe());
            send(a, &[a, b, writer]);
            close(&[a, b, writer]);
            tell_end_of(name, reader);
        }
        let ([a, b], [c, d], [reader, writer]) = (pair(SOCK_STREAM), pair(SOCK_STREAM), pipe());
        send(a, &[d, writer]);
        send(c, &[b]);
        close(&[a, b, c, d, writer]);
        tell_end_of("one in another", reader);
        let ends: Vec<[c_int; 2]> = (0..100).map(|_| pair(SOCK_DGRAM)).collect();
        let [reader, writer] = pipe();
        for (at, [a, _]) in ends.iter().enumerate() {
            send(*a, &[ends[(at + 1) % ends.len()][1]]);
        }
        send(ends[0][0], &[writer]);
        close(&[writer]);
        ends.iter().for_each(|ends| close(ends));
        tell_end_of("a hundred in a ring", reader);
        let [listener, client] = waiting(b"\0abi-circle");
        let [reader, writer] = pipe();
        send(client, &[listener, client, writer]);
        close(&[listener, client, writer]);
        tell_end_of("one that listens, in what it would accept", reader);
        let epoll = libc::epoll_create1(0);
        let ([a, b], [reader, writer]) = (pair(SOCK_STREAM), pipe());
        let mut event = libc::epoll_event { events: 1, u64: 0 };
        libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, a, &mut event);
        libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, b, &mut event);
        let pidfd = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int;
        send(a, &[a, b, epoll, writer]);
        send(b, &[pidfd, epoll]);
        close(&[a, b, epoll, pidfd, writer]);
        tell_end_of("with an epoll and a pidfd", reader);
    }
}

/// Files that somebody can still receive stay open.
unsafe fn reachable() {
    unsafe {
        let ([a, b], [c, d], [reader, writer]) = (pair(SOCK_STREAM), pair(SOCK_STREAM), pipe());
        // The cycle of `a` and `b` waits in `d`, which is open.
        send(a, &[a, b, writer]);
        send(c, &[b]);
        close(&[a, b, c, writer]);
        for _ in 0..20 {
            close(&pair(SOCK_STREAM));
        }
        println!("gone too early: {}", is_hung_up(reader, 100));
        let seen = receive(d, MSG_PEEK);
        println!("looked at: {}", seen.len());
        close(&seen);
        let got = receive(d, 0);
        println!("received: {}", got.len());
        let held = receive(got[0], 0);
        println!("from what was received: {}", held.len());
        close(&held);
        close(&got);
        println!("nobody has it: {}", is_hung_up(reader, 60_000));
        close(&[reader, d]);
        // An accepted connection holds what was sent before.
        let [listener, client] = waiting(b"\0abi-accepted");
        let [reader, writer] = pipe();
        send(client, &[listener, client, writer]);
        let accepted = libc::accept(listener, ptr::null_mut(), ptr::null_mut());
        close(&[listener, client, writer]);
        for _ in 0..20 {
            close(&pair(SOCK_STREAM));
        }
        println!("gone too early: {}", is_hung_up(reader, 100));
        println!("received: {}", receive(accepted, 0).len());
    }
}

/// A user has as many descriptors in flight as the limit on open files, and one message more.
fn leaked() {
    become_user();
    let mut count = 0;
    let [reader, writer] = pipe();
    let last = loop {
        let [a, b] = pair(SOCK_STREAM);
        let sent = send(a, &[a, b, writer]);
        if sent != 1 {
            tell("one more", sent as i64);
            break [a, b];
        }
        close(&[a, b]);
        count += 1;
    };
    println!("circles: {count}");
    // The cycles were freed before, or are by this; no other socket needs to be closed.
    close(&last);
    close(&[writer]);
    println!("all end: {}", is_hung_up(reader, 60_000));
    let [a, _] = pair(SOCK_STREAM);
    tell("the first afterwards", send(a, &[0]) as i64);
}

/// Files that one user keeps in flight do not count for another.
fn kept() {
    let [ready, tell_ready] = pipe();
    let [go, tell_go] = pipe();
    // SAFETY: the child ends with _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        become_user();
        let mut held = Vec::new();
        let mut messages = 0;
        let last = loop {
            let ends = pair(SOCK_STREAM);
            held.push(ends);
            let sent = send(ends[0], &[0; MOST]);
            if sent != 1 {
                break sent;
            }
            messages += 1;
        };
        tell("a user's next", last as i64);
        println!("messages: {messages}");
        let mut byte = 0u8;
        // SAFETY: the pointers are to a byte.
        unsafe {
            libc::write(tell_ready, (&raw const byte).cast(), 1);
            libc::read(go, (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
    }
    let mut byte = 0u8;
    // SAFETY: the pointers are to a byte; no status is requested.
    unsafe {
        libc::read(ready, (&raw mut byte).cast(), 1);
        let ends: Vec<[c_int; 2]> = (0..10).map(|_| pair(SOCK_STREAM)).collect();
        let sent = ends.iter().filter(|ends| send(ends[0], &[0; MOST]) == 1);
        println!("root meanwhile: {} messages", sent.count());
        let status = in_child(|| {
            libc::setuid(USER + 1);
            let [a, _] = pair(SOCK_STREAM);
            tell("another user", send(a, &[0]) as i64);
        });
        tell_end("another user", status);
        libc::write(tell_go, (&raw const byte).cast(), 1);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}
