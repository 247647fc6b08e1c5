//! TCP connections that a listener with a full queue does not answer: the waits for them,
//! operations on pending sockets, and timeouts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, mem, ptr, thread};

use libc::{
    AF_INET, F_SETFL, IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, SHUT_RDWR,
    SO_ERROR, SO_SNDTIMEO, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, c_int, c_short, timeval,
};

use crate::inet::{self, name, own_port};
use crate::pipes::ready;
use crate::tell;
use crate::unix::{option, receive, send, set};

const LOCAL: u32 = 0x7f00_0001;
const SYNCNT: c_int = 7;
const USER_TIMEOUT: c_int = 18;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        many();
        begun();
        given_up();
        shut();
        waited_for();
        closed();
        timed_out();
        at_once();
    }
}

unsafe fn socket(flags: c_int) -> c_int {
    unsafe { libc::socket(AF_INET, SOCK_STREAM | flags, 0) }
}

unsafe fn connect(file: c_int, port: u16) -> c_int {
    unsafe { inet::connect(file, AF_INET, LOCAL, port) }
}

/// A listener and its port.
unsafe fn server(backlog: c_int) -> (c_int, u16) {
    unsafe {
        let file = socket(0);
        inet::bind(file, AF_INET, LOCAL, 0);
        tell("listen", libc::listen(file, backlog));
        (file, own_port(file))
    }
}

/// A listener whose queue one connection has filled.
unsafe fn full() -> (c_int, u16, c_int) {
    unsafe {
        let (listener, port) = server(0);
        let first = socket(0);
        tell("the first", connect(first, port));
        (listener, port, first)
    }
}

unsafe fn accept(listener: c_int) {
    unsafe {
        let accepted = libc::accept(listener, ptr::null_mut(), ptr::null_mut());
        println!("accepted: {}", accepted >= 0);
        libc::close(accepted);
    }
}

/// Waits until the socket is writable or has an error.
unsafe fn wait(file: c_int, milliseconds: c_int) -> bool {
    unsafe { wait_for(file, POLLOUT, milliseconds) }
}

unsafe fn wait_for(file: c_int, events: c_short, milliseconds: c_int) -> bool {
    let mut entry = libc::pollfd {
        fd: file,
        events,
        revents: 0,
    };
    unsafe { libc::poll(&mut entry, 1, milliseconds) == 1 }
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

fn state(file: c_int) -> u8 {
    let (mut info, mut length) = ([0u8; 248], 248);
    // SAFETY: pointer and length are of the buffer.
    unsafe {
        libc::getsockopt(
            file,
            IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    info[0]
}

/// Of many non-blocking connections, the queue takes one more than its backlog.
unsafe fn many() {
    unsafe {
        let (listener, port) = server(1);
        let files = [(); 8].map(|()| socket(SOCK_NONBLOCK));
        for file in files {
            tell("begun", connect(file, port));
        }
        let connected = files.iter().filter(|&&file| wait(file, 300)).count();
        println!("connected: {connected}");
        for file in files {
            libc::close(file);
        }
        libc::close(listener);
    }
}

/// Operations on pending connections.
unsafe fn begun() {
    unsafe {
        let (listener, port, first) = full();
        let file = socket(SOCK_NONBLOCK);
        tell("begun", connect(file, port));
        ready("ready", file, POLLIN | POLLOUT);
        println!("state {} error {}", state(file), option(file, SO_ERROR));
        let own = own_port(file);
        println!("has a port: {}", own != 0);
        println!("listed: {}", listed(own, port));
        name("peer", file, libc::getpeername);
        tell("send", send(file, b"early", MSG_NOSIGNAL));
        receive("receive", file, 8, 0);
        tell("bind", inet::bind(file, AF_INET, LOCAL, 0));
        tell("listen", libc::listen(file, 1));
        tell("again", connect(file, port));
        accept(listener);
        println!("in the end: {}", wait(file, 20_000));
        ready("ready", file, POLLIN | POLLOUT);
        println!("state {} error {}", state(file), option(file, SO_ERROR));
        println!("the same port: {}", own_port(file) == own);
        tell("again", connect(file, port));
        tell("again", connect(file, port));
        tell("send", send(file, b"early", MSG_NOSIGNAL));
        for file in [file, first, listener] {
            libc::close(file);
        }
    }
}

/// Whether /proc/net/tcp lists a connection between these ports as SYN_SENT.
fn listed(own: u16, port: u16) -> bool {
    let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let line = format!(" 0100007F:{own:04X} 0100007F:{port:04X} 02 ");
    text.contains(&line)
}

/// A pending connection can be cancelled, and then never reaches the listener.
unsafe fn given_up() {
    unsafe {
        let (listener, port, first) = full();
        let file = socket(SOCK_NONBLOCK);
        tell("begun", connect(file, port));
        let none: libc::sockaddr = mem::zeroed();
        let length = mem::size_of_val(&none) as libc::socklen_t;
        tell("dissolved", libc::connect(file, &none, length));
        println!("state {} error {}", state(file), option(file, SO_ERROR));
        tell("begun", connect(file, port));
        tell("shut", libc::shutdown(file, SHUT_RDWR));
        println!("state {} error {}", state(file), option(file, SO_ERROR));
        ready("ready", file, POLLIN | POLLOUT);
        tell("begun", connect(file, port));
        libc::close(file);
        accept(listener);
        pause(1500);
        ready("nothing comes", listener, POLLIN);
        libc::close(first);
        libc::close(listener);
    }
}

/// SO_SNDTIMEO ends a call, but not the connection that it began.
unsafe fn shut() {
    unsafe {
        let (listener, port, first) = full();
        let file = socket(0);
        let time = |milliseconds: i64| timeval {
            tv_sec: 0,
            tv_usec: milliseconds * 1000,
        };
        set(file, SOL_SOCKET, SO_SNDTIMEO, time(100));
        tell("connect", connect(file, port));
        tell("again", connect(file, port));
        set(file, SOL_SOCKET, SO_SNDTIMEO, time(0));
        accept(listener);
        tell("in the end", connect(file, port));
        for file in [file, first, listener] {
            libc::close(file);
        }
    }
}

/// Blocking sends and receives wait until the connection is established.
unsafe fn waited_for() {
    unsafe {
        let (listener, port, first) = full();
        let file = socket(SOCK_NONBLOCK);
        tell("begun", connect(file, port));
        libc::fcntl(file, F_SETFL, 0);
        tell("send now", send(file, b"later", MSG_DONTWAIT));
        thread::scope(|scope| {
            let sent = scope.spawn(move || send(file, b"later", 0));
            pause(200);
            accept(listener);
            tell("sent", sent.join().unwrap_or(-1));
        });
        let accepted = libc::accept(listener, ptr::null_mut(), ptr::null_mut());
        receive("what came", accepted, 8, 0);
        for file in [accepted, file, first, listener] {
            libc::close(file);
        }
    }
}

/// A listener that closes refuses pending connections when they try again.
unsafe fn closed() {
    unsafe {
        let (listener, port, first) = full();
        let files = [(); 2].map(|()| socket(SOCK_NONBLOCK));
        for file in files {
            tell("begun", connect(file, port));
        }
        libc::close(listener);
        for file in files {
            println!("in the end: {}", wait(file, 20_000));
            ready("ready", file, POLLIN | POLLOUT);
            println!("refused: {}", option(file, SO_ERROR) == libc::ECONNREFUSED);
            libc::close(file);
        }
        libc::close(first);
    }
}

/// A pending connection times out after the number of tries of TCP_SYNCNT, or by TCP_USER_TIMEOUT.
unsafe fn timed_out() {
    unsafe {
        let (listener, port, first) = full();
        for (what, flags) in [("one try", SOCK_NONBLOCK), ("one try, waited for", 0)] {
            let file = socket(flags);
            tell(what, set(file, IPPROTO_TCP, SYNCNT, 1));
            tell("connect", connect(file, port));
            if flags != 0 {
                println!("in the end: {}", wait(file, 60_000));
                ready("ready", file, POLLIN | POLLOUT);
                let error = option(file, SO_ERROR);
                println!("timed out: {}", error == libc::ETIMEDOUT);
            }
            println!("state {}", state(file));
            libc::close(file);
        }
        let file = socket(SOCK_NONBLOCK);
        tell("begun", connect(file, port));
        tell("two seconds", set(file, IPPROTO_TCP, USER_TIMEOUT, 2000));
        println!("in the end: {}", wait(file, 60_000));
        tell("connect", connect(file, port));
        tell("begun anew", connect(file, port));
        for file in [file, first, listener] {
            libc::close(file);
        }
    }
}

/// A program that sees POLLOUT can continue at once.
unsafe fn at_once() {
    const COUNT: usize = 64;
    unsafe {
        let (listener, port, first) = full();
        let files: Vec<c_int> = (0..COUNT).map(|_| socket(SOCK_NONBLOCK)).collect();
        for &file in &files {
            connect(file, port);
        }
        let done = AtomicBool::new(false);
        let connected = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    if wait_for(listener, POLLIN, 10) {
                        libc::close(libc::accept(listener, ptr::null_mut(), ptr::null_mut()));
                    }
                }
            });
            let connected = files.iter().filter(|&&file| {
                while !wait(file, 0) {
                    thread::yield_now();
                }
                connect(file, port) == 0
            });
            let connected = connected.count();
            done.store(true, Relaxed);
            connected
        });
        println!("connected at once: {}", connected == COUNT);
        for file in files.into_iter().chain([first, listener]) {
            libc::close(file);
        }
    }
}
