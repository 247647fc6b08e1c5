//! Sockets: random control messages, queues that are filled and abandoned, and memory that comes
//! back.

use std::mem;
use std::ptr;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_TRUNC, SOCK_DGRAM,
    SOCK_NONBLOCK, SOCK_SEQPACKET, SOCK_STREAM, c_int, socklen_t,
};

use super::USER;
use crate::inet::{self, own_port};
use crate::unix::pair;
use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    let status = in_child(|| {
        // SAFETY: these calls take only numbers.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::setgid(USER);
            libc::setuid(USER);
        }
        // SAFETY: every pointer that is to be valid is to a live value.
        unsafe {
            odd_messages();
            long_control();
            backlog();
            memory();
        }
    });
    tell_end("the user", status);
}

/// Pseudo-random numbers, the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// One of `known`, or any number.
    fn among(&mut self, known: &[u64]) -> u64 {
        match self.below(8) {
            0 => self.next(),
            _ => known[self.below(known.len() as u64) as usize],
        }
    }
}

/// Pairs of connected sockets of all types.
unsafe fn connections() -> Vec<[c_int; 2]> {
    unsafe {
        let mut all = vec![pair(SOCK_STREAM), pair(SOCK_DGRAM), pair(SOCK_SEQPACKET)];
        for family in [AF_INET, AF_INET6] {
            all.push(inet::pair(family));
            let ends = [0; 2].map(|_| libc::socket(family, SOCK_DGRAM, 0));
            for end in ends {
                inet::bind(end, family, 0x7f00_0001, 0);
            }
            inet::connect(ends[0], family, 0x7f00_0001, own_port(ends[1]));
            inet::connect(ends[1], family, 0x7f00_0001, own_port(ends[0]));
            all.push(ends);
        }
        all
    }
}

/// Control messages of almost any type and length, buffers of any size for them, and I/O vectors
/// with invalid addresses.
unsafe fn odd_messages() {
    const LEVELS: [u64; 5] = [0, 1, 6, 17, 41];
    const KINDS: [u64; 10] = [1, 2, 3, 4, 8, 37, 50, 52, 67, 103];
    const LENGTHS: [u64; 10] = [0, 1, 15, 16, 17, 20, 28, 36, 64, u64::MAX];
    const FLAGS: [u64; 6] = [
        0,
        MSG_PEEK as u64,
        MSG_OOB as u64,
        MSG_TRUNC as u64,
        0x2000,
        0x8000,
    ];
    unsafe {
        let all = connections();
        let mut numbers = Numbers(0x5117_1e5d);
        let mut room = [0u64; 64];
        let mut bytes = [0u8; 512];
        for _ in 0..20_000 {
            let [from, to] = all[numbers.below(all.len() as u64) as usize];
            let mut at = 0;
            while at + 4 < room.len() {
                let length = numbers.among(&LENGTHS);
                room[at] = length;
                room[at + 1] = numbers.among(&LEVELS) & 0xffff_ffff | numbers.among(&KINDS) << 32;
                // A descriptor that may be open, or any number.
                room[at + 2] = numbers.among(&[0, 1, 2, 1 << 32]);
                at += (length.clamp(16, 64) as usize).div_ceil(8);
            }
            let pieces = [0; 3].map(|_| libc::iovec {
                iov_base: match numbers.below(6) {
                    0 => ptr::without_provenance_mut(8),
                    _ => bytes.as_mut_ptr().cast(),
                },
                iov_len: numbers.among(&[0, 1, 7, 512]).min(512) as usize,
            });
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = pieces.as_ptr().cast_mut();
            message.msg_iovlen = numbers.below(4) as _;
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = numbers.among(&[0, 8, 16, 20, 24, 64, 512]).min(512) as _;
            let flags = numbers.among(&FLAGS) as c_int & 0xffff | MSG_DONTWAIT;
            libc::sendmsg(from, &message, flags & !0x8000);
            message.msg_controllen = numbers.among(&[0, 1, 15, 17, 24, 512]).min(512) as _;
            if libc::recvmsg(to, &mut message, flags) >= 0 {
                close_received(&message);
            }
            if numbers.below(4) == 0 {
                while libc::recv(to, bytes.as_mut_ptr().cast(), 512, MSG_DONTWAIT) > 0 {}
            }
        }
        all.iter().flatten().for_each(|&file| _ = libc::close(file));
    }
    println!("odd messages: done");
}

/// Closes the received descriptors.
unsafe fn close_received(message: &libc::msghdr) {
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = head.as_ref() {
            let count = (header.cmsg_len as usize).saturating_sub(16) / 4;
            if (header.cmsg_level, header.cmsg_type) == (1, libc::SCM_RIGHTS) {
                let files = libc::CMSG_DATA(head).cast::<c_int>();
                (0..count).for_each(|at| _ = libc::close(*files.add(at)));
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
}

/// The raw system call: a C library may have its own limit.
unsafe fn raw_send(file: c_int, message: &libc::msghdr) -> i64 {
    unsafe { libc::syscall(libc::SYS_sendmsg, file, message, 0) as i64 }
}

/// 64 KiB of control messages, and far more than the limit.
unsafe fn long_control() {
    unsafe {
        let [a, _] = pair(SOCK_STREAM);
        let mut room = vec![0u64; 8192];
        let mut byte = 0u8;
        let mut piece = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        for (what, first) in [("zeroes", 0), ("one message", 8192 * 8)] {
            room[0] = first;
            room[1] = 1 | 2 << 32;
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = (room.len() * 8) as _;
            tell(what, raw_send(a, &message));
            message.msg_controllen = 1 << 24;
            tell("far more", raw_send(a, &message));
        }
    }
}

/// Connections that are never accepted.
unsafe fn backlog() {
    unsafe {
        let mut address: libc::sockaddr_un = mem::zeroed();
        address.sun_family = AF_UNIX as _;
        address.sun_path[1] = b'f' as _;
        let at = (&raw const address).cast::<libc::sockaddr>();
        let length = 4 as socklen_t;
        let server = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        libc::bind(server, at, length);
        libc::listen(server, 100);
        let mut clients = Vec::new();
        let last = loop {
            let client = libc::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
            clients.push(client);
            let result = libc::connect(client, at, length);
            if result != 0 {
                break result;
            }
        };
        tell("one more", last);
        println!("waiting: {}", clients.len() - 1);
        libc::close(server);
        let mut byte = 0u8;
        println!(
            "peek: {}",
            libc::recv(
                clients[0],
                (&raw mut byte).cast(),
                1,
                MSG_PEEK | MSG_DONTWAIT
            )
        );
        clients.iter().for_each(|&file| _ = libc::close(file));
    }
}

/// Free memory in KiB.
fn free() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Memory queued in sockets is free again once their owners have ended.
unsafe fn memory() {
    const WITHIN: i64 = 24 << 10;
    let before = free();
    let status = in_child(|| {
        let bytes = vec![7u8; 65536];
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            for _ in 0..200 {
                for file in pair(kind) {
                    // SAFETY: pointer and length are of the buffer.
                    unsafe {
                        while libc::send(file, bytes.as_ptr().cast(), 65536, MSG_DONTWAIT) > 0 {}
                    }
                }
            }
        }
        println!("much waits: {}", free() < before - WITHIN);
        // SAFETY: ends this process.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    tell_end("killed", status);
    let back = (0..1200).any(|_| {
        // SAFETY: only waits.
        unsafe { libc::usleep(50_000) };
        free() > before - WITHIN
    });
    println!("free again: {back}");
}
