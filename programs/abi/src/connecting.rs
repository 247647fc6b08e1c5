//! Establishing TCP connections, or failing to: the ports that they take and release, and two calls
//! that connect one socket.

use std::sync::mpsc;
use std::time::Duration;
use std::{fs, ptr, thread};

use libc::{
    AF_INET, F_SETFL, IPPROTO_IP, IPPROTO_TCP, O_NONBLOCK, POLLOUT, SO_ERROR, SOCK_STREAM,
    SOL_SOCKET, c_int,
};

use crate::doing::await_state;
use crate::inet::{self, name, own_port};
use crate::pipes::ready;
use crate::tell;
use crate::time_wait::{content, write};
use crate::unix::{option, set};

const LOCAL: u32 = 0x7f00_0001;
const LINGER2: c_int = 8;
const BIND_ADDRESS_NO_PORT: c_int = 24;
const LOCAL_PORT_RANGE: c_int = 51;
/// A port without a listener.
const NOBODY: u16 = 3;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        from_own_ports(expired);
        late();
        late_unix();
        twice(false);
        twice(true);
        from_own_ports(given_back);
    }
}

/// Runs a part whose connections use local ports that no other test uses.
unsafe fn from_own_ports(part: unsafe fn()) {
    const RANGE: &str = "ip_local_port_range";
    let before = content(RANGE);
    write(RANGE, "61100 61199");
    unsafe { part() };
    write(RANGE, &before);
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

unsafe fn socket() -> c_int {
    unsafe { libc::socket(AF_INET, SOCK_STREAM, 0) }
}

/// A socket whose only possible local port is `port`.
unsafe fn socket_from(port: u16) -> c_int {
    unsafe {
        let file = socket();
        let range = u32::from(port) << 16 | u32::from(port);
        tell("range", set(file, IPPROTO_IP, LOCAL_PORT_RANGE, range));
        file
    }
}

unsafe fn bind(file: c_int, port: u16) -> c_int {
    unsafe { inet::bind(file, AF_INET, LOCAL, port) }
}

unsafe fn connect(file: c_int, port: u16) -> c_int {
    unsafe { inet::connect(file, AF_INET, LOCAL, port) }
}

unsafe fn accept(server: c_int) -> c_int {
    unsafe { libc::accept(server, ptr::null_mut(), ptr::null_mut()) }
}

/// A listener at a port that connect(2) does not choose.
unsafe fn server(backlog: c_int) -> c_int {
    unsafe {
        let file = socket();
        let port = (21_000..22_000).find(|&port| bind(file, port) == 0);
        tell("bound", i64::from(port.is_some()));
        tell("listen", libc::listen(file, backlog));
        file
    }
}

/// A port is free again once no connection waits at it.
unsafe fn expired() {
    unsafe {
        let listener = server(10);
        let port = own_port(listener);
        let file = socket_from(61_101);
        tell("linger", set(file, IPPROTO_TCP, LINGER2, 5));
        tell("connect", connect(file, port));
        let accepted = accept(listener);
        libc::close(file);
        let file = socket_from(61_101);
        pause(100);
        tell("at once", connect(file, port));
        pause(7500);
        tell("later", connect(file, port));
        for file in [file, accepted, listener] {
            libc::close(file);
        }
    }
}

fn waiting() -> usize {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let mut words = text.split_whitespace();
    let waiting = words.find(|&word| word == "tw").and_then(|_| words.next());
    waiting.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A failed connection leaves nothing at the listener's port.
unsafe fn late() {
    unsafe {
        let listener = server(0);
        let port = own_port(listener);
        let first = socket();
        tell("the first", connect(first, port));
        let before = waiting();
        let children = [0; 3].map(|_| {
            let child = libc::fork();
            if child == 0 {
                libc::close(listener);
                let result = connect(socket(), port);
                let error = std::io::Error::last_os_error().raw_os_error();
                libc::_exit(if result == 0 { 0 } else { error.unwrap_or(255) });
            }
            child
        });
        children.iter().for_each(|&child| await_state(child, "S"));
        libc::close(listener);
        for child in children {
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            let refused = libc::WEXITSTATUS(status) == libc::ECONNREFUSED;
            println!("refused: {refused}");
        }
        println!("none waits: {}", waiting() <= before);
        let again = socket();
        tell("bind", bind(again, port));
        tell("listen", libc::listen(again, 1));
        libc::close(again);
        libc::close(first);
    }
}

/// The same for Unix sockets.
unsafe fn late_unix() {
    unsafe {
        let socket = || libc::socket(libc::AF_UNIX, SOCK_STREAM, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as _;
        address.sun_path[1] = b'l' as _;
        let (at, len) = ((&raw const address).cast::<libc::sockaddr>(), 4);
        let listener = socket();
        tell("bind", libc::bind(listener, at, len));
        tell("listen", libc::listen(listener, 0));
        tell("the first", libc::connect(socket(), at, len));
        let child = libc::fork();
        if child == 0 {
            libc::close(listener);
            tell("the second", libc::connect(socket(), at, len));
            libc::_exit(0);
        }
        await_state(child, "S");
        libc::close(listener);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// Starts a thread that connects, and waits until it blocks in that call.
unsafe fn connect_waiting<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    file: c_int,
    port: u16,
) -> thread::ScopedJoinHandle<'scope, c_int> {
    let (tell_id, id) = mpsc::channel();
    let begun = scope.spawn(move || unsafe {
        _ = tell_id.send(libc::gettid());
        connect(file, port)
    });
    await_state(id.recv().unwrap_or(0), "S");
    begun
}

/// A second call waits for the connection that the first began.
unsafe fn twice(may_wait: bool) {
    unsafe {
        let listener = server(0);
        let port = own_port(listener);
        let first = socket();
        tell("the first", connect(first, port));
        let file = socket();
        thread::scope(|scope| {
            let begun = connect_waiting(scope, file, port);
            let own = own_port(file);
            println!("has a port: {}", own != 0);
            tell("bind", bind(file, 0));
            tell("listen", libc::listen(file, 1));
            let other = socket();
            tell("bind to its port", bind(other, own));
            let second = may_wait.then(|| connect_waiting(scope, file, port));
            if !may_wait {
                libc::fcntl(file, F_SETFL, O_NONBLOCK);
                tell("again", connect(file, port));
                tell("again, elsewhere", connect(file, NOBODY));
            }
            println!("the same port: {}", own_port(file) == own);
            libc::close(accept(listener));
            tell("begun", begun.join().unwrap_or(-1));
            if let Some(second) = second {
                tell("the second", second.join().unwrap_or(-1));
            }
            tell("connected", connect(file, port));
            println!("the same port: {}", own_port(file) == own);
            tell("bind to its port", bind(other, own));
            libc::close(other);
        });
        for file in [file, first, listener] {
            libc::close(file);
        }
    }
}

/// A refused socket releases its port, and may be bound.
unsafe fn given_back() {
    unsafe {
        let file = socket();
        for round in 0..2 {
            tell("refused", connect(file, NOBODY));
            name("name", file, libc::getsockname);
            tell("bind", bind(file, if round == 0 { 0 } else { 22_001 }));
            name("name", file, libc::getsockname);
        }
        libc::close(file);

        let file = libc::socket(AF_INET, SOCK_STREAM | libc::SOCK_NONBLOCK, 0);
        tell("begun", connect(file, NOBODY));
        ready("ready", file, POLLOUT);
        tell("bind, not asked yet", bind(file, 0));
        println!("error: {}", option(file, SO_ERROR) == libc::ECONNREFUSED);
        tell("bind", bind(file, 0));
        libc::close(file);

        let (file, other) = (socket_from(61_103), socket());
        tell("refused", connect(file, NOBODY));
        tell("its port for another", bind(other, 61_103));
        tell("none left", connect(file, NOBODY));
        name("name", file, libc::getsockname);
        libc::close(other);
        tell("refused", connect(file, NOBODY));
        println!("its port: {}", own_port(file));
        libc::close(file);

        let file = socket();
        set(file, IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1);
        tell("bind to none", bind(file, 0));
        tell("once more", bind(file, 0));
        tell("refused", connect(file, NOBODY));
        name("name", file, libc::getsockname);
        tell("bind", bind(file, 22_003));
        tell("once more", bind(file, 22_003));
        println!("error: {}", option(file, SO_ERROR));
        tell("type", set(file, SOL_SOCKET, libc::SO_REUSEADDR, 1));
        libc::close(file);
    }
}
