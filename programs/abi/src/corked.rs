//! When the bytes of a TCP connection are sent: corked ones (TCP_CORK, MSG_MORE), and how long the
//! kernel waits for a peer (TCP_USER_TIMEOUT, TCP_LINGER2).

use std::ptr;
use std::time::{Duration, Instant};

use libc::{
    AF_INET, AF_INET6, IPPROTO_TCP, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, POLLIN, POLLOUT,
    SHUT_WR, SO_ERROR, SOCK_STREAM, c_int,
};

use crate::inet::{self, own_port};
use crate::options::value;
use crate::pipes::ready;
use crate::tell;
use crate::undisturbed;
use crate::unix::{option, receive, send, set};

const NODELAY: c_int = 1;
const MAXSEG: c_int = 2;
const CORK: c_int = 3;
const LINGER2: c_int = 8;
const WINDOW_CLAMP: c_int = 10;
const USER_TIMEOUT: c_int = 18;
const FASTOPEN: c_int = 23;
const NOTSENT_LOWAT: c_int = 25;
const FASTOPEN_CONNECT: c_int = 30;
/// SIOCOUTQNSD (`include/uapi/linux/sockios.h`).
const OUTQNSD: libc::Ioctl = 0x894b;
/// The data of a segment of 1000 bytes with TCP timestamps.
const SEGMENT: usize = 988;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for family in [AF_INET, AF_INET6] {
            println!("family {family}");
            before_sent(|| corked(family));
            before_sent(|| more(family));
        }
        before_sent(|| ends());
        before_sent(|| inherited());
        before_sent(|| spliced());
        late();
        before_sent(|| lowest());
        clamped();
        timed_out();
        lingers();
        fast();
    }
}

/// Runs a part, again if it took so long that corked bytes may have been sent anyway.
fn before_sent(part: impl Fn()) {
    undisturbed::run(|| {
        let begun = Instant::now();
        part();
        begun.elapsed() < Duration::from_millis(150)
    });
}

/// Two ends of a connection with segments of `SEGMENT` bytes; the listener of the second has the
/// options `given`.
unsafe fn pair(family: c_int, given: &[(c_int, c_int)]) -> [c_int; 2] {
    unsafe {
        let server = libc::socket(family, SOCK_STREAM, 0);
        for &(name, value) in given {
            set(server, IPPROTO_TCP, name, value);
        }
        inet::bind(server, family, 0x7f00_0001, 0);
        libc::listen(server, 1);
        let client = libc::socket(family, SOCK_STREAM, 0);
        set(client, IPPROTO_TCP, MAXSEG, 1000);
        tell(
            "connect",
            inet::connect(client, family, 0x7f00_0001, own_port(server)),
        );
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        libc::close(server);
        [client, accepted]
    }
}

unsafe fn close(ends: [c_int; 2]) {
    for end in ends {
        unsafe { libc::close(end) };
    }
}

unsafe fn count(file: c_int, request: libc::Ioctl) -> c_int {
    let mut count = -1;
    unsafe { libc::ioctl(file, request, &mut count) };
    count
}

/// The bytes that `from` has not sent yet, and those that `to` can read.
unsafe fn queues(what: &str, from: c_int, to: c_int) {
    unsafe {
        let unsent = count(from, OUTQNSD);
        println!("{what}: {unsent} {}", count(to, libc::FIONREAD));
    }
}

unsafe fn cork(file: c_int, on: c_int) {
    if set(file, IPPROTO_TCP, CORK, on) != 0 {
        tell("cork", -1);
    }
}

unsafe fn corked(family: c_int) {
    unsafe {
        let [a, b] = pair(family, &[]);
        cork(a, 1);
        tell("corked", send(a, b"one ", 0));
        queues("one", a, b);
        println!("unacknowledged: {}", count(a, libc::TIOCOUTQ));
        ready("nothing to read", b, POLLIN);
        receive("nothing yet", b, 64, MSG_DONTWAIT);
        send(a, b"two ", 0);
        queues("two", a, b);
        cork(a, 0);
        queues("uncorked", a, b);
        receive("both", b, 64, MSG_DONTWAIT);
        cork(a, 1);
        send(a, &[1; 2 * SEGMENT + 24], 0);
        queues("two segments and a part", a, b);
        send(a, &[2; SEGMENT - 24], 0);
        queues("a third", a, b);
        send(a, &[3; 10], 0);
        queues("a part", a, b);
        send(b, b"answer", 0);
        queues("answered", a, b);
        tell("nodelay", set(a, IPPROTO_TCP, NODELAY, 1));
        queues("nodelay", a, b);
        println!("corked: {}", value(a, IPPROTO_TCP, CORK));
        send(a, &[3; 10], 0);
        queues("corked again", a, b);
        send(a, b"!", MSG_OOB);
        println!("unsent: {}", count(a, OUTQNSD));
        close([a, b]);
    }
}

unsafe fn more(family: c_int) {
    unsafe {
        let [a, b] = pair(family, &[]);
        send(a, b"one ", MSG_MORE);
        queues("more", a, b);
        tell("nothing", send(a, b"", 0));
        queues("nothing", a, b);
        send(a, b"two ", MSG_MORE);
        queues("more", a, b);
        send(a, b"three", 0);
        queues("no more", a, b);
        receive("all", b, 64, MSG_DONTWAIT);
        close([a, b]);
        let [a, b] = pair(family, &[]);
        send(a, &[1; SEGMENT + 5], MSG_MORE);
        queues("a segment and a part", a, b);
        cork(a, 1);
        cork(a, 0);
        queues("uncorked", a, b);
        close([a, b]);
    }
}

/// Corked bytes are sent before the end of the connection.
unsafe fn ends() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        cork(a, 1);
        send(a, b"last", 0);
        tell("shutdown", libc::shutdown(a, SHUT_WR));
        receive("last", b, 64, MSG_DONTWAIT);
        receive("end", b, 64, MSG_DONTWAIT);
        close([a, b]);
        let [a, b] = pair(AF_INET, &[]);
        send(a, b"last", MSG_MORE);
        libc::close(a);
        receive("last", b, 64, MSG_DONTWAIT);
        receive("end", b, 64, MSG_DONTWAIT);
        libc::close(b);
        // Corked bytes do not count as unread by the peer, whose close sends no reset.
        let [a, b] = pair(AF_INET, &[]);
        send(a, b"last", MSG_MORE);
        libc::close(b);
        receive("end", a, 64, MSG_DONTWAIT);
        tell("error", option(a, SO_ERROR));
        libc::close(a);
    }
}

unsafe fn inherited() {
    unsafe {
        let [a, b] = pair(AF_INET, &[(CORK, 1)]);
        println!("accepted: {}", value(b, IPPROTO_TCP, CORK));
        send(b, b"one", 0);
        queues("accepted", b, a);
        close([a, b]);
    }
}

/// Corked data of splice and sendfile.
unsafe fn spliced() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        let mut pipe = [-1; 2];
        libc::pipe(pipe.as_mut_ptr());
        for (what, flags) in [("more", libc::SPLICE_F_MORE), ("no more", 0)] {
            libc::write(pipe[1], b"spliced".as_ptr().cast(), 7);
            tell(
                what,
                libc::splice(pipe[0], ptr::null_mut(), a, ptr::null_mut(), 7, flags) as i64,
            );
            queues(what, a, b);
        }
        let file = libc::open(
            c"file".as_ptr(),
            libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
            0o600,
        );
        libc::write(file, b"file".as_ptr().cast(), 4);
        for count in [4, 100] {
            libc::lseek(file, 0, libc::SEEK_SET);
            tell(
                "sendfile",
                libc::sendfile(a, file, ptr::null_mut(), count) as i64,
            );
            queues("sendfile", a, b);
        }
        cork(a, 1);
        libc::lseek(file, 0, libc::SEEK_SET);
        libc::sendfile(a, file, ptr::null_mut(), 4);
        queues("corked", a, b);
        for file in [file, pipe[0], pipe[1], a, b] {
            libc::close(file);
        }
    }
}

/// Corked bytes are sent after a fifth of a second.
unsafe fn late() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        for (on, flags) in [(1, 0), (1, 0), (0, MSG_MORE)] {
            undisturbed::run(|| {
                let begun = Instant::now();
                cork(a, on);
                send(a, b"late", flags);
                receive("at once", b, 64, MSG_DONTWAIT);
                let undisturbed = begun.elapsed() < Duration::from_millis(150);
                if undisturbed {
                    receive("later", b, 64, 0);
                } else {
                    receive("none left", b, 64, MSG_DONTWAIT);
                }
                undisturbed
            });
        }
        close([a, b]);
    }
}

/// TCP_NOTSENT_LOWAT.
unsafe fn lowest() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        tell("lowat", set(a, IPPROTO_TCP, NOTSENT_LOWAT, 100));
        cork(a, 1);
        send(a, &[1; 49], 0);
        ready("49 of 100", a, POLLOUT);
        send(a, &[1; 1], 0);
        ready("50 of 100", a, POLLOUT);
        tell("more", send(a, &[1; 100], MSG_DONTWAIT));
        ready("150 of 100", a, POLLOUT);
        tell("lowat", set(a, IPPROTO_TCP, NOTSENT_LOWAT, 0));
        ready("150 of as many", a, POLLOUT);
        tell("lowat", set(a, IPPROTO_TCP, NOTSENT_LOWAT, 100));
        cork(a, 0);
        queues("uncorked", a, b);
        ready("nothing of 100", a, POLLOUT);
        close([a, b]);
    }
}

/// TCP_WINDOW_CLAMP: a connected socket refuses 0.
unsafe fn clamped() {
    unsafe {
        let [a, b] = pair(AF_INET, &[(WINDOW_CLAMP, 4096)]);
        println!("clamp: {}", value(b, IPPROTO_TCP, WINDOW_CLAMP));
        tell("none", set(b, IPPROTO_TCP, WINDOW_CLAMP, 0));
        close([a, b]);
    }
}

/// TCP_USER_TIMEOUT: data for which the peer, which does not read, has no room.
unsafe fn timed_out() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        tell("timeout", set(a, IPPROTO_TCP, USER_TIMEOUT, 5000));
        while send(a, &[1; 60_000], MSG_DONTWAIT) > 0 {}
        tell("full", -1);
        let mut entry = libc::pollfd {
            fd: a,
            events: 0,
            revents: 0,
        };
        tell("poll", libc::poll(&mut entry, 1, 60_000));
        ready("events", a, POLLIN | POLLOUT | libc::POLLRDHUP);
        tell("send", send(a, b"x", MSG_NOSIGNAL));
        tell("send", send(a, b"x", MSG_NOSIGNAL));
        receive("end", a, 64, MSG_DONTWAIT);
        println!("there: {}", count(b, libc::FIONREAD) > 2000);
        tell("peer's error", option(b, SO_ERROR));
        ready("peer", b, POLLIN | POLLOUT | libc::POLLRDHUP);
        close([a, b]);
    }
}

/// TCP_LINGER2: with a negative value, a closed socket ends its connection at once.
unsafe fn lingers() {
    unsafe {
        for seconds in [10, -1] {
            let [a, b] = pair(AF_INET, &[]);
            tell("linger", set(a, IPPROTO_TCP, LINGER2, seconds));
            libc::close(a);
            inet::await_answers();
            ready("peer", b, POLLIN | POLLOUT | libc::POLLRDHUP);
            receive("end", b, 64, MSG_DONTWAIT);
            tell("send", send(b, b"x", MSG_NOSIGNAL));
            tell("send", send(b, b"x", MSG_NOSIGNAL));
            tell("error", option(b, SO_ERROR));
            libc::close(b);
        }
    }
}

/// Options of TCP fast open on a connected socket, and on a new one.
unsafe fn fast() {
    unsafe {
        let [a, b] = pair(AF_INET, &[]);
        for (name, value) in [(FASTOPEN, 5), (FASTOPEN_CONNECT, 1), (FASTOPEN_CONNECT, 2)] {
            tell("fastopen", set(a, IPPROTO_TCP, name, value));
        }
        close([a, b]);
        let fresh = libc::socket(AF_INET, SOCK_STREAM, 0);
        for (name, value) in [(FASTOPEN, -1), (FASTOPEN, 5), (FASTOPEN_CONNECT, 1)] {
            tell("fastopen", set(fresh, IPPROTO_TCP, name, value));
        }
        libc::close(fresh);
    }
}
