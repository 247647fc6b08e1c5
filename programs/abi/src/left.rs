//! The tables of closing connections, and data received after its receiver has closed.

use std::fs;
use std::io::Write;
use std::mem;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use libc::{AF_INET, AF_INET6, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, c_int, c_void};

use crate::{error, inet, tell};

/// Runs this part.
pub fn run() {
    listed("127.0.0.1", AF_INET);
    listed("::1", AF_INET6);
    mapped();
    // SAFETY: every pointer passed is to a live value, or not to be used.
    unsafe {
        discarded();
        filtered();
    }
}

/// Prints the table's entry for the end with these ports, its own first, without columns that
/// differ from run to run.
fn show(what: &str, family: c_int, ports: [u16; 2]) {
    let name = if family == AF_INET { "tcp" } else { "tcp6" };
    let table = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    // Earlier connections may be in TIME_WAIT at the same port.
    let [own, peer] = ports.map(|port| format!(":{port:04X}"));
    let (mut lines, mut state, mut waits) = (0, 0, false);
    for line in table.lines().skip(1) {
        let fields: Vec<_> = line.split_whitespace().collect();
        if !(fields[1].ends_with(&own) && fields[2].ends_with(&peer)) {
            continue;
        }
        lines += 1;
        let timer = fields[5].split_once(':').unwrap_or_default();
        let when = i64::from_str_radix(timer.1, 16).unwrap_or(-1);
        state = u32::from_str_radix(fields[3], 16).unwrap_or(0);
        waits = timer.0 == "03";
        let known = fields[3] == "05" || fields[3] == "06";
        println!(
            "{what}: state {} queues {} timer {} {} rest {:?} wide {}",
            fields[3],
            fields[4],
            timer.0,
            (3000..=6000).contains(&when),
            if timer.0 == "03" {
                &fields[6..11]
            } else {
                &fields[6..7]
            },
            if known && family == AF_INET {
                line.len()
            } else {
                0
            },
        );
    }
    if lines == 0 {
        println!("{what}: not listed in {name}");
    }
    for states in [u32::MAX, 1 << 6, 1 << 5, 1 << 1] {
        let expected = (states >> state & 1 != 0 && lines > 0).then_some((state, waits));
        // SAFETY: `diag` takes only numbers.
        if unsafe { !diag(family, states, ports, expected) } {
            println!("  told otherwise by netlink for states {states:x}");
        }
    }
}

/// Whether NETLINK_SOCK_DIAG reports an end with these ports as expected: its state, and whether it
/// is a TIME_WAIT socket. Linux has a module for this, which may be absent.
unsafe fn diag(family: c_int, states: u32, ports: [u16; 2], expected: Option<(u32, bool)>) -> bool {
    unsafe {
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 4);
        let mut request = [0u8; 72];
        request[..4].copy_from_slice(&72u32.to_ne_bytes());
        request[4..6].copy_from_slice(&20u16.to_ne_bytes());
        request[6..8].copy_from_slice(&0x301u16.to_ne_bytes());
        request[16..18].copy_from_slice(&[family as u8, libc::IPPROTO_TCP as u8]);
        request[20..24].copy_from_slice(&states.to_ne_bytes());
        libc::send(socket, request.as_ptr().cast(), request.len(), 0);
        let (mut bytes, mut found) = (vec![0u8; 1 << 16], None);
        let told = 'all: loop {
            let count = libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), 0);
            let mut rest = &bytes[..count.max(0) as usize];
            while rest.len() >= 16 {
                let len = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes")) as usize;
                match u16::from_ne_bytes([rest[4], rest[5]]) {
                    20 => {}
                    3 => break 'all true,
                    _ => break 'all false,
                }
                let message = &rest[16..len];
                let port = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
                if [port(4), port(6)] == ports {
                    let word = |at: usize| {
                        u32::from_ne_bytes(message[at..at + 4].try_into().expect("four bytes"))
                    };
                    let alone = [56, 60, 64, 68].map(word) == [0; 4] && len == 88;
                    let waits = message[2] == 3 && (30_000..=60_000).contains(&word(52));
                    found = Some((u32::from(message[1]), alone && waits));
                }
                rest = &rest[len.next_multiple_of(4).min(rest.len())..];
            }
            if count <= 0 {
                break false;
            }
        };
        libc::close(socket);
        !told || found == expected
    }
}

fn settle() {
    thread::sleep(Duration::from_millis(200));
    inet::await_answers();
}

fn listed(address: &str, family: c_int) {
    println!("{address}");
    let server = TcpListener::bind((address, 0)).expect("a port");
    let port = server.local_addr().expect("an address").port();
    let client = TcpStream::connect((address, port)).expect("a connection");
    let own = client.local_addr().expect("an address").port();
    let (other, _) = server.accept().expect("a connection");
    show("open", family, [own, port]);
    drop(client);
    settle();
    show("closed", family, [own, port]);
    drop(other);
    settle();
    show("both", family, [own, port]);
    // An end whose socket is still open.
    let client = TcpStream::connect((address, port)).expect("a connection");
    let own = client.local_addr().expect("an address").port();
    let (other, _) = server.accept().expect("a connection");
    _ = client.shutdown(std::net::Shutdown::Write);
    settle();
    show("shut", family, [own, port]);
    drop(other);
    settle();
    show("both", family, [own, port]);
    drop(client);
    settle();
    show("gone", family, [own, port]);
    // The end that closes last does not go to TIME_WAIT.
    let client = TcpStream::connect((address, port)).expect("a connection");
    let own = client.local_addr().expect("an address").port();
    let (other, _) = server.accept().expect("a connection");
    drop(other);
    settle();
    drop(client);
    settle();
    show("the last", family, [own, port]);
}

/// An IPv4 connection of an IPv6 socket is listed in tcp6.
fn mapped() {
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = server.local_addr().expect("an address").port();
    let client = TcpStream::connect(("::ffff:127.0.0.1", port)).expect("a connection");
    let own = client.local_addr().expect("an address").port();
    let (other, _) = server.accept().expect("a connection");
    drop(client);
    drop(other);
    settle();
    show("mapped", AF_INET, [own, port]);
    show("mapped", AF_INET6, [own, port]);
}

/// Bytes that arrive for a closed socket.
unsafe fn discarded() {
    unsafe {
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = server.local_addr().expect("an address").port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let (other, _) = server.accept().expect("a connection");
        let file = other.as_raw_fd();
        _ = client.write_all(b"abcdefghij");
        settle();
        let nowhere = ptr::without_provenance_mut::<c_void>(8);
        let receive = |what: &str, len, flags| {
            let count = libc::recv(file, nowhere, len, flags | MSG_TRUNC);
            tell(what, count as i64);
        };
        receive("peek", 4, MSG_PEEK);
        receive("three", 3, 0);
        let mut bytes = *b"........";
        let count = libc::recv(file, bytes.as_mut_ptr().cast(), 2, 0);
        println!("then {count}: {}", String::from_utf8_lossy(&bytes));
        let mut bytes = *b"........";
        let count = libc::recv(file, bytes.as_mut_ptr().cast(), 2, MSG_TRUNC);
        println!("nothing of {count}: {}", String::from_utf8_lossy(&bytes));
        receive("more than there is", 100, 0);
        receive("none there", 100, MSG_DONTWAIT);
        receive("no length", 0, MSG_DONTWAIT);
        let mut other_end = client.try_clone().expect("a descriptor");
        let writer = thread::spawn(move || {
            for _ in 0..20 {
                _ = other_end.write_all(&[7; 10_000]);
                thread::sleep(Duration::from_millis(2));
            }
        });
        receive("all", 200_000, MSG_WAITALL);
        _ = writer.join();
        receive("none left", 1, MSG_DONTWAIT);
        let mut message: libc::msghdr = mem::zeroed();
        let mut piece = libc::iovec {
            iov_base: nowhere,
            iov_len: 5,
        };
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        _ = client.write_all(b"0123456789");
        settle();
        let count = libc::recvmsg(file, &mut message, MSG_TRUNC);
        println!("a message: {count} {:#x}", message.msg_flags);
        drop(client);
        receive("the rest", 100, MSG_WAITALL);
        receive("the end", 100, 0);
    }
}

/// The netlink messages that a socket filter passes.
unsafe fn filtered() {
    unsafe {
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
        let attach = |code: &[(u16, u8, u8, u32)]| {
            let mut code: Vec<_> = code
                .iter()
                .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
                .collect();
            let program = libc::sock_fprog {
                len: code.len() as u16,
                filter: code.as_mut_ptr(),
            };
            let (at, len) = (ptr::from_ref(&program).cast(), size_of_val(&program) as u32);
            let name = libc::SO_ATTACH_FILTER;
            tell(
                "attach",
                libc::setsockopt(socket, libc::SOL_SOCKET, name, at, len),
            );
        };
        ask(socket);
        attach(&[(6, 0, 0, 0)]);
        ask(socket);
        // Passes only acknowledgements, by the message type.
        attach(&[
            (0x28, 0, 0, 4),
            (0x15, 0, 1, 0x0200),
            (6, 0, 0, u32::MAX),
            (6, 0, 0, 0),
        ]);
        ask(socket);
        attach(&[(6, 0, 0, 20)]);
        ask(socket);
        // Ancillary data of the message: the protocol, and the interface, which does not exist.
        attach(&[
            (0x28, 0, 0, (-0x1000i32) as u32),
            (0x15, 0, 1, 0),
            (6, 0, 0, 18),
            (6, 0, 0, 17),
        ]);
        ask(socket);
        attach(&[(0x20, 0, 0, (-0x1000i32 + 8) as u32), (6, 0, 0, 20)]);
        ask(socket);
        let name = libc::SO_DETACH_FILTER;
        let none = 0u32;
        let done = libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            name,
            ptr::from_ref(&none).cast(),
            4,
        );
        tell("detach", done);
        ask(socket);
        libc::close(socket);
    }
}

/// Requests the interface (RTM_GETLINK) with an acknowledgement; prints the types of the messages
/// and the lengths of truncated ones.
unsafe fn ask(socket: c_int) {
    unsafe {
        let mut request = [0u8; 32];
        request[..4].copy_from_slice(&32u32.to_ne_bytes());
        request[4..6].copy_from_slice(&18u16.to_ne_bytes());
        request[6..8].copy_from_slice(&5u16.to_ne_bytes());
        request[20..24].copy_from_slice(&1u32.to_ne_bytes());
        let sent = libc::send(socket, request.as_ptr().cast(), request.len(), 0);
        tell("send", sent as i64);
        let mut bytes = vec![0u8; 1 << 16];
        loop {
            let count = libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), MSG_DONTWAIT);
            if count < 0 {
                println!("  {}", error());
                return;
            }
            let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
            let len = if count > 20 { 0 } else { count };
            println!("  kind {kind} of {len}");
        }
    }
}
