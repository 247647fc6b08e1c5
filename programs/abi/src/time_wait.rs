//! TCP connections after their socket is closed (FIN_WAIT2, TIME_WAIT), and ports that connections
//! share.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, ptr, thread};

use libc::{
    AF_INET, IPPROTO_IP, IPPROTO_TCP, MSG_NOSIGNAL, SHUT_WR, SO_ERROR, SO_LINGER, SO_REUSEADDR,
    SO_REUSEPORT, SOCK_STREAM, SOL_SOCKET, c_int,
};

use crate::inet::{self, own_port};
use crate::unix::{option, send, set};
use crate::{tell, tell_ok};

const LOCAL: u32 = 0x7f00_0001;
const LINGER2: c_int = 8;
const BIND_ADDRESS_NO_PORT: c_int = 24;
/// Local ports of connections in these tests, which no other test gets.
const PORTS: Range<u16> = 61_000..61_100;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let before = content("ip_local_port_range");
        write_ports(PORTS);
        shared();
        binding();
        reused();
        bounded();
        reset();
        half_closed();
        write("ip_local_port_range", &before);
    }
}

pub fn content(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
}

pub fn write(name: &str, text: &str) {
    let done = fs::write(format!("/proc/sys/net/ipv4/{name}"), text.trim_end());
    if done.is_err() {
        println!("{name}: not written");
    }
}

fn write_ports(ports: Range<u16>) {
    let range = format!("{} {}", ports.start, ports.end - 1);
    write("ip_local_port_range", &range);
}

fn settle() {
    thread::sleep(Duration::from_millis(100));
    inet::await_answers();
}

/// A listener, with SO_REUSEADDR set to `reuse`.
unsafe fn server(reuse: c_int) -> c_int {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(file, SOL_SOCKET, SO_REUSEADDR, reuse);
        // Outside of the range from which local ports are chosen.
        let port = (20_000..21_000).find(|&port| inet::bind(file, AF_INET, LOCAL, port) == 0);
        tell_ok("bind", port.is_some());
        tell_ok("listen", libc::listen(file, 1000) == 0);
        file
    }
}

unsafe fn client(reuse: c_int) -> c_int {
    unsafe {
        let file = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(file, SOL_SOCKET, SO_REUSEADDR, reuse);
        file
    }
}

/// The same, with a port that nobody has used lately: other tests' ends may be in TIME_WAIT.
unsafe fn client_apart(reuse: c_int) -> c_int {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.end);
    let first = NEXT.fetch_add(10, Relaxed);
    write_ports(first..first + 10);
    unsafe { client(reuse) }
}

unsafe fn accept(server: c_int) -> c_int {
    unsafe { libc::accept(server, ptr::null_mut(), ptr::null_mut()) }
}

unsafe fn connect(file: c_int, port: u16) -> c_int {
    unsafe { inet::connect(file, AF_INET, LOCAL, port) }
}

/// Connects to a server until that fails; returns the ends of each connection.
unsafe fn connect_all(server: c_int) -> Vec<[c_int; 2]> {
    unsafe {
        let (port, mut ends) = (own_port(server), Vec::new());
        loop {
            let file = client(0);
            if connect(file, port) != 0 || ends.len() > 2 * PORTS.len() {
                println!("connections: {}", ends.len());
                tell("one more", -1);
                libc::close(file);
                return ends;
            }
            ends.push([file, accept(server)]);
        }
    }
}

/// Binds a new socket to a port, without and with SO_REUSEADDR.
unsafe fn bind_to(what: &str, port: u16) {
    unsafe {
        for reuse in [0, 1] {
            let file = client(reuse);
            let bound = inet::bind(file, AF_INET, LOCAL, port);
            tell(&format!("{what}, {reuse}"), bound);
            if bound == 0 {
                tell("  listen", libc::listen(file, 1));
            }
            libc::close(file);
        }
    }
}

/// A port can have one connection to each server.
unsafe fn shared() {
    unsafe {
        let (one, other) = (server(1), server(1));
        let first = connect_all(one);
        let second = connect_all(other);
        let file = client(0);
        tell("bind to any", inet::bind(file, AF_INET, LOCAL, 0));
        set(file, IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1);
        tell("bind to none", inet::bind(file, AF_INET, LOCAL, 0));
        tell("connect", connect(file, own_port(one)));
        let third = server(1);
        tell("connect", connect(file, own_port(third)));
        println!("among them: {}", PORTS.contains(&own_port(file)));
        libc::close(file);
        bind_to("bind", PORTS.start + 50);
        // The clients close first: their ends go to TIME_WAIT.
        for &[client, server] in first.iter().chain(&second) {
            libc::close(client);
            libc::close(server);
        }
        settle();
        let before = content("tcp_tw_reuse");
        write("tcp_tw_reuse", "0");
        let file = client(0);
        tell("not reused", connect(file, own_port(one)));
        libc::close(file);
        write("tcp_tw_reuse", &before);
        thread::sleep(Duration::from_millis(2100));
        for [client, server] in connect_all(one) {
            // A reset leaves no end in TIME_WAIT.
            let linger: [c_int; 2] = [1, 0];
            set(client, SOL_SOCKET, SO_LINGER, linger);
            libc::close(client);
            libc::close(server);
        }
        for file in [one, other, third] {
            libc::close(file);
        }
    }
}

/// Sockets that may bind to the port of an end in TIME_WAIT or FIN_WAIT2.
unsafe fn binding() {
    unsafe {
        for reuse in [0, 1] {
            let listener = server(reuse);
            let port = own_port(listener);
            // The client closes first.
            let file = client_apart(reuse);
            tell("connect", connect(file, port));
            let (own, accepted) = (own_port(file), accept(listener));
            libc::close(file);
            settle();
            bind_to("FIN_WAIT2", own);
            libc::close(accepted);
            settle();
            bind_to("TIME_WAIT", own);
            // The server closes first.
            let file = client_apart(reuse);
            tell("connect", connect(file, port));
            let (own, accepted) = (own_port(file), accept(listener));
            libc::close(accepted);
            settle();
            libc::close(file);
            libc::close(listener);
            settle();
            bind_to("the client's", own);
            bind_to("the server's", port);
        }
        // Sockets with SO_REUSEPORT also share a port with an end that is in TIME_WAIT.
        let share = |file| {
            set(file, SOL_SOCKET, SO_REUSEPORT, 1);
            file
        };
        let listener = server(0);
        let file = share(client_apart(0));
        tell("connect", connect(file, own_port(listener)));
        let (own, accepted) = (own_port(file), accept(listener));
        libc::close(file);
        libc::close(accepted);
        settle();
        let file = share(client(0));
        tell("shared", inet::bind(file, AF_INET, LOCAL, own));
        libc::close(file);
        libc::close(listener);
    }
}

/// A bound port can connect again at once, once the other end is gone.
unsafe fn reused() {
    unsafe {
        let listener = server(1);
        let port = own_port(listener);
        let mut own = 0;
        for round in 0..3 {
            let file = client_apart(1);
            tell("bind", inet::bind(file, AF_INET, LOCAL, own));
            own = own_port(file);
            tell("connect", connect(file, port));
            let again = client(1);
            let bound = inet::bind(again, AF_INET, LOCAL, own);
            tell("bind", bound);
            tell("twice", connect(again, port));
            libc::close(again);
            let accepted = accept(listener);
            let order = if round == 1 {
                [accepted, file]
            } else {
                [file, accepted]
            };
            for file in order {
                libc::close(file);
                settle();
            }
        }
        libc::close(listener);
    }
}

/// The number of ends in TIME_WAIT is limited by net.ipv4.tcp_max_tw_buckets.
unsafe fn bounded() {
    unsafe {
        let before = content("tcp_max_tw_buckets");
        write("tcp_max_tw_buckets", "0");
        let listener = server(0);
        let file = client_apart(0);
        tell("connect", connect(file, own_port(listener)));
        let (own, accepted) = (own_port(file), accept(listener));
        libc::close(file);
        libc::close(accepted);
        settle();
        bind_to("none waits", own);
        libc::close(listener);
        write("tcp_max_tw_buckets", &before);
    }
}

unsafe fn reset() {
    unsafe {
        for of_client in [true, false] {
            let listener = server(0);
            let file = client_apart(0);
            tell("connect", connect(file, own_port(listener)));
            let (own, accepted) = (own_port(file), accept(listener));
            let (first, second) = if of_client {
                (file, accepted)
            } else {
                (accepted, file)
            };
            let linger: [c_int; 2] = [1, 0];
            set(first, SOL_SOCKET, SO_LINGER, linger);
            libc::close(first);
            libc::close(second);
            settle();
            bind_to("reset", own);
            libc::close(listener);
        }
    }
}

/// TCP_LINGER2: the time that an end spends in FIN_WAIT2.
unsafe fn half_closed() {
    unsafe {
        for seconds in [5, 0] {
            let listener = server(0);
            let file = client_apart(0);
            tell("connect", connect(file, own_port(listener)));
            let (own, accepted) = (own_port(file), accept(listener));
            tell("linger", set(file, IPPROTO_TCP, LINGER2, seconds));
            libc::close(file);
            thread::sleep(Duration::from_millis(100));
            bind_to("at once", own);
            thread::sleep(Duration::from_millis(7500));
            bind_to("later", own);
            tell("shutdown", libc::shutdown(accepted, SHUT_WR));
            settle();
            tell("error", option(accepted, SO_ERROR));
            tell("send", send(accepted, b"x", MSG_NOSIGNAL));
            libc::close(accepted);
            libc::close(listener);
        }
    }
}

/// Many more connections than there are ports, to one server and then to another: they do not run
/// out. Runs as a part of its own.
pub fn many() {
    // SAFETY: no pointer is passed.
    unsafe {
        let before = content("ip_local_port_range");
        write_ports(62_000..63_000);
        for _ in 0..2 {
            let listener = server(1);
            let port = own_port(listener);
            let mut failed = 0;
            for _ in 0..2500 {
                let mut file = client(0);
                if connect(file, port) != 0 {
                    // A port is not reused within a second.
                    libc::close(file);
                    thread::sleep(Duration::from_millis(1100));
                    file = client(0);
                    failed += u32::from(connect(file, port) != 0);
                }
                let accepted = accept(listener);
                libc::close(file);
                libc::close(accepted);
            }
            println!("failed: {failed}");
            libc::close(listener);
        }
        write("ip_local_port_range", &before);
        let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
        let mut words = text.split_whitespace();
        let waiting = words.find(|&word| word == "tw").and_then(|_| words.next());
        let waiting: usize = waiting.and_then(|count| count.parse().ok()).unwrap_or(0);
        let most = content("tcp_max_tw_buckets").trim().parse().unwrap_or(0);
        println!("some wait: {}", waiting > 0);
        println!("not too many: {}", waiting <= most);
    }
}
