//! Options about reception: filters (SO_ATTACH_FILTER), peeks at an offset (SO_PEEK_OFF), the CPU
//! (SO_INCOMING_CPU); and options of buffers and of the interface.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, POLLIN, SO_RCVBUF,
    SO_REUSEPORT, SO_SNDBUF, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, c_int,
    sock_filter, sock_fprog, socklen_t,
};

use crate::inet::{self, own_port, send_to};
use crate::options::udp;
use crate::pipes::ready;
use crate::tell;
use crate::unix::{option, pair, receive, send, send_with, set};

const LOCAL: u32 = 0x7f00_0001;
const ATTACH: c_int = 26;
const DETACH: c_int = 27;
const PEEK_OFF: c_int = 42;
const LOCK: c_int = 44;
const INCOMING_CPU: c_int = 49;
const BINDTOIFINDEX: c_int = 62;
const BUF_LOCK: c_int = 72;

/// Opcodes of filters.
const RET: u16 = 0x06;
const RET_A: u16 = 0x16;
const LD_BYTE: u16 = 0x30;
const LD_HALF: u16 = 0x28;
const LD_WORD: u16 = 0x20;
const LD_LEN: u16 = 0x80;
const JEQ: u16 = 0x15;
const SUB: u16 = 0x14;
/// Ancillary data starts at this offset (SKF_AD_OFF).
const BESIDE: u32 = -0x1000i32 as u32;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        attached();
        datagrams();
        mapped();
        raw();
        unix();
        for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET] {
            println!("peeks, kind {kind}");
            peeks(pair(kind), MSG_TRUNC);
        }
        println!("peeks, UDP");
        let (a, b) = (udp(AF_INET), udp(AF_INET));
        inet::connect(a, AF_INET, LOCAL, own_port(b));
        peeks([a, b], MSG_TRUNC);
        println!("peeks, TCP");
        peeks(connection(), 0);
        numbers();
        cpu();
        controls();
        too_long();
        for ends in [pair(SOCK_STREAM), pair(SOCK_DGRAM), connection()] {
            beyond(ends);
        }
    }
}

/// A buffer whose pages a child shares: what is behind the received bytes does not change.
unsafe fn beyond([from, to]: [c_int; 2]) {
    const LEN: usize = 64 << 10;
    const OLD: u8 = 0x55;
    unsafe {
        let mut buffer = vec![OLD; LEN];
        let child = libc::fork();
        if child == 0 {
            libc::pause();
        }
        let is_old = |buffer: &[u8]| buffer.iter().all(|&byte| byte == OLD);
        let mut take = |flags| libc::recv(to, buffer.as_mut_ptr().cast(), LEN, flags);
        tell("from nobody", take(MSG_DONTWAIT) as i64);
        tell("hello", send(from, b"hello", 0));
        tell("peeked", take(MSG_PEEK) as i64);
        tell("received", take(0) as i64);
        println!("behind it is what was: {}", is_old(&buffer[5..]));
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// Fields of a packet that control messages set: only those of its own protocol.
unsafe fn controls() {
    const IP: c_int = 0;
    const IPV6: c_int = 41;
    const RECVTTL: c_int = 12;
    const RECVTOS: c_int = 13;
    const RECVHOPLIMIT: c_int = 51;
    const RECVTCLASS: c_int = 66;
    let number = |value: c_int| value.to_ne_bytes().to_vec();
    let mut v4 = [0u8; 20];
    v4[10..12].fill(0xff);
    v4[12..16].copy_from_slice(&[127, 0, 0, 5]);
    let mut v6 = [0u8; 20];
    v6[15] = 1;
    let mut elsewhere = v4;
    elsewhere[12] = 9;
    let given = [
        (IP, 1, number(0x10)),
        (IP, 2, number(9)),
        (IP, 7, number(0)),
        (IP, 7, vec![1, 1, 1, 0]),
        (IP, 7, vec![1, 1, 0, 99]),
        (IP, 7, vec![]),
        (IP, 52, number(17)),
        (IP, 52, number(0)),
        (IP, 52, number(256)),
        (IP, 52, vec![17]),
        (IP, 99, number(1)),
        (IPV6, 50, v4.to_vec()),
        (IPV6, 50, v6.to_vec()),
        (IPV6, 50, elsewhere.to_vec()),
        (IPV6, 50, vec![0; 4]),
        (IPV6, 52, number(9)),
        (IPV6, 67, number(1)),
        (IPV6, 67, number(256)),
        (IPV6, 99, number(1)),
    ];
    unsafe {
        for (what, family, ip) in [
            ("IPv4", AF_INET, LOCAL),
            ("IPv6", AF_INET6, LOCAL),
            ("IPv4 from IPv6", AF_INET6, LOCAL + 1),
        ] {
            println!("{what}");
            let to = libc::socket(family, SOCK_DGRAM, 0);
            inet::bind(to, family, if what == "IPv6" { LOCAL } else { 0 }, 0);
            for (level, name) in [
                (IP, RECVTTL),
                (IP, RECVTOS),
                (IPV6, RECVHOPLIMIT),
                (IPV6, RECVTCLASS),
            ] {
                set(to, level, name, 1);
            }
            let from = libc::socket(family, SOCK_DGRAM, 0);
            inet::connect(from, family, ip, own_port(to));
            for (level, kind, data) in &given {
                let sent = send_with(from, b"xy", (*level, *kind), data);
                tell(&format!("{level} {kind} {data:?}"), sent);
                if sent >= 0 {
                    fields(to);
                }
            }
            libc::close(from);
            libc::close(to);
        }
    }
}

/// Prints the control messages of a datagram.
unsafe fn fields(file: c_int) {
    unsafe {
        let (mut bytes, mut control) = ([0u8; 16], [0u64; 32]);
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        let got = libc::recvmsg(file, &mut message, MSG_DONTWAIT);
        let mut line = format!("  {got}");
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while !head.is_null() {
            let one = &*head;
            let first = *libc::CMSG_DATA(head);
            line += &format!(" [{} {}: {first}]", one.cmsg_level, one.cmsg_type);
            head = libc::CMSG_NXTHDR(&message, head);
        }
        println!("{line}");
    }
}

/// A message that is too long is refused before a pending error is reported.
unsafe fn too_long() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let file = libc::socket(family, SOCK_DGRAM, 0);
            set(file, SOL_SOCKET, SO_SNDBUF, 1 << 20);
            inet::connect(file, family, LOCAL, 3);
            let bytes = vec![0u8; 65_536];
            let long = if family == AF_INET { 65_508 } else { 65_528 };
            tell("to nobody", send(file, b"x", 0));
            tell("too long", send(file, &bytes[..long], 0));
            tell("far too long", send(file, &bytes, 0));
            tell("refused", send(file, b"x", 0));
            libc::close(file);
        }
    }
}

fn op(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn attach(file: c_int, filter: &[sock_filter]) -> c_int {
    let program = sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    set(file, SOL_SOCKET, ATTACH, program)
}

/// Valid and invalid filters.
unsafe fn attached() {
    unsafe {
        let file = udp(AF_INET);
        let mut program = [op(0, 0); 4];
        let mut get = |what: &str, room: socklen_t| {
            let mut len = room;
            let to = program.as_mut_ptr().cast();
            tell(
                what,
                libc::getsockopt(file, SOL_SOCKET, ATTACH, to, &mut len),
            );
            println!("  {len} {:?}", program.map(|one| (one.code, one.k)));
        };
        get("none", 4);
        tell("detach none", set(file, SOL_SOCKET, DETACH, 0));
        tell("attach", attach(file, &[op(LD_LEN, 0), op(RET_A, 0)]));
        for room in [0, 1, 2, 4] {
            get("get", room);
        }
        for (what, filter) in [
            ("empty", &[][..]),
            ("no return", &[op(LD_LEN, 0)]),
            ("unknown", &[op(0x1234, 0), op(RET, 0)]),
            ("beside", &[op(LD_WORD, BESIDE + 1), op(RET, 0)]),
            ("memory", &[op(0x60, 16), op(RET, 0)]),
            ("division", &[op(0x34, 0), op(RET, 0)]),
            ("remainder", &[op(0x94, 0), op(RET, 0)]),
            ("shift", &[op(0x64, 32), op(RET, 0)]),
            ("jump", &[jump(JEQ, 0, 1, 0), op(RET, 0)]),
            ("not set", &[op(0x60, 3), op(RET, 0)]),
            ("known", &[op(LD_HALF, BESIDE + 8), op(RET, 0)]),
        ] {
            tell(what, attach(file, filter));
        }
        tell("short", set(file, SOL_SOCKET, ATTACH, [0u8; 8]));
        let none = sock_fprog {
            len: 1,
            filter: ptr::null_mut(),
        };
        tell("nowhere", set(file, SOL_SOCKET, ATTACH, none));
        let away = sock_fprog {
            len: 1,
            filter: 8 as *mut sock_filter,
        };
        tell("away", set(file, SOL_SOCKET, ATTACH, away));
        tell("long", attach(file, &[op(RET, 0); 4096]));
        tell("longer", attach(file, &[op(RET, 0); 4097]));
        tell("lock", set(file, SOL_SOCKET, LOCK, 1));
        tell("attach", attach(file, &[op(RET, 0)]));
        tell("detach", set(file, SOL_SOCKET, DETACH, 0));
        tell("unlock", set(file, SOL_SOCKET, LOCK, 0));
        println!("locked: {}", option(file, LOCK));
        libc::close(file);
    }
}

/// UDP filters can also read the UDP header.
unsafe fn datagrams() {
    unsafe {
        for family in [AF_INET, AF_INET6] {
            let (a, b) = (udp(family), udp(family));
            let port = own_port(b);
            let send = |bytes: &[u8]| _ = send_to(a, bytes, family, LOCAL, port);
            let with = |what: &str, filter: &[sock_filter]| {
                tell(what, attach(b, filter));
                for bytes in [&b"pass"[..], b"drop", b"", b"past the end"] {
                    send(bytes);
                }
                for _ in 0..4 {
                    receive(what, b, 64, MSG_DONTWAIT);
                }
            };
            with("all", &[op(RET, u32::MAX)]);
            with("none", &[op(RET, 0)]);
            with(
                "p",
                &[
                    op(LD_BYTE, 8),
                    jump(JEQ, b'p'.into(), 0, 1),
                    op(RET, u32::MAX),
                    op(RET, 0),
                ],
            );
            with("a head", &[op(RET, 1)]);
            with("two bytes", &[op(RET, 10)]);
            with("all but one", &[op(LD_LEN, 0), op(SUB, 1), op(RET_A, 0)]);
            let own = u32::from(port);
            with(
                "to here",
                &[
                    op(LD_HALF, 2),
                    jump(JEQ, own, 0, 1),
                    op(RET, 64),
                    op(RET, 0),
                ],
            );
            with("its length", &[op(LD_HALF, 4), op(RET_A, 0)]);
            for (what, k, value) in [
                (
                    "protocol",
                    0,
                    if family == AF_INET { 0x800 } else { 0x86dd },
                ),
                ("kind", 4, 0),
                ("interface", 8, 1),
                ("mark", 20, 0),
                ("queue", 24, 0),
                ("hardware", 28, 772),
                ("VLAN", 48, 0),
            ] {
                let filter = [
                    op(LD_WORD, BESIDE + k),
                    jump(JEQ, value, 0, 1),
                    op(RET, u32::MAX),
                    op(RET, 0),
                ];
                tell(what, attach(b, &filter));
                send(b"beside");
                receive(what, b, 64, MSG_DONTWAIT);
            }
            tell("detach", set(b, SOL_SOCKET, DETACH, 0));
            send(b"whole");
            receive("without", b, 64, MSG_DONTWAIT);
            for file in [a, b] {
                libc::close(file);
            }
        }
    }
}

/// A datagram that arrived over IPv4 is an IPv4 one, on an IPv6 socket too.
unsafe fn mapped() {
    unsafe {
        let (a, b) = (udp(AF_INET), libc::socket(AF_INET6, SOCK_DGRAM, 0));
        tell("bind", inet::bind(b, AF_INET6, 0, 0));
        let filter = [
            op(LD_WORD, BESIDE),
            jump(JEQ, 0x800, 0, 1),
            op(RET, u32::MAX),
            op(RET, 0),
        ];
        tell("attach", attach(b, &filter));
        send_to(a, b"mapped", AF_INET, LOCAL, own_port(b));
        receive("mapped", b, 64, MSG_DONTWAIT);
        libc::close(a);
        libc::close(b);
    }
}

/// Filters of raw sockets read the packet from its IP header.
unsafe fn raw() {
    unsafe {
        let a = libc::socket(AF_INET, SOCK_RAW, 253);
        for (what, k) in [("version", 0x45), ("another", 0x46)] {
            let filter = [op(LD_BYTE, 0), jump(JEQ, k, 0, 1), op(RET, 22), op(RET, 0)];
            tell(what, attach(a, &filter));
            send_to(a, b"hello", AF_INET, LOCAL, 0);
            let mut bytes = [0u8; 64];
            let count = libc::recv(a, bytes.as_mut_ptr().cast(), 64, MSG_DONTWAIT);
            tell(what, count as i64);
            println!("  {:?}", &bytes[20..25]);
        }
        libc::close(a);
    }
}

unsafe fn unix() {
    unsafe {
        for kind in [SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM] {
            let [a, b] = pair(kind);
            println!("unix, kind {kind}");
            let with = |what: &str, filter: &[sock_filter]| {
                tell(what, attach(b, filter));
                for bytes in [&b"pass"[..], b"drop"] {
                    tell("send", send(a, bytes, 0));
                }
                for _ in 0..2 {
                    receive(what, b, 64, MSG_DONTWAIT | MSG_TRUNC);
                }
            };
            let p = [
                op(LD_BYTE, 0),
                jump(JEQ, b'p'.into(), 0, 1),
                op(RET, 3),
                op(RET, 0),
            ];
            with("p", &p);
            with("interface", &[op(LD_WORD, BESIDE + 8), op(RET, 9)]);
            with("none", &[op(RET, 0)]);
            ready("none", b, POLLIN);
            for file in [a, b] {
                libc::close(file);
            }
        }
    }
}

unsafe fn connection() -> [c_int; 2] {
    unsafe {
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        inet::bind(server, AF_INET, LOCAL, 0);
        libc::listen(server, 1);
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        inet::connect(client, AF_INET, LOCAL, own_port(server));
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        libc::close(server);
        [client, accepted]
    }
}

/// `all` is MSG_TRUNC, if that only changes the value that a receive returns.
unsafe fn peeks([a, b]: [c_int; 2], all: c_int) {
    unsafe {
        let offset = |what: &str| println!("  {what} {}", option(b, PEEK_OFF));
        offset("at first");
        for bytes in [&b"first"[..], b"second"] {
            send(a, bytes, 0);
        }
        const PEEK: c_int = MSG_PEEK | MSG_DONTWAIT;
        receive("peek", b, 3, PEEK);
        offset("off");
        tell("on", set(b, SOL_SOCKET, PEEK_OFF, 1));
        receive("peek", b, 2, PEEK);
        offset("then");
        receive("peek", b, 64, PEEK);
        offset("then");
        receive("peek", b, 3, PEEK);
        offset("then");
        receive("peek", b, 64, PEEK);
        receive("peek", b, 64, PEEK);
        offset("at the end");
        ready("readable", b, POLLIN);
        receive("read", b, 2, MSG_DONTWAIT);
        offset("then");
        receive("peek", b, 64, PEEK);
        send(a, b"third", 0);
        receive("peek", b, 64, PEEK | all);
        offset("then");
        receive("read", b, 64, MSG_DONTWAIT);
        offset("then");
        tell("back", set(b, SOL_SOCKET, PEEK_OFF, 0));
        receive("peek", b, 64, PEEK);
        tell("far", set(b, SOL_SOCKET, PEEK_OFF, c_int::MAX));
        receive("peek", b, 64, PEEK);
        tell("off", set(b, SOL_SOCKET, PEEK_OFF, -7));
        offset("off");
        receive("peek", b, 64, PEEK);
        receive("read", b, 64, MSG_DONTWAIT);
        offset("off");
        for file in [a, b] {
            libc::close(file);
        }
    }
}

/// Options with a number.
unsafe fn numbers() {
    unsafe {
        for (domain, kind, protocol) in [
            (AF_INET, SOCK_STREAM, 0),
            (AF_INET6, SOCK_DGRAM, 0),
            (AF_INET, SOCK_RAW, 253),
            (AF_UNIX, SOCK_STREAM, 0),
            (AF_NETLINK, SOCK_RAW, 0),
        ] {
            println!("family {domain} kind {kind} protocol {protocol}");
            let file = libc::socket(domain, kind, protocol);
            for name in [PEEK_OFF, INCOMING_CPU, BUF_LOCK, BINDTOIFINDEX] {
                for value in [-1, 0, 1, 3] {
                    if name == BINDTOIFINDEX && value == 3 {
                        continue;
                    }
                    tell("set", set(file, SOL_SOCKET, name, value));
                    println!("  {name} {value}: {}", option(file, name));
                }
            }
            let mut name = [0u8; 16];
            let mut len = 16;
            libc::getsockopt(file, SOL_SOCKET, 25, name.as_mut_ptr().cast(), &mut len);
            println!("interface {len} {:?}", &name[..2]);
            set(file, SOL_SOCKET, BUF_LOCK, 0);
            for name in [SO_SNDBUF, SO_RCVBUF] {
                set(file, SOL_SOCKET, name, 10_000);
                println!("locked: {}", option(file, BUF_LOCK));
            }
            libc::close(file);
        }
    }
}

/// Among sockets that share a port, one whose SO_INCOMING_CPU is this CPU is preferred.
unsafe fn cpu() {
    unsafe {
        let mut set_of: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut set_of);
        libc::sched_setaffinity(0, mem::size_of_val(&set_of), &set_of);
        let sockets: Vec<c_int> = (0..8)
            .map(|_| {
                let file = libc::socket(AF_INET, SOCK_DGRAM, 0);
                set(file, SOL_SOCKET, SO_REUSEPORT, 1);
                file
            })
            .collect();
        inet::bind(sockets[0], AF_INET, LOCAL, 0);
        let port = own_port(sockets[0]);
        for &file in &sockets[1..] {
            tell("bind", inet::bind(file, AF_INET, LOCAL, port));
        }
        set(sockets[3], SOL_SOCKET, INCOMING_CPU, 0);
        for _ in 0..16 {
            let sender = udp(AF_INET);
            send_to(sender, b"here", AF_INET, LOCAL, port);
            libc::close(sender);
        }
        for (at, &file) in sockets.iter().enumerate() {
            let mut count = 0;
            while libc::recv(file, ptr::null_mut(), 0, MSG_DONTWAIT) >= 0 {
                count += 1;
            }
            println!("socket {at}: {count}, CPU {}", option(file, INCOMING_CPU));
            libc::close(file);
        }
    }
}
