//! Timestamps of received and sent messages (SO_TIMESTAMP and the like, SO_TIMESTAMPING).

use std::time::Duration;
use std::{mem, ptr, thread};

use libc::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_TRUNC,
    POLLIN, POLLOUT, SO_ERROR, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOL_SOCKET, c_int,
};

use crate::inet::{self, own_port, send_to};
use crate::options::udp;
use crate::pipes::ready;
use crate::tell;
use crate::unix::{option, pair, send, set};

const LOCAL: u32 = 0x7f00_0001;
/// SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING by their old and new numbers.
const NAMES: [c_int; 4] = [29, 63, 35, 64];
const STAMPING: c_int = 37;
const STAMPING_NEW: c_int = 65;
/// SOF_TIMESTAMPING_* flags.
const TX_SOFTWARE: c_int = 1 << 1;
const RX_SOFTWARE: c_int = 1 << 3;
const SOFTWARE: c_int = 1 << 4;
const OPT_ID: c_int = 1 << 7;
const TX_SCHED: c_int = 1 << 8;
const TX_ACK: c_int = 1 << 9;
const OPT_CMSG: c_int = 1 << 10;
const OPT_TSONLY: c_int = 1 << 11;
const OPT_STATS: c_int = 1 << 12;
const OPT_PKTINFO: c_int = 1 << 13;
const BIND_PHC: c_int = 1 << 15;
const OPT_ID_TCP: c_int = 1 << 16;
const OPT_RX_FILTER: c_int = 1 << 17;
const IP_PKTINFO: c_int = 8;
const IPV6_RECVPKTINFO: c_int = 49;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        kept();
        for family in [AF_INET, AF_INET6] {
            println!("family {family}");
            arrivals(family);
            sent(family);
        }
        raw();
        connection();
        accepted();
        unix();
    }
}

/// Waits until the kernel has enabled timestamps, which it does a little later.
fn settle() {
    thread::sleep(Duration::from_millis(100));
}

fn words(data: &[u8]) -> Vec<i64> {
    let (words, _) = data.as_chunks::<8>();
    words.iter().map(|word| i64::from_ne_bytes(*word)).collect()
}

/// Receives a message and prints its control messages.
unsafe fn show(what: &str, file: c_int, flags: c_int) -> bool {
    unsafe {
        let (mut bytes, mut room) = ([0u8; 256], [0u64; 64]);
        let mut name: libc::sockaddr_in6 = mem::zeroed();
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = mem::size_of_val(&name) as _;
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&room) as _;
        let count = libc::recvmsg(file, &mut message, flags | MSG_DONTWAIT);
        if count < 0 {
            tell(what, -1);
            return false;
        }
        let shown = message.msg_flags & (MSG_ERRQUEUE | MSG_TRUNC);
        let tail = &bytes[(count as usize).saturating_sub(5)..count as usize];
        println!(
            "{what}: {count} {:?} flags {shown:#x} name {}",
            String::from_utf8_lossy(tail),
            message.msg_namelen
        );
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while let Some(head) = next.as_ref() {
            let len = head.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(head), len);
            print!("  {} {} of {len}:", head.cmsg_level, head.cmsg_type);
            match (head.cmsg_level, head.cmsg_type) {
                (SOL_SOCKET, _) => {
                    let set: Vec<_> = words(data).iter().map(|&word| word != 0).collect();
                    println!(" seconds {} others {}", set[0], set[2..].contains(&true));
                }
                _ => println!(" {data:?}"),
            }
            next = libc::CMSG_NXTHDR(&message, head);
        }
        true
    }
}

/// Prints all messages of the error queue.
unsafe fn reports(what: &str, file: c_int) {
    unsafe { while show(what, file, MSG_ERRQUEUE) {} }
}

unsafe fn ask(file: c_int, flags: c_int) {
    let result = set(file, SOL_SOCKET, STAMPING, flags);
    if result != 0 {
        tell("stamping", result);
    }
}

/// Refused values, and returned values.
unsafe fn kept() {
    unsafe {
        let datagrams = udp(AF_INET);
        let stream = libc::socket(AF_INET, SOCK_STREAM, 0);
        let unix = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        for file in [datagrams, stream, unix] {
            for flags in [
                0x7f,
                OPT_ID,
                OPT_ID_TCP,
                OPT_ID | OPT_ID_TCP,
                TX_SOFTWARE | TX_SCHED | TX_ACK,
                OPT_CMSG | OPT_TSONLY | OPT_PKTINFO,
                OPT_STATS,
                1 << 14,
                BIND_PHC,
                OPT_RX_FILTER,
                1 << 18,
                -1,
            ] {
                tell("stamping", set(file, SOL_SOCKET, STAMPING, flags));
                println!(
                    "  {:#x} {:#x}",
                    option(file, STAMPING),
                    option(file, STAMPING_NEW)
                );
            }
            for name in [STAMPING_NEW, 35, STAMPING, 64, 63] {
                tell("set", set(file, SOL_SOCKET, name, 24));
                let told = NAMES.map(|name| option(file, name));
                let stamping = [STAMPING, STAMPING_NEW].map(|name| option(file, name));
                println!("  {told:?} {stamping:?}");
            }
            tell("off", set(file, SOL_SOCKET, 29, 0));
            let told = NAMES.map(|name| option(file, name));
            println!("  {told:?} {}", option(file, STAMPING_NEW));
            libc::close(file);
        }
    }
}

unsafe fn arrivals(family: c_int) {
    unsafe {
        let (a, b) = (udp(family), udp(family));
        let port = own_port(b);
        for name in NAMES {
            set(b, SOL_SOCKET, name, 1);
            settle();
            send_to(a, b"hello", family, LOCAL, port);
            show("arrival", b, 0);
        }
        set(b, SOL_SOCKET, 29, 0);
        for (name, flags) in [
            (STAMPING, RX_SOFTWARE | SOFTWARE),
            (STAMPING_NEW, RX_SOFTWARE | SOFTWARE),
            (STAMPING, RX_SOFTWARE),
            (STAMPING, SOFTWARE | OPT_RX_FILTER),
            (
                STAMPING,
                RX_SOFTWARE | SOFTWARE | OPT_RX_FILTER | OPT_PKTINFO,
            ),
        ] {
            set(b, SOL_SOCKET, name, flags);
            settle();
            send_to(a, b"hello", family, LOCAL, port);
            show("stamped", b, 0);
        }
        for file in [a, b] {
            libc::close(file);
        }
    }
}

/// Sends with a control message that requests timestamps.
unsafe fn send_asking(file: c_int, bytes: &[u8], flags: &[u8], kind: c_int) -> i64 {
    unsafe {
        let mut room = [0u64; 8];
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(flags.len() as _) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = SOL_SOCKET;
        (*head).cmsg_type = kind;
        (*head).cmsg_len = libc::CMSG_LEN(flags.len() as _) as _;
        ptr::copy_nonoverlapping(flags.as_ptr(), libc::CMSG_DATA(head), flags.len());
        libc::sendmsg(file, &message, 0) as i64
    }
}

unsafe fn sent(family: c_int) {
    unsafe {
        let (a, b) = (udp(family), udp(family));
        inet::connect(a, family, LOCAL, own_port(b));
        const BOTH: c_int = TX_SOFTWARE | TX_SCHED | SOFTWARE;
        let (level, info) = match family {
            AF_INET => (IPPROTO_IP, IP_PKTINFO),
            _ => (IPPROTO_IPV6, IPV6_RECVPKTINFO),
        };
        for (what, flags) in [
            ("whole", BOTH),
            ("only", BOTH | OPT_TSONLY),
            ("numbered", BOTH | OPT_TSONLY | OPT_ID),
            ("not told", TX_SOFTWARE | OPT_TSONLY | OPT_ID),
            ("acknowledged", TX_ACK | SOFTWARE | OPT_ID),
            ("with header", TX_SOFTWARE | SOFTWARE | OPT_CMSG),
            ("without", TX_SOFTWARE | SOFTWARE | OPT_CMSG | OPT_TSONLY),
            ("packet's", TX_SOFTWARE | SOFTWARE | OPT_PKTINFO),
            ("hardware's", 1 | SOFTWARE | OPT_ID),
            ("numbered on", BOTH | OPT_TSONLY | OPT_ID),
        ] {
            set(
                a,
                level,
                info,
                c_int::from(flags & (OPT_CMSG | OPT_PKTINFO) != 0),
            );
            ask(a, flags);
            settle();
            for _ in 0..2 {
                send(a, b"hello", 0);
            }
            ready(what, a, POLLIN | POLLOUT);
            println!("error: {}", option(a, SO_ERROR));
            reports(what, a);
        }
        set(a, level, info, 0);
        ask(a, SOFTWARE | OPT_TSONLY);
        for (flags, kind) in [
            (TX_SOFTWARE, STAMPING),
            (TX_SCHED, STAMPING_NEW),
            (0, STAMPING),
            (SOFTWARE, STAMPING),
        ] {
            let bytes = flags.to_ne_bytes();
            tell("send", send_asking(a, b"hello", &bytes, kind));
            reports("asked", a);
        }
        tell("short", send_asking(a, b"hello", &[2, 0], STAMPING));
        set(a, SOL_SOCKET, 35, 1);
        ask(a, TX_SOFTWARE | SOFTWARE | OPT_TSONLY);
        send(a, b"hello", 0);
        reports("and by the other name", a);
        for file in [a, b] {
            libc::close(file);
        }
    }
}

unsafe fn raw() {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_RAW, 253);
        for flags in [OPT_TSONLY, 0] {
            ask(file, TX_SOFTWARE | TX_SCHED | SOFTWARE | OPT_ID | flags);
            settle();
            tell("raw", send_to(file, b"hello", AF_INET, LOCAL, 0));
            reports("raw", file);
        }
        libc::close(file);
    }
}

unsafe fn ends() -> [c_int; 2] {
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

unsafe fn connection() {
    unsafe {
        for flags in [0, OPT_ID_TCP] {
            let [a, b] = ends();
            send(a, b"before", 0);
            inet::await_acknowledged(a);
            ask(
                a,
                TX_SOFTWARE | TX_SCHED | TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY | flags,
            );
            for bytes in ["12345", "678", ""] {
                tell("send", send(a, bytes.as_bytes(), 0));
                inet::await_acknowledged(a);
                ready("sent", a, POLLIN | POLLOUT);
                reports("sent", a);
            }
            ask(a, SOFTWARE | OPT_TSONLY);
            let asked = TX_ACK.to_ne_bytes();
            tell("send", send_asking(a, b"asked", &asked, STAMPING));
            inet::await_acknowledged(a);
            reports("asked", a);
            tell("unknown", send_asking(a, b"asked", &asked, 99));
            ready("none", a, POLLIN | POLLOUT);
            // Arrival times of messages that came before the request and after it.
            show("before", b, 0);
            for (name, value) in [
                (STAMPING, RX_SOFTWARE | SOFTWARE),
                (STAMPING_NEW, RX_SOFTWARE | SOFTWARE),
                (35, 1),
                (64, 1),
                (29, 1),
            ] {
                set(b, SOL_SOCKET, name, value);
                settle();
                send(a, b"after", 0);
                show("after", b, 0);
            }
            set(b, SOL_SOCKET, 29, 0);
            ask(b, SOFTWARE | OPT_RX_FILTER);
            send(a, b"after", 0);
            show("not asked", b, 0);
            libc::close(a);
            show("end", b, 0);
            libc::close(b);
        }
    }
}

/// An accepted socket inherits the listener's requests.
unsafe fn accepted() {
    unsafe {
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(server, SOL_SOCKET, 35, 1);
        settle();
        inet::bind(server, AF_INET, LOCAL, 0);
        libc::listen(server, 1);
        tell("listening", set(server, SOL_SOCKET, STAMPING, OPT_ID));
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        inet::connect(client, AF_INET, LOCAL, own_port(server));
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        send(client, b"hello", 0);
        println!("inherited: {}", option(accepted, 35));
        show("accepted", accepted, 0);
        for file in [client, accepted, server] {
            libc::close(file);
        }
    }
}

unsafe fn unix() {
    unsafe {
        for kind in [SOCK_DGRAM, SOCK_STREAM] {
            let [a, b] = pair(kind);
            for (name, value) in [
                (STAMPING, RX_SOFTWARE | SOFTWARE | TX_SOFTWARE),
                (29, 1),
                (64, 1),
            ] {
                tell("set", set(b, SOL_SOCKET, name, value));
                send(a, b"hello", 0);
                show("unix", b, 0);
                tell("answer", send(b, b"hello", 0));
                reports("answer", b);
            }
            for file in [a, b] {
                libc::close(file);
            }
        }
    }
}
