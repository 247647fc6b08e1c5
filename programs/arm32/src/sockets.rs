//! Sockets: messages, control messages, options and interfaces in 32-bit structures.

use std::ptr;

use libc::{AF_UNIX, MSG_DONTWAIT, SOCK_DGRAM, SOL_SOCKET, c_int};

use crate::tell;

const RECVMMSG_TIME64: libc::c_long = 417;
const SO_RCVTIMEO_NEW: c_int = 66;
/// The size of a `struct cmsghdr`.
const HEAD: usize = 12;

/// An aligned buffer for control messages.
#[repr(align(8))]
struct Room([u8; 256]);

/// Runs this part.
pub fn run() {
    // SAFETY: the calls get their own memory.
    unsafe {
        let mut ends = [0; 2];
        tell(
            "socketpair",
            libc::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.as_mut_ptr()).into(),
        );
        rights(ends);
        damaged(ends);
        stamps(ends);
        many(ends);
        limits(ends);
        bare(ends);
        packets();
        filters();
        interfaces(ends[0]);
    }
}

/// A `struct msghdr` with one buffer.
fn message(piece: &mut libc::iovec, control: &mut [u8]) -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: piece,
        msg_iovlen: 1,
        msg_control: control.as_mut_ptr().cast(),
        msg_controllen: control.len(),
        msg_flags: 0,
    }
}

fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// Builds a control message.
fn control(kind: c_int, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [(HEAD + data.len()) as u32, SOL_SOCKET as u32, kind as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(data);
    bytes
}

/// Receives a message with a buffer of `room` bytes for control messages, and prints these.
unsafe fn receive(what: &str, from: c_int, room: usize) {
    let (mut bytes, mut space) = ([0; 64], Room([0; 256]));
    let mut piece = piece(&mut bytes);
    let mut message = message(&mut piece, &mut space.0[..room]);
    // SAFETY: the message's parts live as long as the call.
    let got = unsafe { libc::recvmsg(from, &mut message, MSG_DONTWAIT) };
    tell(what, got as i64);
    if got == -1 {
        return;
    }
    println!(
        "  flags {:#x} control {}",
        message.msg_flags, message.msg_controllen
    );
    let word = |at: usize| u32::from_ne_bytes(space.0[at..at + 4].try_into().unwrap());
    let mut at = 0;
    while at + HEAD <= message.msg_controllen {
        let len = word(at) as usize;
        println!("  len {len} level {} kind {}", word(at + 4), word(at + 8));
        at += len.max(HEAD).next_multiple_of(4);
    }
}

unsafe fn send(what: &str, to: c_int, control: &mut [u8]) {
    let mut bytes = *b"words";
    let mut piece = piece(&mut bytes);
    let message = message(&mut piece, control);
    // SAFETY: the message's parts live as long as the call.
    tell(what, unsafe { libc::sendmsg(to, &message, 0) } as i64);
}

unsafe fn rights([from, to]: [c_int; 2]) {
    unsafe {
        let fds: Vec<u8> = [0i32, 1].iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        let mut two = control(libc::SCM_RIGHTS, &fds);
        for room in [256, 20, 19, 16, 15, 12, 11, 0] {
            send("two files", from, &mut two);
            receive(&format!("into {room}"), to, room);
        }
        let on = 1i32;
        let of = (&raw const on).cast();
        libc::setsockopt(to, SOL_SOCKET, libc::SO_PASSCRED, of, 4);
        let mut one = control(libc::SCM_RIGHTS, &0i32.to_ne_bytes());
        send("a file", from, &mut one);
        receive("with credentials", to, 256);
        send("a file", from, &mut one);
        receive("with credentials, into 27", to, 27);
        let off = 0i32;
        libc::setsockopt(
            to,
            SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const off).cast(),
            4,
        );
    }
}

unsafe fn damaged([from, to]: [c_int; 2]) {
    unsafe {
        for len in [11u32, 12, 17, 4096] {
            let mut wrong = control(libc::SCM_RIGHTS, &0i32.to_ne_bytes());
            wrong[..4].copy_from_slice(&len.to_ne_bytes());
            send(&format!("a length of {len}"), from, &mut wrong);
        }
        let mut unaligned = control(libc::SCM_RIGHTS, &[0; 4]);
        unaligned.extend(control(libc::SCM_RIGHTS, &[0; 4]));
        send("two messages", from, &mut unaligned);
        send("a part of one", from, &mut [0; 8]);
        send("of a kind that is none", from, &mut control(99, &[]));
        receive("the first", to, 256);
        receive("the next", to, 256);
        receive("the next", to, 256);
        receive("none", to, 256);
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iovlen = 1025;
        tell("1025 pieces", libc::sendmsg(from, &header, 0) as i64);
        header.msg_iovlen = 0;
        header.msg_name = ptr::dangling_mut();
        header.msg_namelen = u32::MAX;
        tell("a negative name", libc::sendmsg(from, &header, 0) as i64);
        let none = ptr::null_mut::<libc::msghdr>();
        tell("no message", libc::recvmsg(to, none, MSG_DONTWAIT) as i64);
    }
}

unsafe fn stamps([from, to]: [c_int; 2]) {
    unsafe {
        // The old options have 32-bit times, the new ones 64-bit times.
        for option in [29, 35, 63, 64, 37] {
            let on: i32 = if option == 37 { 0x18 } else { 1 };
            let of = (&raw const on).cast();
            tell(
                &format!("option {option}"),
                libc::setsockopt(to, SOL_SOCKET, option, of, 4).into(),
            );
            send("a message", from, &mut []);
            receive("stamped", to, 256);
            let off = (&raw const FALSE).cast();
            libc::setsockopt(to, SOL_SOCKET, option, off, 4);
        }
    }
}

static FALSE: i32 = 0;

unsafe fn many([from, to]: [c_int; 2]) {
    unsafe {
        let (mut first, mut second) = (*b"one", *b"three");
        let mut pieces = [piece(&mut first), piece(&mut second)];
        let mut messages = pieces.each_mut().map(|piece| libc::mmsghdr {
            msg_hdr: message(piece, &mut []),
            msg_len: 0,
        });
        for number in [libc::SYS_recvmmsg, RECVMMSG_TIME64] {
            tell(
                "sendmmsg",
                libc::sendmmsg(from, messages.as_mut_ptr(), 2, 0).into(),
            );
            println!("  {:?}", messages.map(|message| message.msg_len));
            let mut bytes = [[0; 8]; 3];
            let mut room = bytes.each_mut().map(|bytes| piece(bytes));
            let mut got = room.each_mut().map(|piece| libc::mmsghdr {
                msg_hdr: message(piece, &mut []),
                msg_len: 99,
            });
            let mut span = [5i32, 0, 0x7fff_ffff, 0];
            if number == RECVMMSG_TIME64 {
                // The upper half of the nanoseconds is ignored.
                span = [5, 0, 0, -1];
            }
            let (list, span) = (got.as_mut_ptr(), span.as_mut_ptr());
            tell(
                "recvmmsg",
                libc::syscall(number, to, list, 3, MSG_DONTWAIT, span).into(),
            );
            println!("  {:?}", got.map(|message| message.msg_len));
            libc::recv(to, bytes[0].as_mut_ptr().cast(), 8, MSG_DONTWAIT);
        }
        let span = [0i32, 1_000_000_000];
        let none = ptr::null_mut::<u8>();
        tell(
            "recvmmsg, no time",
            libc::syscall(libc::SYS_recvmmsg, to, none, 0, 0, span.as_ptr()).into(),
        );
    }
}

unsafe fn limits([from, to]: [c_int; 2]) {
    unsafe {
        let time = [0i32, 20_000];
        for len in [7, 8, 16] {
            let set =
                libc::setsockopt(to, SOL_SOCKET, libc::SO_RCVTIMEO, time.as_ptr().cast(), len);
            tell(&format!("a limit of {len} bytes"), set.into());
        }
        let mut byte = 0u8;
        tell("waits", libc::recv(to, (&raw mut byte).cast(), 1, 0) as i64);
        for (option, room) in [
            (libc::SO_RCVTIMEO, 16),
            (libc::SO_RCVTIMEO, 5),
            (SO_RCVTIMEO_NEW, 16),
        ] {
            let (mut shown, mut len) = ([-1i32; 4], room);
            tell(
                &format!("limit by {option}"),
                libc::getsockopt(to, SOL_SOCKET, option, shown.as_mut_ptr().cast(), &mut len)
                    .into(),
            );
            println!("  {len} bytes: {shown:?}");
        }
        for time in [[0i32, 1_000_000], [-1, 0], [0, -1], [i32::MAX, 0]] {
            let of = time.as_ptr().cast();
            let set = libc::setsockopt(from, SOL_SOCKET, libc::SO_SNDTIMEO, of, 8);
            tell(&format!("{time:?}"), set.into());
        }
    }
}

/// Calls that libc no longer makes.
unsafe fn bare([from, to]: [c_int; 2]) {
    unsafe {
        let mut bytes = *b"bare";
        let at = bytes.as_mut_ptr();
        tell("send", libc::syscall(libc::SYS_send, from, at, 4, 0).into());
        tell("recv", libc::syscall(libc::SYS_recv, to, at, 4, 0).into());
        tell(
            "send to a file",
            libc::syscall(libc::SYS_send, 0, at, 4, 0).into(),
        );
        tell("socketcall", libc::syscall(102, 1, at).into());
    }
}

unsafe fn packets() {
    unsafe {
        let socket = libc::socket(libc::AF_INET, SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut own: libc::sockaddr_in = std::mem::zeroed();
        own.sin_family = libc::AF_INET as u16;
        own.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut len = 16;
        libc::bind(socket, (&raw const own).cast(), len);
        libc::getsockname(socket, (&raw mut own).cast(), &mut len);
        let on = 1i32;
        let of = (&raw const on).cast();
        libc::setsockopt(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, of, 4);
        libc::setsockopt(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, of, 4);
        libc::connect(socket, (&raw const own).cast(), len);
        stamps([socket, socket]);
        send("a packet", socket, &mut []);
        receive("its header", socket, 256);
        send("a packet", socket, &mut []);
        receive("its header, into 30", socket, 30);
        libc::close(socket);
    }
}

unsafe fn interfaces(socket: c_int) {
    const SIOCGIFCONF: libc::c_ulong = 0x8912;
    unsafe {
        let mut room = [0xffu8; 80];
        for len in [80u32, 32, 31] {
            let mut asked = [len, room.as_mut_ptr() as u32];
            tell(
                "interfaces",
                libc::ioctl(socket, SIOCGIFCONF as _, &mut asked).into(),
            );
            println!("  {} bytes, {:?}", asked[0], &room[..2]);
        }
        println!("  after them {:#x}", room[32]);
        let mut none = [0u32; 2];
        tell(
            "how many",
            libc::ioctl(socket, SIOCGIFCONF as _, &mut none).into(),
        );
        println!("  {} bytes", none[0]);
    }
}

/// A filter's structure contains a pointer.
unsafe fn filters() {
    unsafe {
        let file = libc::socket(libc::AF_INET, SOCK_DGRAM, 0);
        let mut filter = [libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0,
        }];
        let program = libc::sock_fprog {
            len: 1,
            filter: filter.as_mut_ptr(),
        };
        let none = libc::sock_fprog {
            filter: ptr::null_mut(),
            ..program
        };
        let programs = [program, program];
        for (what, program, len) in [
            ("a filter", programs.as_ptr(), 8),
            ("of 16 bytes", programs.as_ptr(), 16),
            ("of 7 bytes", programs.as_ptr(), 7),
            ("of nothing", &raw const none, 8),
        ] {
            let set = libc::setsockopt(
                file,
                SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                program.cast(),
                len,
            );
            tell(what, set.into());
        }
        let mut got = [0u8; 8];
        let mut count = 1;
        let to = got.as_mut_ptr().cast();
        let shown = libc::getsockopt(file, SOL_SOCKET, libc::SO_ATTACH_FILTER, to, &mut count);
        tell("shown", shown.into());
        println!("  {count} {got:?}");
        tell(
            "no program",
            libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const none).into(),
        );
        libc::close(file);
    }
}
