//! How long a TCP connection waits for a peer that does not read (TCP_USER_TIMEOUT), and the
//! wake-ups of writers.

use std::time::{Duration, Instant};
use std::{fs, mem, ptr, thread};

use libc::{
    AF_INET, EPOLLET, EPOLLOUT, IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, SO_ERROR,
    SO_LINGER, SOCK_STREAM, SOL_SOCKET, c_int,
};

use crate::inet::{self, own_port};
use crate::pipes::ready;
use crate::tell;
use crate::undisturbed;
use crate::unix::{option, receive, send, set};

const MAXSEG: c_int = 2;
const CORK: c_int = 3;
const USER_TIMEOUT: c_int = 18;
const NOTSENT_LOWAT: c_int = 25;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        changed();
        cleared();
        inherited();
        blocked();
        unread();
        idle();
        sent();
        lingering();
    }
}

/// The two ends of a connection with segments of 988 bytes; the accepted end has the listener's
/// timeout.
unsafe fn pair(timeout: c_int) -> [c_int; 2] {
    let (ends, done) = unsafe { connected(timeout) };
    tell("connect", done);
    ends
}

/// The same, and the result of connect(2).
unsafe fn connected(timeout: c_int) -> ([c_int; 2], c_int) {
    unsafe {
        let server = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(server, IPPROTO_TCP, USER_TIMEOUT, timeout);
        inet::bind(server, AF_INET, 0x7f00_0001, 0);
        libc::listen(server, 1);
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        set(client, IPPROTO_TCP, MAXSEG, 1000);
        let done = inet::connect(client, AF_INET, 0x7f00_0001, own_port(server));
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        libc::close(server);
        ([client, accepted], done)
    }
}

unsafe fn close(ends: [c_int; 2]) {
    for end in ends {
        unsafe { libc::close(end) };
    }
}

fn set_timeout(file: c_int, milliseconds: c_int) {
    let done = set(file, IPPROTO_TCP, USER_TIMEOUT, milliseconds);
    tell("timeout", done);
}

fn fill(file: c_int) {
    while send(file, &[1; 60_000], MSG_DONTWAIT) > 0 {}
    tell("full", -1);
}

/// Waits for an error or the end of the connection.
unsafe fn wait(what: &str, file: c_int, milliseconds: c_int) {
    let mut entry = libc::pollfd {
        fd: file,
        events: 0,
        revents: 0,
    };
    tell(what, unsafe { libc::poll(&mut entry, 1, milliseconds) });
}

/// A timeout that is set while another runs takes effect.
unsafe fn changed() {
    unsafe {
        let [a, b] = pair(0);
        set_timeout(a, 600_000);
        fill(a);
        wait("long", a, 1000);
        set_timeout(a, 300);
        wait("short", a, 60_000);
        tell("error", option(a, SO_ERROR));
        close([a, b]);
    }
}

/// A timeout that is cleared has no effect.
unsafe fn cleared() {
    unsafe {
        let [a, b] = pair(0);
        set_timeout(a, 5000);
        fill(a);
        set_timeout(a, 0);
        wait("none", a, 6000);
        fill(a);
        set_timeout(a, 300);
        wait("again", a, 60_000);
        tell("error", option(a, SO_ERROR));
        close([a, b]);
    }
}

unsafe fn inherited() {
    unsafe {
        let [a, b] = pair(5000);
        fill(b);
        wait("accepted", b, 60_000);
        tell("error", option(b, SO_ERROR));
        close([a, b]);
    }
}

/// A writer that waits for room gets the error, not end-of-file.
unsafe fn blocked() {
    unsafe {
        for _ in 0..3 {
            let [a, b] = pair(0);
            set_timeout(a, 5000);
            fill(a);
            while send(a, &[1; 60_000], MSG_NOSIGNAL) > 0 {}
            tell("send", -1);
            ready("events", a, POLLIN | POLLOUT | libc::POLLRDHUP);
            tell("send", send(a, b"x", MSG_NOSIGNAL));
            close([a, b]);
        }
    }
}

/// Data that arrived earlier can still be read.
unsafe fn unread() {
    unsafe {
        let [a, b] = pair(0);
        tell("send", send(b, b"hello", 0));
        set_timeout(a, 5000);
        fill(a);
        wait("poll", a, 60_000);
        receive("unread", a, 64, MSG_DONTWAIT);
        receive("error", a, 64, MSG_DONTWAIT);
        receive("end", a, 64, MSG_DONTWAIT);
        close([a, b]);
    }
}

/// The number of context switches of the machine.
fn switches() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The kernel does not poll a peer that does not read but has room.
unsafe fn idle() {
    unsafe {
        let ends: Vec<_> = (0..80).map(|_| connected(0).0).collect();
        let sent = ends.iter().filter(|&&[a, _]| {
            // Spreads the times at which each would be polled.
            thread::sleep(Duration::from_millis(2));
            set(a, IPPROTO_TCP, USER_TIMEOUT, 1);
            send(a, b"hello", 0) == 5
        });
        println!("sent: {}", sent.count());
        // Other activity may end meanwhile.
        let busy = (0..10).all(|_| {
            let before = switches();
            thread::sleep(Duration::from_secs(2));
            switches() - before > 600
        });
        println!("busy: {busy}");
        ready("events", ends[0][0], POLLIN | POLLOUT);
        ends.into_iter().for_each(|ends| close(ends));
    }
}

/// A writer that waits for little unsent data (TCP_NOTSENT_LOWAT) is woken when a whole segment was
/// sent.
unsafe fn sent() {
    unsafe {
        for more in [928, 930] {
            undisturbed::run(|| {
                let [a, b] = pair(0);
                set(a, IPPROTO_TCP, NOTSENT_LOWAT, 100);
                set(a, IPPROTO_TCP, CORK, 1);
                let poll = libc::epoll_create1(0);
                let mut event: libc::epoll_event = mem::zeroed();
                let begun = Instant::now();
                tell("send", send(a, &[1; 60], 0));
                event.events = (EPOLLOUT | EPOLLET) as u32;
                libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, a, &mut event);
                tell("before", libc::epoll_wait(poll, &mut event, 1, 0));
                tell("send", send(a, &vec![1; more], 0));
                // Later the kernel sends corked data anyway.
                let is_undisturbed = begun.elapsed() < Duration::from_millis(150);
                tell("after", libc::epoll_wait(poll, &mut event, 1, 10_000));
                libc::close(poll);
                close([a, b]);
                is_undisturbed
            });
        }
    }
}

/// How long close(2) waits for unsent data (SO_LINGER): less than a second, and a second or more.
unsafe fn lingering() {
    unsafe {
        let linger = |file: c_int, seconds: c_int| {
            let given = libc::linger {
                l_onoff: 1,
                l_linger: seconds,
            };
            tell("linger", set(file, SOL_SOCKET, SO_LINGER, given));
        };
        for seconds in [1, 2] {
            let [a, b] = pair(0);
            fill(a);
            linger(a, seconds);
            let begun = Instant::now();
            tell("close", libc::close(a));
            let waited = begun.elapsed().as_secs() >= seconds as u64;
            println!("waited for {seconds} seconds: {waited}");
            println!("some came: {}", drain(b) > 0);
            libc::close(b);
        }
        println!("read meanwhile");
        let [a, b] = pair(0);
        fill(a);
        linger(a, 600);
        thread::scope(|scope| {
            let closed = scope.spawn(move || libc::close(a));
            thread::sleep(Duration::from_millis(200));
            println!("waits: {}", !closed.is_finished());
            println!("some came: {}", drain(b) > 0);
            tell("close", closed.join().unwrap_or(-1));
        });
        libc::close(b);

        println!("closed meanwhile");
        let [a, b] = pair(0);
        fill(a);
        linger(a, 600);
        thread::scope(|scope| {
            let closed = scope.spawn(move || libc::close(a));
            thread::sleep(Duration::from_millis(200));
            println!("waits: {}", !closed.is_finished());
            libc::close(b);
            tell("close", closed.join().unwrap_or(-1));
        });

        println!("another descriptor of it, and all sent");
        let [a, b] = pair(0);
        fill(a);
        linger(a, 600);
        let other = libc::dup(a);
        tell("close", libc::close(a));
        drain_some(b);
        tell("close", libc::close(other));
        libc::close(b);

        println!("a process that ends");
        let [a, b] = pair(0);
        fill(a);
        linger(a, 600);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
        // The child still has it open, and exits then.
        tell("close", libc::close(a));
        tell(
            "go on",
            libc::write(ends[1], b"x".as_ptr().cast(), 1) as i64,
        );
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell("ended", status);
        for file in [b, ends[0], ends[1]] {
            libc::close(file);
        }
    }
}

/// Reads until end-of-file; returns the number of bytes.
unsafe fn drain(file: c_int) -> usize {
    let (mut bytes, mut all) = ([0u8; 60_000], 0);
    loop {
        let got = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(got) {
            Ok(got @ 1..) => all += got,
            _ => return all,
        }
    }
}

/// Reads until nothing arrives for a while.
unsafe fn drain_some(file: c_int) {
    let mut bytes = [0u8; 60_000];
    let mut entry = libc::pollfd {
        fd: file,
        events: POLLIN,
        revents: 0,
    };
    unsafe {
        while libc::poll(&mut entry, 1, 3000) == 1 {
            libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
        }
    }
}
